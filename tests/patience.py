"""How a test waits for what happens in another thread or process: by asking again, and not for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LONG_S = 60.0


def until(holds: Callable[[], object]) -> None:
    """Ask again and again; fail where it never comes, in place of hanging."""
    enough = time.monotonic() + _LONG_S
    while not holds():
        assert time.monotonic() < enough, "it never came"
