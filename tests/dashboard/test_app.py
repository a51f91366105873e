"""The dashboard keeps its door, says what is wrong in a page, and shows what the log holds."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, MutableMapping
from contextlib import closing
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest
from tests.dashboard.dashboard_logs import ATTACK, REFUSAL, empty_log, filled_log, scene_of, session_of, swollen_log
from tests.http.serving import serving

from demur.dashboard.app import DashboardSettings, dashboard_app
from demur.dashboard.values import ShadowCount
from demur.policy.files import read_policies
from demur.policy.gate import load_gate
from demur.policy.values import SAFETY_VOCABULARY
from demur.record.store.location import LogPlace, log_place

TOKEN = "a-token-for-the-tests"  # noqa: S105 — a token of the tests
EXCHANGES = 400
PAGES = ("", "sessions", "compare", "policies", "health", "exchange/3")


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        return None


def ask(url: str, *, body: bytes | None = None, **headers: str) -> tuple[int, str, Message]:
    """Return status, body and headers of one request, redirects not followed."""
    request = Request(url, data=body, headers={name.replace("_", "-"): value for name, value in headers.items()})  # noqa: S310 — loopback
    try:
        with build_opener(_Stay).open(request) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode(), exc.headers


def page(url: str, path: str) -> tuple[int, str]:
    status, body, _ = ask(f"{url}/-/{path}", Authorization=f"Bearer {TOKEN}")
    return status, body


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> LogPlace:
    return filled_log(tmp_path_factory.mktemp("log"), EXCHANGES)


@pytest.fixture(scope="module")
def url(place: LogPlace) -> Iterator[str]:
    with serving(dashboard_app(place, DashboardSettings(TOKEN))) as address:
        yield address


@pytest.fixture(scope="module")
def open_url(place: LogPlace) -> Iterator[str]:
    """The same log with texts, its policy to replay with, and a policy in the shadow."""
    assert place.folder is not None
    gate = load_gate(read_policies([str(place.folder / "policy")]).sources, vocabulary=SAFETY_VOCABULARY)
    shadow = (ShadowCount("request", "allow", "deny", 7), ShadowCount("request", "allow", "allow", 90))
    settings = DashboardSettings(TOKEN, texts=True, replays={gate.digest: gate.replay}, shadow=lambda: shadow)
    with serving(dashboard_app(place, settings)) as address:
        yield address


def change(place: LogPlace, statement: str) -> None:
    """Change the records of a log behind its back."""
    with closing(sqlite3.connect(place.store)) as db, db:
        db.execute(f"UPDATE records SET {statement}")  # noqa: S608 — of the tests


def index_of(kind: str) -> int:
    return next(number for number in range(EXCHANGES) if scene_of(number).kind == kind)


@pytest.mark.parametrize("path", PAGES)
def test_a_stranger_is_sent_to_the_login(url: str, path: str) -> None:
    """Without the token no page is to be had, and nothing of the log is in the answer."""
    status, body, headers = ask(f"{url}/-/{path}")
    assert (status, body, headers["location"]) == (303, "", "/-/login")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_guarded_by_its_headers(open_url: str, path: str) -> None:
    """A page may load and send nothing beyond its own server, needs nothing else, is framed by nobody and stored nowhere."""
    status, body, headers = ask(f"{open_url}/-/{path}", Authorization=f"Bearer {TOKEN}")
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'; script-src 'self'")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    # No inline script, style or handler, and no other host.
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! src)", body)
    assert not re.search(r"(?:src|href|action)=.?(?:https?:)?//", body)


def test_the_token_opens_and_the_cookie_is_not_the_token(url: str) -> None:
    """The right token gives a cookie for this site alone that opens pages and does not hold the token."""
    status, _, headers = ask(f"{url}/-/login", body=urlencode({"token": TOKEN}).encode())
    cookie = headers["set-cookie"]
    assert status == 303
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=Strict", "Path=/-/"} <= set(cookie.split("; "))
    assert ask(f"{url}/-/", Cookie=cookie.partition(";")[0])[0] == 200


@pytest.mark.parametrize("given", ["", "wrong", TOKEN[:-1], TOKEN + "x", "\N{SNOWMAN}"])
def test_another_token_does_not_open(url: str, given: str) -> None:
    """A wrong token is told so, without a cookie."""
    status, body, headers = ask(f"{url}/-/login", body=urlencode({"token": given}).encode())
    assert status == 403
    assert "not the token" in body
    assert headers["set-cookie"] is None


def test_leaving_takes_the_cookie_back(url: str) -> None:
    """Logging out ends the cookie; a page cannot be asked to do so by a link."""
    assert "Max-Age=0" in ask(f"{url}/-/logout", body=b"")[2]["set-cookie"]
    assert ask(f"{url}/-/logout")[0] == 405


def test_a_forged_or_broken_cookie_opens_nothing(url: str) -> None:
    """Cookies that were not given here are those of a stranger."""
    for cookie in ("demur_dashboard=", f"demur_dashboard={TOKEN}", "demur_dashboard=" + "0" * 64, "=;;="):
        assert ask(f"{url}/-/", Cookie=cookie)[0] == 303


def test_without_a_token_only_loopback_names_are_answered(place: LogPlace) -> None:
    """A dashboard without a token refuses a foreign name that was pointed at this machine."""
    with serving(dashboard_app(place, DashboardSettings(None))) as address:
        assert ask(f"{address}/-/")[0] == 200
        assert ask(f"{address}/-/", Host="rebound.example")[0] == 403


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("client", "host", "status"),
    [
        ("127.0.0.1", "localhost:8090", 200),
        ("::1", "[::1]", 200),
        ("::1", "[::1]:8090", 200),
        ("192.0.2.7", "localhost", 403),
        ("127.0.0.1", "", 403),
        ("127.0.0.1", "localhost.example:80", 403),
    ],
)
async def test_without_a_token_a_stranger_cannot_pretend(place: LogPlace, client: str, host: str, status: int) -> None:
    """Neither another machine that says `localhost` nor another name for this one is let in without a token."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asked = {"type": "http", "method": "GET", "path": "/-/health", "headers": [(b"host", host.encode())]}
    await dashboard_app(place, DashboardSettings(None))({**asked, "client": (client, 1)}, receive, send)
    assert sent[0]["status"] == status


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("?range=9y", "`range` cannot be `9y`"),
        ("?since=yesterday", "`since` is no day"),
        ("?since=2026-02-30", "`since` is no day"),
        ("?since=2026-01-28&until=2026-01-21", "before it begins"),
        ("sessions?decision=maybe", "`decision` cannot be"),
        ("sessions?before=-1", "`before` is no number"),
        ("sessions?cause=%3Cscript%3E", "&lt;script&gt;"),
        ("sessions?q=" + "x" * 501, "longer than 500"),
        ("sessions?q=%ff", "cannot be read"),
        ("compare?measure=luck", "`measure` cannot be"),
        ("session", "Which session?"),
        ("exchange", "Which exchange?"),
    ],
)
def test_what_cannot_be_meant_is_said_in_a_sentence(url: str, path: str, said: str) -> None:
    """A bad parameter is status 400 and a page whose heading says what is wrong."""
    status, body = page(url, path)
    assert status == 400
    heading = re.search(r"<h2>(.*?)</h2>", body)
    assert heading is not None
    assert said.lower() in heading[1].lower()


