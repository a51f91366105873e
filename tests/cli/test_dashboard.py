"""`demur dashboard` tells its address with the token, refuses what is not safe, and ends in good order."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from tests.cli.calling import call, server_process
from tests.dashboard.dashboard_logs import empty_log

from demur.errors import DemurError, UsageError


@pytest.mark.heavy
def test_it_serves_and_ends_in_good_order(tmp_path: Path) -> None:
    """The printed address holds a token that opens the pages; SIGTERM ends it with 0."""
    empty_log(tmp_path / "log")
    with server_process("dashboard", "--store", str(tmp_path / "log"), "--port", "0") as (process, line):
        address, _, token = line.removeprefix("dashboard at ").strip().partition("login#")
        request = Request(address, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 — loopback
        with urlopen(request) as answer:  # noqa: S310 — loopback
            assert "Nothing is on record yet" in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_a_store_that_is_not_there_is_told_before_anything_listens(tmp_path: Path) -> None:
    """A missing store is bad input, not a server of error pages."""
    with pytest.raises(DemurError, match="there is no store"):
        call("dashboard", "--store", str(tmp_path / "none"))


def test_without_a_token_it_listens_on_loopback_alone(tmp_path: Path) -> None:
    """Asking for no token at an address that others reach is refused."""
    with pytest.raises(UsageError, match="without a token"):
        call("dashboard", "--store", str(tmp_path), "--no-token", "--host", "0.0.0.0")  # noqa: S104 — refused, which is the law


def test_a_short_or_missing_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that holds no token, or a guessable one, does not open a dashboard."""
    monkeypatch.setitem(os.environ, "DEMUR_TEST_TOKEN", "short")
    for name in ("DEMUR_TEST_TOKEN", "DEMUR_TEST_NO_TOKEN"):
        with pytest.raises(UsageError, match="holds no token"):
            call("dashboard", "--store", str(tmp_path), "--token-env", name)
