"""Several workers: figures that add up whoever is asked and whoever has died, and a place that is filled again."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import threading
from pathlib import Path

import pytest
from tests.gateway.gateway_process import Started, gateway_process
from tests.gateway.gatewaying import HARMLESS, chat, passports, verified
from tests.gateway.test_paths import ANSWER, CHAT
from tests.gateway.test_streams import Stub
from tests.http.serving import serving

from demur.http.serve import END_SIGNALS

pytestmark = pytest.mark.heavy


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