@pytest.mark.parametrize(
    "path", ["nowhere", "exchange/999999", "exchange/x", "session?id=nobody", "exchange?session=x&seq=0"]
)
def test_what_is_not_there_is_not_found(url: str, path: str) -> None:
    """A page, record or session that does not exist is status 404 and a page."""
    status, body = page(url, path)
    assert status == 404
    assert "<h1>Not found</h1>" in body


def test_the_overview_counts_what_the_log_holds(url: str) -> None:
    """The whole period's figures are those of the exchanges on record."""
    _, body = page(url, "?range=all")
    kinds = [scene_of(number).kind for number in range(EXCHANGES)]
    answered = EXCHANGES - kinds.count("attack") - kinds.count("failed")
    assert f'<dd class="figure">{EXCHANGES}</dd>' in body
    assert f"{kinds.count('refused')} of {answered}\n" in body
    assert f"{kinds.count('filtered')} of {answered}\n" in body
    assert f"{kinds.count('attack')} of {EXCHANGES}\n" in body
    assert "<dt>injection</dt>" in body
    assert f'<dd class="num">{kinds.count("attack")}</dd>' in body


def test_filters_find_exactly_the_exchanges_that_fit(url: str) -> None:
    """Every session listed under a filter is listed at an exchange that fits it."""
    denied = {number for number in range(EXCHANGES) if scene_of(number).kind == "attack"}
    listed, same = (
        {int(number) for number in re.findall(r"/-/exchange/([0-9]+)", page(url, f"sessions?{query}")[1])}
        for query in ("decision=deny", "rule=no-attacks&cause=gateway_block")
    )
    assert set() < listed <= denied
    assert same == listed


