"""The dashboard inside the gateway: behind its token, in every worker, and never mistaken for the provider's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.dashboard.test_app import ask
from tests.gateway.gateway_process import Started, gateway_call, gateway_process
from tests.gateway.gatewaying import (
    ATTACK,
    CHAT,
    HARMLESS,
    POLICY_FILE,
    Running,
    chat,
    gateway,
    one_key,
    passports,
    provider,
    settings_for,
)
from tests.http.serving import serving

from demur.cli.gateway import MountedDashboard
from demur.gateway.request import is_dashboard_path
from demur.gateway.run import running_gateway
from demur.gateway.settings import DashboardPart, DisclosurePart, PolicyPart

pytestmark = pytest.mark.heavy

TOKEN = "a-token-for-the-tests"  # noqa: S105 — a token of the tests
PAGES = ("", "sessions", "compare", "policies", "health", "exchange/0")


def opened(url: str, path: str, token: str = TOKEN) -> tuple[int, str]:
    status, body, _ = ask(f"{url}/-/{path}", Authorization=f"Bearer {token}")
    return status, body


def links_in(page: str) -> set[str]:
    return {unescape(link) for link in re.findall(r'(?:href|src|action)="([^"#]+)', page)}


def followed(started: Started) -> None:
    """Open every page that a page leads to, with the cookie of one login, over a new connection each."""
    status, _, headers = ask(f"{started.url}/-/login", body=urlencode({"token": started.token}).encode())
    assert status == 303
    cookie = headers["set-cookie"].partition(";")[0]
    seen, left = {"/-/logout", "/-/login"}, {"/-/"}
    while left:
        path = left.pop()
        seen.add(path)
        status, page, headers = ask(f"{started.url}{path}", Cookie=cookie)
        found = {headers["location"]} if status == 303 else links_in(page)
        assert status in (200, 303), path
        assert all(link.startswith(("/-/", "?", "data:")) for link in found), found
        assert headers["location"] != "/-/login"
        left |= {link for link in found if link.startswith("/-/")} - seen
    assert {"/-/sessions", "/-/health", "/-/exchange/0"} <= seen


@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_is_there_by_default_in_every_worker(tmp_path: Path, workers: str) -> None:
    """A token is printed at the start and opens every page that links lead to, whichever worker answers; it is in no log."""
    with serving(provider()) as url, gateway_process(tmp_path, "--upstream", url, "--workers", workers) as started:
        assert len(started.token) >= 32
        for number in range(8):
            assert started.running.knock(CHAT, chat(HARMLESS), x_session_id=f"s{number % 2}").status == 200
        assert ask(f"{started.url}/-/sessions")[0] == 303
        followed(started)
        assert started.end() == 0
    logged = [line for line in started.said if not line.startswith("dashboard at")]
    assert any(json.loads(line)["event"] == "exchange" for line in logged if line.startswith("{"))
    assert started.token not in "".join(logged)
    assert not any(started.token.encode() in path.read_bytes() for path in (tmp_path / "log").iterdir())


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    """Turned off, nothing is printed, and its paths are a 404 of the gateway's, not the provider's."""
    stub = provider()
    off = {"DEMUR_GATEWAY_DASHBOARD_ON": "off"}
    with serving(stub) as url, gateway_process(tmp_path, "--upstream", url, **off) as started:
        got = started.running.knock("/-/", method="GET")
        assert (got.status, got.json["error"]["code"]) == (404, "unknown_path")
        assert not any("dashboard" in line for line in started.said)
    assert stub.asked == []


def test_a_token_of_ones_own_is_not_printed(tmp_path: Path) -> None:
    """A token from a variable opens the pages and stands nowhere; one that is too short is refused at the start."""
    named = {"DEMUR_GATEWAY_DASHBOARD_TOKEN_ENV": "DEMUR_GATEWAY_SECRET"}
    with gateway_process(tmp_path, **named, DEMUR_GATEWAY_SECRET=TOKEN) as started:
        assert opened(started.url, "health")[0] == 200
        assert opened(started.url, "health", TOKEN[:-1])[0] == 303
    assert TOKEN not in "".join(started.said)
    assert started.dashboard == f"{started.url}/-/"
    done = gateway_call(tmp_path, **named, DEMUR_GATEWAY_SECRET=TOKEN[:5])
    assert done.returncode == 2
    assert "holds no token" in done.stderr


OURS = [
    "/-",
    "/-/",
    "/-/health",
    "/-/v1/chat/completions",
    "/-/../v1/chat/completions",
    "//-/health",
    "/./-/health",
    "/v1/../-/health",
    "/%2d/health",
    "/%252d/health",
    "/%2F-/health",
    "/-%2fhealth",
]


@pytest.mark.parametrize("on", [True, False])
def test_no_spelling_leads_to_the_provider(tmp_path: Path, *, on: bool) -> None:
    """Whatever could be read as a path of the dashboard ends here, whatever the method, and is a 404 where it is off; nothing is forwarded."""
    stub = provider()
    pages = MountedDashboard(TOKEN) if on else None
    with serving(stub) as url, gateway(tmp_path, url, pages=pages) as running:
        for path in OURS:
            for method in ("GET", "POST", "DELETE"):
                got = running.knock(path, chat(HARMLESS) if method == "POST" else None, method=method)
                assert got.status in ((303, 404, 405) if on else (404,))
        assert stub.asked == []
        assert running.knock("/v1/-/x", method="GET").status == 200
        assert running.ask().status == 200


def test_paths_of_the_dashboard_are_told_apart() -> None:
    """Only the first step of a path makes it ours."""
    assert all(map(is_dashboard_path, OURS))
    assert not any(map(is_dashboard_path, ["/", "/--/", "/v1/-/", "/-x", "/v1/chat-completions", "/%2e/v1"]))


def test_its_token_and_clients_keys_are_two_things(tmp_path: Path) -> None:
    """A client's key opens no page, the dashboard's token asks no model."""
    key, keys = one_key(tmp_path)
    with gateway(tmp_path, "http://127.0.0.1:9", keys=keys, pages=MountedDashboard(TOKEN)) as running:
        assert opened(running.url, "health", key)[0] == 303
        assert opened(running.url, "health")[0] == 200
        assert running.knock(CHAT, chat(HARMLESS), authorization=f"Bearer {TOKEN}").status == 401


RULE = '@id("{0}") @decision("deny") @reason("no")\nforbid (principal, action == Action::"request", resource) when {{ context.claims.adversarial_flagged }};'


def denied_by(running: Running, rule: str) -> bool:
    return running.ask(ATTACK).headers["x-demur-rules"] == rule


def test_decisions_are_replayed_under_their_own_policy(tmp_path: Path) -> None:
    """A record's page replays its decision by the policy that made it, though another holds by now."""
    more: dict[str, Any] = {"policy": RULE.format("one"), "reload_s": 0.02, "pages": MountedDashboard(TOKEN)}
    with gateway(tmp_path, "http://127.0.0.1:9", **more) as running:
        assert denied_by(running, "one")
        (tmp_path / "policies" / POLICY_FILE).write_text(RULE.format("two"), encoding="utf-8")
        assert any(denied_by(running, "two") for _ in range(5000))
        for place in (0, len(passports(tmp_path)) - 1):
            assert (
                "the policy, put to what was recorded, decides the same" in opened(running.url, f"exchange/{place}")[1]
            )


