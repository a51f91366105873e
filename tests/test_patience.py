"""Waiting in tests gives way and ends."""

from __future__ import annotations

import threading

import pytest
from tests.patience import until


def test_waiting_ends_with_what_is_awaited() -> None:
    """What another thread does is seen."""
    asked = threading.Event()
    done = threading.Event()

    def work() -> None:
        asked.wait()
        done.set()

    def holds() -> bool:
        asked.set()
        return done.is_set()

    worker = threading.Thread(target=work)
    worker.start()
    until(holds)
    worker.join()
    assert done.is_set()


def test_waiting_for_ever_fails() -> None:
    """What never comes fails the test, and it was asked for with pauses: without them thousands of times."""
    asked: list[None] = []
    with pytest.raises(pytest.fail.Exception, match=r"did not come within 0\.1 s"):
        until(lambda: asked.append(None), within_s=0.1)
    assert 1 <= len(asked) <= 52