def walked(url: str, path: str) -> list[str]:
    """Return the sessions of a list, page after page."""
    found: list[str] = []
    for _ in range(200):
        _, body = page(url, path)
        found += re.findall(r"/-/session\?id=([^\"]+)", body)
        following = re.search(r'rel="next" href="/-/([^"]+)"', body)
        if following is None:
            return found
        path = following[1].replace("&amp;", "&")
    raise AssertionError("the list has no end")


@pytest.mark.parametrize(
    "query", ["sessions", "sessions?model=small-2026", "sessions?q=0", "sessions?since=2026-01-22&until=2026-01-25"]
)
def test_pages_hold_each_session_once(url: str, query: str) -> None:
    """Walking from page to page shows every session that fits, and none twice."""
    found = walked(url, query)
    assert found
    assert len(found) == len(set(found))
    if query == "sessions":
        assert len(found) == len({session_of(number) for number in range(EXCHANGES)})


def test_a_session_is_found_by_the_beginning_of_its_name(url: str) -> None:
    """A search lists the sessions whose names begin so, and `#12` leads to the record."""
    name = walked(url, "sessions")[0]
    assert walked(url, f"sessions?q={quote(name[:5])}") == [name]
    status, _, headers = ask(f"{url}/-/sessions?q=%2312", Authorization=f"Bearer {TOKEN}")
    assert (status, headers["location"]) == (303, "/-/exchange/12")


def test_no_text_is_shown_unless_texts_are_on(url: str, open_url: str) -> None:
    """The same record shows its texts, evidence marked, only where texts are on."""
    attacked, refused = index_of("attack"), index_of("refused")
    assert ATTACK[:20] not in page(url, f"exchange/{attacked}")[1]
    assert "t help with that" not in page(url, f"exchange/{refused}")[1]
    assert "<mark>" in page(open_url, f"exchange/{attacked}")[1]
    assert "help with that</mark>" in page(open_url, f"exchange/{refused}")[1]
    assert REFUSAL.rpartition(" ")[2] in page(open_url, f"exchange/{refused}")[1]


def test_a_passport_is_checked_in_place(open_url: str) -> None:
    """Signature, inclusion, sequence, gaps and replay of an untouched record hold."""
    _, body = page(open_url, f"exchange/{index_of('attack')}")
    assert body.count('<span class="tag holds">holds</span>') == 5
    assert "no-attacks" in body
    assert "the prompt tries to override its instructions" in body


def test_a_changed_record_fails_its_checks(tmp_path: Path) -> None:
    """One changed word in a stored record shows on its page, and the page still opens."""
    place = filled_log(tmp_path / "log", 12)
    change(place, "payload = CAST(replace(CAST(payload AS TEXT), 'small-2026', 'giant-2026') AS BLOB) WHERE idx = 0")
    with serving(dashboard_app(place, DashboardSettings(TOKEN))) as address:
        _, body = page(address, "exchange/0")
    assert body.count('<span class="tag fails">fails</span>') >= 2