@pytest.mark.parametrize("texts", [True, False])
def test_texts_are_shown_only_where_the_settings_say_so(tmp_path: Path, *, texts: bool) -> None:
    """Kept texts are on the page of their exchange with `dashboard.texts`, and nowhere without."""
    more: dict[str, Any] = {"disclosure": DisclosurePart(on=True), "dashboard": DashboardPart(texts=texts)}
    with serving(provider()) as url, gateway(tmp_path, url, pages=MountedDashboard(TOKEN), **more) as running:
        running.ask("zanzibar")
        pages = "".join(opened(running.url, path)[1] for path in PAGES)
    assert ("zanzibar" in pages) is texts


def test_a_policy_in_the_shadow_is_counted_and_not_acted_on(tmp_path: Path) -> None:
    """What a second policy would have decided stands in the figures and on the page; the first one's decision holds."""
    policies = PolicyPart(paths=(), shadow=("block-attacks",))
    with serving(provider()) as url:
        settings = replace(settings_for(tmp_path, url), policy=policies)
        with running_gateway(settings, dashboard=MountedDashboard(TOKEN)) as address:
            running = Running(address)
            assert running.ask(ATTACK).status == 200
            assert re.search(r'demur_shadow_total{phase="request",live="\w+",shadow="deny"} 1\n', running.metrics())
            page = opened(address, "policies")[1]
            assert "what a policy that is not yet in force would have decided" in page
            assert "No policy is known to run in the shadow" not in page
