"""When something fails: the provider, an auditor, the store, the policy's files. Each is closed or open by its setting."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn
from tests.gateway.gateway_process import gateway_call
from tests.gateway.gatewaying import (
    CHAT,
    HARMLESS,
    LOG_ONLY,
    POLICY_FILE,
    Running,
    broken_store,
    chat,
    free_address,
    gateway,
    gone_auditor,
    passports,
    provider,
    settings_for,
    verified,
)
from tests.http.serving import serving
from tests.patience import until
from tests.plain_http import Got

from demur.audit.chain import Chain
from demur.audit.inputs import AuditorInput
from demur.errors import UsageError
from demur.gateway.app import GatewayApp
from demur.gateway.opening import open_worker
from demur.gateway.settings import FailurePart, GatewaySettings, LimitsPart, OnFailure, StorePart, TimeoutsPart
from demur.http.serve import listening_socket
from demur.model.claim import Audit, Phase
from demur.model.passport import DeclineCause, Passport
from demur.record.store.location import log_place
from demur.simulate.server.run import RunningSimulator

pytestmark = pytest.mark.heavy

PHASES = ("request", "response")


@pytest.mark.parametrize(("scenario", "status"), [("fault-429", 429), ("fault-500", 500), ("fault-503", 503)])
def test_a_providers_errors_pass(tmp_path: Path, simulator: RunningSimulator, scenario: str, status: int) -> None:
    """The provider's own errors come back as they are, retry headers included, and are on record with their status."""
    simulator.refuse_by(scenario)
    with gateway(tmp_path, simulator.url) as running:
        got = running.ask()
    assert got.status == status
    assert "error" in got.json
    assert status != 429 or got.headers["retry-after"] == "1"
    (found,) = passports(tmp_path)
    assert (found.upstream_status, found.causes) == (status, (DeclineCause.PROVIDER_ERROR,))


def test_a_providers_400_filter_is_a_filter(tmp_path: Path, simulator: RunningSimulator) -> None:
    """Azure's 400 by its filter passes, and its cause is the filter, not the error."""
    simulator.refuse_by("filter-azure-400")
    with gateway(tmp_path, simulator.url) as running, running.azure() as client:  # noqa: SIM117 — only the call may raise
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(**chat(HARMLESS))
    (found,) = passports(tmp_path)
    assert (found.upstream_status, found.causes) == (400, (DeclineCause.PROVIDER_FILTER,))


def test_nobody_at_the_address_is_a_502(tmp_path: Path) -> None:
    """A gateway is ready without its provider; an exchange with one that cannot be reached is a 502 in its shape, on record without a status."""
    with gateway(tmp_path, free_address()) as running:
        assert running.knock("/readyz", method="GET").status == 200
        got = running.ask()
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
            got = running.ask()
    assert (got.status, got.json["error"]["code"]) == (504, "upstream_timeout")


@pytest.mark.parametrize(
    ("mode", "status", "gaps"), [("closed", 403, []), ("warn", 200, ["failed_open"]), ("open", 200, ["failed_open"])]
)
def test_an_auditor_that_is_down(
    tmp_path: Path, simulator: RunningSimulator, mode: str, status: int, gaps: list[str]
) -> None:
    """An auditor nobody answers for denies, warns or passes by its mode; what it let through is a gap on record."""
    simulator.refuse_by("answer")
    with gateway(tmp_path, simulator.url, policy=LOG_ONLY, auditors=gone_auditor(tmp_path, mode)) as running:
        got = running.ask()
        part = 'demur_fail_closed_total{part="auditors"} 1' if mode == "closed" else "demur_fail_open_total"
        assert part in running.metrics()
    assert got.status == status
    assert got.headers["x-demur-decision"] == {"closed": "deny", "warn": "warn", "open": "allow"}[mode]
    (found,) = passports(tmp_path)
    assert [gap.what for gap in found.gaps] == gaps
    assert verified(tmp_path).faults == ()