def test_without_the_policy_a_replay_is_open(url: str) -> None:
    """A check that cannot be made says so."""
    _, body = page(url, "exchange/3")
    assert '<span class="tag open">not checked</span><span>its policy was not given' in body


@pytest.mark.heavy
def test_two_models_are_compared_as_demur_diff_would(url: str) -> None:
    """The comparison is the unpaired score interval over the counts of the two models."""
    _, body = page(url, "compare?a_model=small-2026&b_model=legacy-chat")
    assert "not paired" in body
    assert "Miettinen" in body
    assert "Nothing to compare" in page(url, "compare?a_model=small-2026&b_model=nobody")[1]
    denied = page(url, "compare?a_model=small-2026&b_model=large-2026&measure=denied")[1]
    assert "whether denials changed" in denied
    assert "denied is counted of all exchanges" in denied
    assert "Both sides are the same" in page(url, "compare?a_model=small-2026&b_model=small-2026")[1]


def test_policies_say_how_often_each_rule_fired(url: str, open_url: str) -> None:
    """The count of a rule is that of the exchanges in which it fired; a policy in the shadow is shown where there is one."""
    kinds = [scene_of(number).kind for number in range(EXCHANGES)]
    body = page(open_url, "policies?range=all")[1]
    assert re.search(rf'no-attacks</a></th>.*?data-head="Times">{kinds.count("attack")}</td>', body, re.DOTALL)
    assert "of 97 decisions" in body
    assert "No policy is known to run in the shadow" in page(url, "policies")[1]


def test_an_empty_log_is_a_page(tmp_path: Path) -> None:
    """Every page of a log without a record opens."""
    with serving(dashboard_app(empty_log(tmp_path / "log"), DashboardSettings(TOKEN))) as address:
        for path in ("", "sessions", "compare", "policies", "health"):
            assert page(address, path)[0] == 200
        assert "Nothing is on record yet" in page(address, "")[1]
        assert "curl http://127.0.0.1:8080/v1/chat/completions" in page(address, "")[1]
        assert "Nothing is on record yet" in page(address, "compare")[1]
        assert "<dt>Checkpoints</dt><dd>none yet</dd>" in page(address, "health")[1]


def test_a_store_that_cannot_be_read_is_a_page(tmp_path: Path) -> None:
    """A missing or damaged store is status 503 and a sentence."""
    with serving(dashboard_app(log_place(str(tmp_path / "none")), DashboardSettings(TOKEN))) as address:
        status, body = page(address, "")
    assert (status, "there is no store at" in body.lower()) == (503, True)
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "log.db").write_bytes(b"no store" * 1000)
    with serving(dashboard_app(log_place(str(folder)), DashboardSettings(TOKEN))) as address:
        for path in PAGES:
            assert page(address, path)[0] == 503


def test_a_record_that_cannot_be_read_is_listed_as_such(tmp_path: Path) -> None:
    """One damaged record spoils neither the lists nor the counts."""
    place = filled_log(tmp_path / "log", 12)
    change(place, "payload = x'7b' WHERE idx = 11")
    with serving(dashboard_app(place, DashboardSettings(TOKEN))) as address:
        assert "unreadable" in page(address, "sessions")[1]
        assert "1 record cannot be read" in page(address, "")[1]
        assert page(address, "exchange/11")[0] == 503


@pytest.mark.heavy
def test_a_long_log_is_read_in_bounded_steps(tmp_path: Path) -> None:
    """Of 20,000 records a page reads a bounded part, says how far it came, and its links lead on."""
    place = swollen_log(tmp_path / "log", 19)
    with serving(dashboard_app(place, DashboardSettings(TOKEN))) as address:
        assert "Counted over the latest" in page(address, "policies")[1]
        _, body = page(address, "sessions?rule=nobody-wrote-it")
        assert "No session fits" in body or "Searched back to" in body
        assert len(walked(address, "sessions?q=013-")) == 252
        assert page(address, "exchange/19999")[0] == 200
