"""How the gateway fails, by its settings: auditors that cannot be asked, a log of another name, settings that do not hold."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from tests.gateway.gateway_process import gateway_command
from tests.gateway.gatewaying import HARMLESS, Got, Running, chat, gateway, passports, settings_for, verified
from tests.gateway.test_paths import ANSWER, CHAT
from tests.gateway.test_streams import Stub
from tests.http.serving import serving

from demur.audit.chain import Chain
from demur.errors import UsageError
from demur.gateway.app import GatewayApp
from demur.gateway.settings import FailurePart, OnFailure, StorePart
from demur.gateway.worker import open_worker
from demur.http.serve import listening_socket
from demur.model.passport import DeclineCause
from demur.record.store.location import log_place

if TYPE_CHECKING:
    from pathlib import Path

    from demur.audit.inputs import AuditorInput
    from demur.gateway.settings import GatewaySettings
    from demur.model.audit import Audit


def provider() -> Stub:
    return Stub(pieces=(ANSWER,), content_type=b"application/json")


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
    running = Running(f"http://127.0.0.1:{sock.getsockname()[1]}", folder)
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
        assert [(gap.phase, gap.what) for gap in found.gaps] == [
            ("request", "failed_open"),
            ("response", "failed_open"),
        ]
        assert 'demur_fail_open_total{part="auditors"} 2\n' in figures
    assert verified(tmp_path).faults == ()


def test_a_log_has_the_name_of_the_settings(tmp_path: Path) -> None:
    """A new log takes `store.origin` for its name, keeps it, and is not opened under another."""
    named = StorePart(url=str(tmp_path / "log"), origin="example.com/gateway")
    for store in (named, StorePart(url=str(tmp_path / "log"))):
        with gateway(tmp_path, "http://127.0.0.1:9", store=store):
            pass
        found = log_place(str(tmp_path / "log")).open(read_only=True)
        assert found.origin == "example.com/gateway"
        found.close()
    with pytest.raises(UsageError, match=r"is called `example\.com/gateway`"):  # noqa: SIM117 — only the start may raise
        with gateway(tmp_path, "http://127.0.0.1:9", store=StorePart(url=str(tmp_path / "log"), origin="another")):
            pass


@pytest.mark.parametrize("paths", ["paths = []", ""])
def test_no_policy_is_the_one_that_blocks_nothing(tmp_path: Path, paths: str) -> None:
    """Where no policy is named, in an empty list or not at all, `observe-only` holds and says so."""
    (tmp_path / "demur.toml").write_text(f"[gateway.policy]\n{paths}\n", encoding="utf-8")
    printed = called(tmp_path, "--print-config")
    assert printed.returncode == 0
    assert 'paths = ["observe-only"]' in printed.stdout


def called(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Return what becomes of a call that ends by itself."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DEMUR_")}
    return subprocess.run(  # noqa: S603 — our own command
        gateway_command(folder, *flags),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=folder,
        env=clean | variables,
    )


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """Setting by setting, the later source holds, and `--print-config` says which it was; no secret is printed."""
    (tmp_path / "demur.toml").write_text(
        '[gateway.failure]\nstore = "closed"\nupstream = "open"\n[gateway.log]\nlevel = "debug"\n',
        encoding="utf-8",
    )
    printed = called(
        tmp_path,
        "--print-config",
        "--log-level",
        "error",
        "--store",
        "postgresql://demur:secret-word@db/demur",
        DEMUR_GATEWAY_LOG_LEVEL="warning",
        DEMUR_GATEWAY_FAILURE_UPSTREAM="closed",
        DEMUR_GATEWAY_POLICY_PATHS="observe-only, strict",
    )
    lines = printed.stdout.splitlines()
    assert 'level = "error"  # from the flag for log.level' in lines
    assert 'store = "closed"  # from demur.toml' in lines
    assert 'upstream = "closed"  # from the variable DEMUR_GATEWAY_FAILURE_UPSTREAM' in lines
    assert 'paths = ["observe-only", "strict"]  # from the variable DEMUR_GATEWAY_POLICY_PATHS' in lines
    assert 'url = "postgresql://demur:***@db/demur"  # from the flag for store.url' in lines
    assert "secret-word" not in printed.stdout + printed.stderr


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        (
            "[gateway.failure]\nstores = 'open'\n",
            (),
            "`demur.toml` line 2: `failure.stores` is no setting; did you mean",
        ),
        (
            "[gateway.failure]\nstore = 'ajar'\n",
            (),
            "`demur.toml` line 2: `failure.store` is `ajar`; expected one of closed, open",
        ),
        (
            "[gateway.limits]\n\nrequests = 0\n",
            (),
            "`demur.toml` line 3: `limits.requests` is `0`; expected a number of 1 or more",
        ),
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
    done = called(tmp_path, *flags)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "gateway at" not in done.stderr


def test_a_dead_provider_at_the_start_is_no_reason_not_to_start(tmp_path: Path) -> None:
    """The provider is asked with the first exchange, not before: a gateway is ready without it."""
    more: dict[str, Any] = {"policy": "observe-only"}
    with gateway(tmp_path, "http://127.0.0.1:9", **more) as running:
        assert running.knock("/readyz", method="GET").status == 200
        assert running.knock(CHAT, chat(HARMLESS)).status == 502
