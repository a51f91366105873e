"""The gateway as a process: its settings printed, one worker or several, and an end in good order."""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import given, settings
from tests.gateway.gatewaying import HARMLESS, Running, chat, gateway, passports, verified
from tests.gateway.test_paths import ANSWER, CHAT
from tests.gateway.test_streams import Stub
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
    from pathlib import Path

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
