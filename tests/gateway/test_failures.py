"""When something fails: the provider, an auditor, the store, the policy's files. Each is closed or open by its setting."""

from __future__ import annotations

import socket
import sqlite3
from typing import TYPE_CHECKING, Any

import openai
import pytest
from tests.gateway.gatewaying import HARMLESS, POLICY_FILE, Running, chat, gateway, passports, verified
from tests.gateway.test_streams import Stub
from tests.http.serving import serving
from tests.patience import until

from demur.gateway.settings import (
    AuditorsPart,
    FailurePart,
    LimitsPart,
    OnFailure,
    TimeoutsPart,
)
from demur.model.claim import Phase
from demur.model.passport import DeclineCause, Passport
from demur.simulate.server.run import running_simulator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demur.simulate.server.run import RunningSimulator

CHAT = "/v1/chat/completions"
ALLOW = '@id("seen") @decision("log")\nforbid (principal, action, resource) when { context.claims.model_refused };'


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


@pytest.mark.parametrize(("scenario", "status"), [("fault-429", 429), ("fault-500", 500), ("fault-503", 503)])
def test_a_providers_errors_pass(tmp_path: Path, simulator: RunningSimulator, scenario: str, status: int) -> None:
    """The provider's own errors come back as they are, retry headers included, and are on record with their status."""
    simulator.refuse_by(scenario)
    with gateway(tmp_path, simulator.url) as running:
        got = running.knock(CHAT, chat(HARMLESS))
    assert got.status == status
    assert "error" in got.json
    assert status != 429 or got.headers["retry-after"] == "1"
    (found,) = passports(tmp_path)
    assert (found.upstream_status, found.causes) == (status, (DeclineCause.PROVIDER_ERROR,))


def test_a_providers_400_filter_is_a_filter(tmp_path: Path, simulator: RunningSimulator) -> None:
    """Azure's 400 by its filter passes, and its cause is the filter, not the error."""
    simulator.refuse_by("filter-azure-400")
    with (
        gateway(tmp_path, simulator.url) as running,
        running.azure() as client,
        pytest.raises(openai.BadRequestError),
    ):
        client.chat.completions.create(**chat(HARMLESS))
    (found,) = passports(tmp_path)
    assert (found.upstream_status, found.causes) == (400, (DeclineCause.PROVIDER_FILTER,))


def test_nobody_at_the_address_is_a_502(tmp_path: Path) -> None:
    """A provider that cannot be reached is a 502 in the provider's shape, on record without a status of its own."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with gateway(tmp_path, f"http://127.0.0.1:{port}") as running:
        got = running.knock(CHAT, chat(HARMLESS))
        assert (got.status, got.json["error"]["code"]) == (502, "upstream_connect")
        got = running.knock("/v1/messages", {"model": "m", "max_tokens": 9, "messages": chat(HARMLESS)["messages"]})
        assert (got.status, got.json["type"]) == (502, "error")
        assert 'demur_upstream_failures_total{fault="connect"} 2' in running.metrics()
    first, _ = passports(tmp_path)
    assert (first.upstream_status, first.causes) == (None, (DeclineCause.PROVIDER_ERROR,))


def test_a_provider_that_says_nothing_is_a_504(tmp_path: Path) -> None:
    """A provider that takes the request and stays silent is given up after the time set."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with gateway(tmp_path, url, timeouts=TimeoutsPart(read_s=0.2)) as running:
            got = running.knock(CHAT, chat(HARMLESS))
    assert (got.status, got.json["error"]["code"]) == (504, "upstream_timeout")


@pytest.mark.parametrize(
    ("mode", "status", "gaps"), [("closed", 403, []), ("warn", 200, ["failed_open"]), ("open", 200, ["failed_open"])]
)
def test_an_auditor_that_is_down(
    tmp_path: Path, simulator: RunningSimulator, mode: str, status: int, gaps: list[str]
) -> None:
    """An auditor nobody answers for denies, warns or passes by its mode; what it let through is a gap on record."""
    simulator.refuse_by("answer")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    chain = tmp_path / "auditors.yaml"
    chain.write_text(
        f"chain:\n  - name: gone\n    url: http://127.0.0.1:{port}\n    phases: [request]\n    on_error: {mode}\n",
        encoding="utf-8",
    )
    with gateway(tmp_path, simulator.url, policy=ALLOW, auditors=AuditorsPart(str(chain))) as running:
        got = running.knock(CHAT, chat(HARMLESS))
        part = 'demur_fail_closed_total{part="auditors"} 1' if mode == "closed" else "demur_fail_open_total"
        assert part in running.metrics()
    assert got.status == status
    assert got.headers["x-demur-decision"] == {"closed": "deny", "warn": "warn", "open": "allow"}[mode]
    (found,) = passports(tmp_path)
    assert [gap.what for gap in found.gaps] == gaps
    assert verified(tmp_path).faults == ()


