"""The gateway as a process: its settings printed, one worker or several, and an end in good order."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from tests.gateway.gateway_process import Started, gateway_call, gateway_process
from tests.gateway.gatewaying import CHAT, HARMLESS, Stub, chat, entries_of, gateway, passports, provider, verified
from tests.http.serving import serving

from demur.errors import UsageError
from demur.gateway.run import gateway_socket, serve_gateway
from demur.gateway.settings import GATEWAY_SETTINGS, GatewaySettings, ListenPart
from demur.http.serve import END_SIGNALS
from demur.model.passport import Restart

pytestmark = pytest.mark.heavy


def test_defaults_need_nothing(tmp_path: Path) -> None:
    """Without arguments a simulated model answers, nothing is blocked, and the end is in good order."""
    with gateway_process(tmp_path) as started:
        with started.running.openai() as client:
            assert client.chat.completions.create(**chat(HARMLESS)).choices
        assert started.end() == 0
    assert len(passports(tmp_path)) == 1


def test_settings_are_printed(tmp_path: Path) -> None:
    """`--print-config` prints what holds as a file that reads back to the same, with the source of each setting and no secret."""
    written = '[gateway.failure]\nstore = "closed"\nupstream = "open"\n[gateway.listen]\nport = 1\nworkers = 3\n'
    (tmp_path / "demur.toml").write_text(written, encoding="utf-8")
    variables = {"LISTEN_PORT": "2", "FAILURE_UPSTREAM": "closed", "POLICY_PATHS": "observe-only, strict"}
    named = {f"DEMUR_GATEWAY_{name}": value for name, value in variables.items()}
    flags = ("--print-config", "--port", "3", "--store", "postgresql://demur:secret-word@db/demur")
    printed = gateway_call(tmp_path, *flags, **named)
    for line in (
        "port = 3  # from the flag for listen.port",
        "workers = 3  # from demur.toml",
        'store = "closed"  # from demur.toml',
        'upstream = "closed"  # from the variable DEMUR_GATEWAY_FAILURE_UPSTREAM',
        'paths = ["observe-only", "strict"]  # from the variable DEMUR_GATEWAY_POLICY_PATHS',
        'url = "postgresql://demur:***@db/demur"  # from the flag for store.url',
    ):
        assert line in printed.stdout.splitlines()
    assert "secret-word" not in printed.stdout + printed.stderr
    (tmp_path / "again.toml").write_text(printed.stdout, encoding="utf-8")
    again = GATEWAY_SETTINGS.load(str(tmp_path / "again.toml"), environ={}).settings
    assert (again.listen.port, again.listen.workers, again.failure.upstream) == (3, 3, "closed")


def test_several_workers_share_one_log(tmp_path: Path) -> None:
    """Workers take from one socket, write one log that verifies, add their figures up, and end together."""
    with serving(provider()) as url, gateway_process(tmp_path, "--upstream", url, "--workers", "2") as started:
        with ThreadPoolExecutor(6) as others:
            statuses = others.map(
                lambda _: started.running.knock(CHAT, chat(HARMLESS), x_session_id="shared"), range(60)
            )
        assert {got.status for got in statuses} == {200}
        assert answered(started) == 60
        assert started.end() == 0
    assert len(passports(tmp_path)) == 60
    assert verified(tmp_path).faults == ()


@contextmanager
def streaming(folder: Path, *flags: str) -> Iterator[tuple[Started, http.client.HTTPResponse, threading.Event]]:
    """Yield a gateway, the answer of a stream that runs through it, and what lets the stream end."""
    hold = threading.Event()
    stub = Stub(pieces=(b'data: {"choices":[]}\n\n', b"data: [DONE]\n\n"), hold=hold)
    with serving(stub) as url, gateway_process(folder, "--upstream", url, *flags) as started:
        with closing(http.client.HTTPConnection(started.url.removeprefix("http://"), timeout=20)) as connection:
            body = json.dumps(chat(HARMLESS, stream=True))
            connection.request("POST", CHAT, body, {"content-type": "application/json"})
            with connection.getresponse() as response:
                yield started, response, hold
        assert started.ended() == 0


@pytest.mark.posix(reason="a signal lets a process end in order")
@pytest.mark.parametrize("number", END_SIGNALS[1:])
def test_a_running_stream_ends_before_the_process_does(tmp_path: Path, number: signal.Signals) -> None:
    """Told to end, the gateway takes nothing new, lets the stream end, records it, and leaves the log in order."""
    with streaming(tmp_path) as (started, response, hold):
        started.process.send_signal(number)
        hold.set()
        assert response.read().endswith(b"[DONE]\n\n")
    assert len(passports(tmp_path)) == 1
    with gateway(tmp_path, "http://127.0.0.1:9"):
        pass
    assert [entry.clean for entry in entries_of(tmp_path, Restart)] == [True]


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
    waits = {"DEMUR_GATEWAY_STORE_DURABILITY": "sync"}
    with serving(provider()) as url, gateway_process(tmp_path, "--upstream", url, "--workers", "2", **waits) as started:
        for _ in range(20):
            assert started.running.ask().status == 200
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
            return started.running.ask().status == 200
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
    with streaming(tmp_path, "--workers", "2") as (started, response, hold):
        for pid in (*workers_of(started), started.process.pid):
            os.kill(pid, number)
        # Longer than the keeper looks away: what it does next must not hurry them.
        threading.Timer(2, hold.set).start()
        assert response.read().endswith(b"[DONE]\n\n")
    assert [passport.gaps for passport in passports(tmp_path)] == [()]