@pytest.mark.parametrize(("mode", "status"), [(OnFailure.CLOSED, 503), (OnFailure.OPEN, 200)])
def test_a_store_that_takes_nothing(tmp_path: Path, simulator: RunningSimulator, mode: OnFailure, status: int) -> None:
    """Without a record there is no answer, or there is and the gap is counted, by the setting; then it is taken up again."""
    simulator.refuse_by("answer")
    with gateway(tmp_path, simulator.url, failure=FailurePart(store=mode)) as running:
        whole = running.ask()
        assert whole.status == 200
        with broken_store(tmp_path):
            got = running.ask()
            assert (got.status, got.body == whole.body) == (status, mode is OnFailure.OPEN)
            unready = running.knock("/readyz", method="GET")
            assert (unready.status, unready.json) == (503, {"status": "unready", "troubles": ["store"]})
            assert running.ask(stream=True).status == status
        assert running.ask().status == 200
        assert running.knock("/readyz", method="GET").status == 200
        figures = running.metrics()
    kind, asked = ("5xx", 2) if mode is OnFailure.CLOSED else ("2xx", 4)
    assert f'demur_requests_total{{shape="openai_chat",status="{kind}"}} {asked}\n' in figures
    assert f'demur_fail_{mode}_total{{part="store"}} 2\n' in figures
    assert 'demur_records_total{state="failed"} 2\n' in figures
    assert ('demur_gaps_total{phase="response",what="unrecorded"} 2\n' in figures) is (mode is OnFailure.OPEN)
    assert len(passports(tmp_path)) == 2
    assert verified(tmp_path).faults == ()


@pytest.mark.parametrize(("mode", "status"), [(OnFailure.CLOSED, 503), (OnFailure.OPEN, 200)])
def test_a_policy_that_does_not_load(tmp_path: Path, simulator: RunningSimulator, mode: OnFailure, status: int) -> None:
    """Broken files leave the last good policy in force, on record as stale, or deny until they are mended."""
    simulator.refuse_by("answer")
    more: dict[str, Any] = {"failure": FailurePart(policy_reload=mode), "reload_s": 0.02}
    rules = tmp_path / "policies" / POLICY_FILE
    with gateway(tmp_path, simulator.url, policy=LOG_ONLY, **more) as running:
        assert running.ask().status == 200
        rules.write_text("forbid (", encoding="utf-8")
        until(lambda: "policy_reload" in running.metrics())
        assert running.ask().status == status
        rules.write_text(LOG_ONLY.replace("log", "warn"), encoding="utf-8")
        until(lambda: len({p.policy_digest for p in _asked_again(running, tmp_path)}) == 2)
        assert running.knock("/readyz", method="GET").status == 200
    stale = [passport for passport in passports(tmp_path) if passport.gaps]
    assert mode is OnFailure.CLOSED or {(g.phase, g.what) for p in stale for g in p.gaps} == {
        (Phase.REQUEST, "policy_stale")
    }


def _asked_again(running: Running, folder: Path) -> list[Passport]:
    running.ask()
    return passports(folder)


