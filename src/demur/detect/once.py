"""Was this very value judged a moment ago? Then what came of it holds, and is not worked out again.

Several auditors ask the same of one exchange, and the gateway does too, one right after the other. Laws: a value is known again by
identity, never by likeness, and only frozen values are put here, so that what is handed back is what the function itself would return;
one value is held at a time, until the next takes its place; threads may share it, for the pair is swapped whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Once"]

_Value = TypeVar("_Value")
_Made = TypeVar("_Made")


class Once(Generic[_Value, _Made]):
    """A function of one frozen value that remembers its last."""

    __slots__ = ("_last", "_make")

    def __init__(self, make: Callable[[_Value], _Made]) -> None:
        self._make = make
        self._last: tuple[_Value, _Made] | None = None

    def __call__(self, value: _Value) -> _Made:
        """Return what the function makes of a value."""
        last = self._last
        if last is not None and last[0] is value:
            return last[1]
        made = self._make(value)
        self._last = (value, made)
        return made
