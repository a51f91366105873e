"""Draws that are functions of the request and a seed, so that the same request gives the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Dice", "dice_for"]

T = TypeVar("T")

_DRAW_BYTES = 8
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Dice:
    """Draws for one request."""

    key: bytes

    def chance(self, label: str) -> float:
        """Return a number from 0 up to, but not including, 1."""
        # 53 bits: the most that a float below 1 can hold without rounding up to it.
        return (self._number(label) >> 11) / 2**53

    def pick(self, label: str, among: Sequence[T]) -> T:
        """Return one of them; there must be one."""
        return among[self._number(label) % len(among)]

    def word(self, label: str, length: int) -> str:
        """Return hexadecimal digits, at most 128, as for an id."""
        return blake2b(label.encode(), key=self.key).hexdigest()[:length]

    def whole(self, label: str, below: int) -> int:
        """Return a whole number from 0 up to, but not including, `below`."""
        return self._number(label) % below

    def _number(self, label: str) -> int:
        # Keyed by its label: the order of draws does not matter, and a new kind of draw changes no other.
        return int.from_bytes(blake2b(label.encode(), key=self.key, digest_size=_DRAW_BYTES).digest())


def dice_for(seed: int, *parts: bytes) -> Dice:
    """Return the draws of a request, given by its parts (path, body, number of the attempt)."""
    mixed = blake2b(str(seed).encode(), digest_size=_KEY_BYTES)
    for part in parts:
        # With its length, so that no two ways to cut the same bytes into parts collide.
        mixed.update(len(part).to_bytes(8) + part)
    return Dice(mixed.digest())