def test_more_at_once_than_the_limit_is_refused(tmp_path: Path) -> None:
    """Beyond the number of exchanges at once the answer is 503 at once, with a time to try again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        more: dict[str, Any] = {"limits": LimitsPart(requests=1), "timeouts": TimeoutsPart(read_s=1)}
        with gateway(tmp_path, url, **more) as running, running.connect() as first:
            body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            first.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            with silent.accept()[0]:
                got = running.ask()
            assert (got.status, got.headers["retry-after"]) == (503, "1")


def test_an_answer_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """An answer beyond what is read is a 502, and nothing of it is passed."""
    large = provider(b'{"choices": [' + b" " * 5000 + b"]}")
    with serving(large) as url, gateway(tmp_path, url, limits=LimitsPart(decoded_bytes=1000)) as running:
        got = running.ask()
    assert (got.status, got.json["error"]["code"]) == (502, "answer_too_large")
    (found,) = passports(tmp_path)
    assert found.causes == (DeclineCause.GATEWAY_BLOCK,)


def test_html_in_place_of_an_answer_passes_as_it_is(tmp_path: Path, simulator: RunningSimulator) -> None:
    """A page of some proxy in between is read as text and passed with its own type."""
    simulator.refuse_by("fault-content-type")
    with gateway(tmp_path, simulator.url) as running:
        got = running.ask()
    assert got.headers["content-type"].startswith("text/html")
    assert len(passports(tmp_path)) == 1


class _DownChain(Chain):
    """A chain on a machine that has no thread left."""

    async def audit(self, _given: AuditorInput) -> Audit:
        raise RuntimeError("can't start new thread")


async def _asked_without_auditors(settings: GatewaySettings, folder: Path) -> tuple[Got, str]:
    """Return the answer and the figures of a gateway whose auditors cannot be asked."""
    worker = await open_worker(settings, metrics_folder=str(folder / "figures"))
    worker.chain = _DownChain(())
    await worker.start()
    sock = listening_socket("127.0.0.1", 0)
    config = uvicorn.Config(GatewayApp(worker), log_config=None, access_log=False, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]  # signals stay the test's
    running = Running(f"http://127.0.0.1:{sock.getsockname()[1]}")
    serving_on = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        got = await asyncio.to_thread(running.knock, CHAT, chat(HARMLESS))
        return got, await asyncio.to_thread(running.metrics)
    finally:
        server.should_exit = True
        await serving_on
        await worker.close()
        sock.close()


@pytest.mark.parametrize(("mode", "status"), [(OnFailure.CLOSED, 403), (OnFailure.OPEN, 200)])
def test_auditors_that_cannot_be_asked_at_all(tmp_path: Path, mode: OnFailure, status: int) -> None:
    """Where the chain as a whole fails, nothing passes, or everything does with the gap of both phases on record."""
    with serving(provider()) as url:
        settings = settings_for(tmp_path, url, policy="observe-only", failure=FailurePart(auditors=mode))
        got, figures = asyncio.run(_asked_without_auditors(settings, tmp_path))
    assert got.status == status
    (found,) = passports(tmp_path)
    if mode is OnFailure.CLOSED:
        assert found.causes == (DeclineCause.GATEWAY_BLOCK,)
        assert 'demur_fail_closed_total{part="auditors"} 1\n' in figures
    else:
        assert [(gap.phase, gap.what) for gap in found.gaps] == [(phase, "failed_open") for phase in PHASES]
        assert 'demur_fail_open_total{part="auditors"} 2\n' in figures
    assert verified(tmp_path).faults == ()


def test_a_log_has_the_name_of_the_settings(tmp_path: Path) -> None:
    """A new log takes `store.origin` for its name, keeps it, and is not opened under another."""
    named = StorePart(url=str(tmp_path / "log"), origin="example.com/gateway")
    for store in (named, StorePart(url=str(tmp_path / "log"))):
        with gateway(tmp_path, "http://127.0.0.1:9", store=store):
            pass
        with contextlib.closing(log_place(str(tmp_path / "log")).open(read_only=True)) as found:
            assert found.origin == "example.com/gateway"
    with pytest.raises(UsageError, match=r"is called `example\.com/gateway`"):  # noqa: SIM117 — only the start may raise
        with gateway(tmp_path, "http://127.0.0.1:9", store=StorePart(url=str(tmp_path / "log"), origin="another")):
            pass


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("[gateway.failure]\nstores = 'open'\n", (), "line 2: `failure.stores` is no setting; did you mean"),
        ("[gateway.failure]\nstore = 'ajar'\n", (), "line 2: `failure.store` is `ajar`; expected one of closed, open"),
        ("[gateway.limits]\n\nrequests = 0\n", (), "line 3: `limits.requests` is `0`; expected a number of 1 or more"),
        ("[gateway.dashboard]\ntoken = 'abc'\n", (), "set `dashboard.token_env` to the name of the variable"),
        ("", ("--policy", "no-such-pack"), "no-such-pack"),
        ("", ("--auditors", "none.yaml"), "none.yaml"),
        ("", ("--port", "x"), "`listen.port` is `x` in the flag"),
        ("", ("--upstream", "ftp://x"), "`ftp://x`"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_listens(
    tmp_path: Path, text: str, flags: tuple[str, ...], said: str
) -> None:
    """A setting that cannot hold ends the start with code 2, and one line that names the place and the way out."""
    (tmp_path / "demur.toml").write_text(text, encoding="utf-8")
    done = gateway_call(tmp_path, *flags)
    assert done.returncode == 2, done.stderr
    assert (f"`demur.toml` {said}" if said.startswith("line") else said) in done.stderr
    assert "Traceback" not in done.stderr
    assert "gateway at" not in done.stderr
