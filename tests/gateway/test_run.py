"""The gateway as a process: its settings printed, one worker or several, and an end in good order."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import given, settings
from tests.gateway.gateway_process import Started, gateway_process
from tests.gateway.gatewaying import ANSWER, CHAT, HARMLESS, Running, Stub, chat, gateway, passports, verified
from tests.http.serving import serving

from demur.errors import UsageError
from demur.gateway.run import gateway_socket, serve_gateway
from demur.gateway.settings import GATEWAY_SETTINGS, GatewaySettings, ListenPart
from demur.http.serve import END_SIGNALS
from demur.model.passport import Restart
from demur.record.seal import open_sealed
from demur.record.store.location import log_place

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.heavy

COMMAND = (
    "import argparse, sys\n"
    "from demur.cli import gateway\n"
    "if __name__ == '__main__':\n"
    "    top = argparse.ArgumentParser()\n"
    "    gateway.add_parser(top.add_subparsers())\n"
    "    args = top.parse_args()\n"
    "    sys.exit(args.run(args))\n"
)


@contextmanager
def process(folder: Path, *flags: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], Running]]:
    """Yield a gateway in a process of its own, once it says where it is."""
    script = folder / "run.py"
    script.write_text(COMMAND, encoding="utf-8")
    named = [sys.executable, str(script), "gateway", "--port", "0", "--store", str(folder / "log"), *flags]
    done = subprocess.Popen(  # noqa: S603 — our own command
        named, stderr=subprocess.PIPE, text=True, cwd=folder, env=os.environ | variables
    )
    assert done.stderr is not None
    rest = threading.Thread(target=done.stderr.read, daemon=True)
    try:
        found, said = None, ""
        for line in done.stderr:
            said += line
            found = re.search(r"gateway at (\S+)", line)
            if found:
                break
        assert found is not None, said
        rest.start()
        yield done, Running(found[1], folder)
    finally:
        if done.poll() is None:
            done.terminate()
        done.wait(60)
        if rest.ident is not None:
            rest.join()
        done.stderr.close()


def ended(done: subprocess.Popen[str]) -> int:
    done.send_signal(signal.SIGTERM)
    return done.wait(60)


def test_defaults_need_nothing(tmp_path: Path) -> None:
    """Without arguments a simulated model answers, nothing is blocked, and the end is in good order."""
    with process(tmp_path) as (done, running):
        with running.openai() as client:
            assert client.chat.completions.create(**chat(HARMLESS)).choices
        assert ended(done) == 0
    assert len(passports(tmp_path)) == 1


def test_settings_are_printed(tmp_path: Path) -> None:
    """`--print-config` prints what holds as a file that reads back to the same, with where each came from."""
    script = tmp_path / "run.py"
    script.write_text(COMMAND, encoding="utf-8")
    (tmp_path / "demur.toml").write_text("[gateway.listen]\nport = 1\nworkers = 3\n", encoding="utf-8")
    printed = subprocess.run(  # noqa: S603 — our own command
        [sys.executable, str(script), "gateway", "--print-config", "--port", "3"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"DEMUR_GATEWAY_LISTEN_PORT": "2", "DEMUR_GATEWAY_LISTEN_HOST": "localhost"},
    ).stdout
    (tmp_path / "again.toml").write_text(printed, encoding="utf-8")
    listen = GATEWAY_SETTINGS.load(str(tmp_path / "again.toml"), environ={}).settings.listen
    assert (listen.host, listen.port, listen.workers) == ("localhost", 3, 3)
    assert "observe-only" in printed


def test_several_workers_share_one_log(tmp_path: Path) -> None:
    """Workers take from one socket, write one log that verifies, add their figures up, and end together."""
    stub = Stub(pieces=(ANSWER,), content_type=b"application/json")
    with serving(stub) as url, process(tmp_path, "--upstream", url, "--workers", "2") as (done, running):
        threads = [threading.Thread(target=_ask, args=(running, 10)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 'demur_requests_total{shape="openai_chat",status="2xx"} 60' in running.metrics()
        assert ended(done) == 0
    assert len(passports(tmp_path)) == 60
    assert verified(tmp_path).faults == ()


def _ask(running: Running, times: int) -> None:
    for _ in range(times):
        assert running.knock(CHAT, chat(HARMLESS), x_session_id="shared").status == 200


@pytest.mark.posix(reason="a signal lets a process end in order")
@pytest.mark.parametrize("number", END_SIGNALS[1:])
def test_a_running_stream_ends_before_the_process_does(tmp_path: Path, number: signal.Signals) -> None:
    """Told to end, the gateway takes nothing new, lets the stream end, records it, and leaves the log in order."""
    hold = threading.Event()
    stub = Stub(pieces=(b'data: {"choices":[]}\n\n', b"data: [DONE]\n\n"), hold=hold)
    with serving(stub) as url, process(tmp_path, "--upstream", url) as (done, running):
        connection = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=20)
        body = json.dumps(chat(HARMLESS, stream=True))
        connection.request("POST", CHAT, body, {"content-type": "application/json"})
        response = connection.getresponse()
        done.send_signal(number)
        hold.set()
        assert response.read().endswith(b"[DONE]\n\n")
        connection.close()
        assert done.wait(60) == 0
    assert len(passports(tmp_path)) == 1
    with gateway(tmp_path, "http://127.0.0.1:9"):
        pass
    assert [entry.clean for entry in restarts(tmp_path)] == [True]


def restarts(folder: Path) -> list[Restart]:
    store = log_place(str(folder / "log")).open(read_only=True)
    try:
        entries: list[Any] = [open_sealed(row.envelope).entry for row in store.entries(0, store.frontier().size)]
    finally:
        store.close()
    return [entry for entry in entries if isinstance(entry, Restart)]


def test_its_own_pages_keep_their_promises(tmp_path: Path) -> None:
    """What the description of its own pages says holds for whatever a generator of requests thinks of."""
    with gateway(tmp_path, "http://127.0.0.1:9") as running:
        schema = schemathesis.openapi.from_dict(running.knock("/openapi.json", method="GET").json)
        schema.config.update(base_url=running.url)
        operations: list[Any] = list(schema.get_all_operations())
        assert len(operations) == 4
        for found in operations:

            @settings(max_examples=15, deadline=None)
            @given(case=found.ok().as_strategy())
            def keeps(case: Any) -> None:
                case.call_and_validate()

            keeps()


def test_settings_default_to_one_worker_on_loopback() -> None:
    """Nothing is open to the network unless somebody says so."""
    listen = GatewaySettings().listen
    assert (listen.host, listen.workers) == ("127.0.0.1", 1)


def test_a_unix_socket_that_the_system_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no Unix sockets, asking for one is an error of one line that says what to set instead."""
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(UsageError, match=r"no Unix sockets.*listen\.host"):
        gateway_socket(GatewaySettings(listen=ListenPart(uds="gateway.sock")))


