"""How a test waits for what happens in another thread or process: by asking again, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

_LONG_S = 60.0
# Asking without a pause would take the core that the awaited thread or process needs.
_PAUSE_S = 0.002


def until(holds: Callable[[], object], *, within_s: float = _LONG_S) -> None:
    """Ask again and again, with a pause between; fail where it never comes, in place of hanging."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"it did not come within {within_s:g} s")
        time.sleep(_PAUSE_S)
