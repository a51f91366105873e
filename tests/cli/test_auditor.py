"""`demur auditor`: serves, says where, ends when told to."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest
from tests.cli.calling import Capture, call, server_process

from demur.errors import UsageError
from demur.http.serve import listening_socket

ROOT = Path(__file__).parents[2]


async def health(url: str) -> dict[str, object]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as got:
        body: dict[str, object] = await got.json()
        return body


@pytest.mark.heavy
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("spec", "name"),
    [("safety-checker", "safety-checker"), ("examples/auditor/secrets_auditor.py:SecretsAuditor", "secrets")],
)
def test_it_serves_until_told_to_end(spec: str, name: str, end: signal.Signals) -> None:
    """Port 0 prints the real port, the auditor answers there, and either signal ends it with code 0 and no noise."""
    with server_process("auditor", spec, "--port", "0", cwd=ROOT) as (process, line):
        assert asyncio.run(health(line.split()[-1]))["auditor_id"] == name
        process.send_signal(end)
        noise, _ = process.communicate(timeout=30)
    assert (process.returncode, noise) == (0, "")


@pytest.mark.parametrize("words", [("--port", "x"), ("--port", "65536"), ("--max-bytes", "0"), ("--port", "-1")])
def test_a_bad_number_is_refused(words: tuple[str, ...], capsys: Capture) -> None:
    """A port or a size that is none ends the call with code 2."""
    with pytest.raises(SystemExit) as ended:
        call("auditor", "safety-checker", *words)
    assert ended.value.code == 2
    assert words[1] in capsys.readouterr().err


@pytest.mark.parametrize("spec", ["nobody", "json:JSONDecoder", "no_such.py:C"])
def test_what_is_no_auditor_is_refused(spec: str) -> None:
    """A name that leads to no auditor is an error before anything listens."""
    with pytest.raises(UsageError):
        call("auditor", spec)


def test_an_address_in_use_is_an_error() -> None:
    """A port that is taken is one line, not a traceback."""
    with listening_socket("127.0.0.1", 0) as taken, pytest.raises(UsageError, match="cannot listen"):
        call("auditor", "safety-checker", "--port", taken.getsockname()[1])