def test_several_workers_are_refused_where_they_could_not_end_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, which ends processes without telling them, a gateway of several workers does not start."""
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UsageError, match="Windows"):
        serve_gateway(GatewaySettings(listen=ListenPart(workers=2, port=0)), started=pytest.fail)


def workers_of(started: Started) -> list[int]:
    """Return the processes that serve: children that run the gateway, the keeper of shared resources aside."""
    pid = started.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("this system does not tell the children of a process")
    found = [int(child) for child in children.read_text(encoding="ascii").split()]
    return [child for child in found if b"spawn_main" in _command_of(child)]


def _command_of(pid: int) -> bytes:
    """Return what a process runs; nothing where it ended while it was looked at."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def answered(started: Started) -> int:
    """Return how many requests were answered, by the sum of whoever is asked."""
    found = re.search(r'demur_requests_total{shape="openai_chat",status="2xx"} (\d+)', started.running.metrics())
    return int(found[1]) if found else 0


@pytest.mark.posix(reason="several workers")
def test_figures_are_one_sum_over_workers_dead_or_alive(tmp_path: Path) -> None:
    """Every scrape is the sum over all workers; one that is killed keeps its counts, is replaced, and what it did is on record."""
    stub = Stub(pieces=(ANSWER,), content_type=b"application/json")
    waits = {"DEMUR_GATEWAY_STORE_DURABILITY": "sync"}
    with serving(stub) as url, gateway_process(tmp_path, "--upstream", url, "--workers", "2", **waits) as started:
        for _ in range(20):
            assert started.running.knock(CHAT, chat(HARMLESS)).status == 200
        assert {answered(started) for _ in range(10)} == {20}
        first = workers_of(started)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        for _ in range(20):
            assert _asked_again(started)
        assert answered(started) == 40
        # The place is filled again; asking passes the time until it is.
        assert any(_filled_anew(started, first) for _ in range(20_000))
        assert {answered(started) for _ in range(10)} == {40}
        assert "demur_in_flight 0" in started.running.metrics()
        assert started.end() == 0
    assert len(passports(tmp_path)) == 40
    assert verified(tmp_path).faults == ()


def _asked_again(started: Started) -> bool:
    """Return whether a request is answered; one that the killed worker had taken is lost with its connection."""
    for _ in range(5):
        try:
            return started.running.knock(CHAT, chat(HARMLESS)).status == 200
        except OSError:
            continue
    return False


def _filled_anew(started: Started, first: list[int]) -> bool:
    now = workers_of(started)
    started.running.knock("/healthz", method="GET")
    return len(now) == 2 and first[0] not in now


def test_no_folder_of_figures_is_left_behind(tmp_path: Path) -> None:
    """Figures that were kept in a folder of their own are gone with the gateway; a folder that was named stays."""
    scratch, named = tmp_path / "scratch", tmp_path / "figures"
    scratch.mkdir()
    for more in ({}, {"DEMUR_GATEWAY_METRICS_FOLDER": str(named)}):
        for workers in ("1", "2"):
            with gateway_process(tmp_path, "--workers", workers, TMPDIR=str(scratch), **more) as started:
                assert started.end() == 0
    assert not list(scratch.glob("demur-figures-*"))
    assert len(list(named.glob("*.figures"))) == 3


@pytest.mark.posix(reason="several workers")
@pytest.mark.parametrize("number", END_SIGNALS)
def test_a_terminal_that_tells_every_process_cuts_no_stream(tmp_path: Path, number: signal.Signals) -> None:
    """A key or a hang-up that reaches the workers and their keeper alike ends them in good order, the stream first."""
    hold = threading.Event()
    stub = Stub(pieces=(b'data: {"choices":[]}\n\n', b"data: [DONE]\n\n"), hold=hold)
    with serving(stub) as url, gateway_process(tmp_path, "--workers", "2", "--upstream", url) as started:
        connection = http.client.HTTPConnection(started.url.removeprefix("http://"), timeout=20)
        body = json.dumps(chat(HARMLESS, stream=True))
        connection.request("POST", CHAT, body, {"content-type": "application/json"})
        with contextlib.closing(connection):
            response = connection.getresponse()
            _tell_all(started, number)
            # Longer than the keeper looks away: what it does next must not hurry them.
            threading.Timer(2, hold.set).start()
            assert response.read().endswith(b"[DONE]\n\n")
        assert started.ended() == 0
    assert [passport.gaps for passport in passports(tmp_path)] == [()]


def _tell_all(started: Started, number: signal.Signals) -> None:
    for pid in (*workers_of(started), started.process.pid):
        os.kill(pid, number)