@pytest.mark.parametrize(("mode", "status"), [(OnFailure.CLOSED, 503), (OnFailure.OPEN, 200)])
def test_a_store_that_takes_nothing(tmp_path: Path, simulator: RunningSimulator, mode: OnFailure, status: int) -> None:
    """Without a record there is no answer, or there is and the loss is counted, by the setting; then it is taken up again."""
    simulator.refuse_by("answer")
    with gateway(tmp_path, simulator.url, failure=FailurePart(store=mode)) as running:
        assert running.knock(CHAT, chat(HARMLESS)).status == 200
        lock = sqlite3.connect(tmp_path / "log" / "log.db", isolation_level=None)
        lock.execute("DROP TABLE IF EXISTS entries_moved")
        tables = [name for (name,) in lock.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        held = next(name for name in tables if name not in ("state", "sqlite_sequence"))
        lock.execute(f'ALTER TABLE "{held}" RENAME TO entries_moved')
        got = running.knock(CHAT, chat(HARMLESS))
        assert got.status == status
        assert running.knock("/readyz", method="GET").json == {"status": "unready", "troubles": ["store"]}
        streamed = running.knock(CHAT, chat(HARMLESS, stream=True))
        assert streamed.status == status
        lock.execute(f'ALTER TABLE entries_moved RENAME TO "{held}"')
        lock.close()
        assert running.knock(CHAT, chat(HARMLESS)).status == 200
        assert running.knock("/readyz", method="GET").status == 200
        word = "closed" if mode is OnFailure.CLOSED else "open"
        assert f'demur_fail_{word}_total{{part="store"}}' in running.metrics()
        kind = "5xx" if mode is OnFailure.CLOSED else "2xx"
        asked = {"5xx": 2, "2xx": 4}[kind]
        assert f'demur_requests_total{{shape="openai_chat",status="{kind}"}} {asked}' in running.metrics()
    assert verified(tmp_path).faults == ()


@pytest.mark.parametrize(("mode", "status"), [(OnFailure.CLOSED, 503), (OnFailure.OPEN, 200)])
def test_a_policy_that_does_not_load(tmp_path: Path, simulator: RunningSimulator, mode: OnFailure, status: int) -> None:
    """Broken files leave the last good policy in force, on record as stale, or deny until they are mended."""
    simulator.refuse_by("answer")
    more: dict[str, Any] = {"failure": FailurePart(policy_reload=mode), "reload_s": 0.02}
    rules = tmp_path / "policies" / POLICY_FILE
    with gateway(tmp_path, simulator.url, policy=ALLOW, **more) as running:
        assert running.knock(CHAT, chat(HARMLESS)).status == 200
        rules.write_text("forbid (", encoding="utf-8")
        until(lambda: "policy_reload" in running.metrics())
        assert running.knock(CHAT, chat(HARMLESS)).status == status
        rules.write_text(ALLOW.replace("log", "warn"), encoding="utf-8")
        until(lambda: len({p.policy_digest for p in _asked_again(running, tmp_path)}) == 2)
        assert running.knock("/readyz", method="GET").status == 200
    stale = [passport for passport in passports(tmp_path) if passport.gaps]
    assert mode is OnFailure.CLOSED or {(g.phase, g.what) for p in stale for g in p.gaps} == {
        (Phase.REQUEST, "policy_stale")
    }


def _asked_again(running: Running, folder: Path) -> list[Passport]:
    running.knock(CHAT, chat(HARMLESS))
    return passports(folder)


def test_more_at_once_than_the_limit_is_refused(tmp_path: Path) -> None:
    """Beyond the number of exchanges at once the answer is 503 at once, with a time to try again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        more: dict[str, Any] = {"limits": LimitsPart(requests=1), "timeouts": TimeoutsPart(read_s=1)}
        with gateway(tmp_path, url, **more) as running:
            host, port = running.url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as first:
                body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
                head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                first.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
                with silent.accept()[0]:
                    got = running.knock(CHAT, chat(HARMLESS))
                assert (got.status, got.headers["retry-after"]) == (503, "1")


def test_an_answer_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """An answer beyond what is read is a 502, and nothing of it is passed."""
    stub = Stub(pieces=(b'{"choices": [' + b" " * 5000 + b"]}",), content_type=b"application/json")
    with serving(stub) as url, gateway(tmp_path, url, limits=LimitsPart(decoded_bytes=1000)) as running:
        got = running.knock(CHAT, chat(HARMLESS))
    assert (got.status, got.json["error"]["code"]) == (502, "answer_too_large")
    (found,) = passports(tmp_path)
    assert found.causes == (DeclineCause.GATEWAY_BLOCK,)


def test_html_in_place_of_an_answer_passes_as_it_is(tmp_path: Path, simulator: RunningSimulator) -> None:
    """A page of some proxy in between is read as text and passed with its own type."""
    simulator.refuse_by("fault-content-type")
    with gateway(tmp_path, simulator.url) as running:
        got = running.knock(CHAT, chat(HARMLESS))
    assert got.headers["content-type"].startswith("text/html")
    assert len(passports(tmp_path)) == 1
