"""What a policy set decided over claims, and which rules made it so."""

from __future__ import annotations

from enum import IntEnum

import msgspec

__all__ = ["Decision", "Effect", "FiredRule"]


class Effect(IntEnum):
    """What is done, mildest first: the strongest effect among the fired rules wins."""

    ALLOW = 0
    LOG = 1
    WARN = 2
    REDACT = 3
    REVIEW = 4
    DENY = 5

    @property
    def word(self) -> str:
        """The effect as policies, JSON and people write it."""
        return self.name.lower()


class FiredRule(msgspec.Struct, frozen=True, gc=False):
    """A rule that applied, under the id and reason that its author gave it, and where it stands (`file:line`)."""

    id: str
    effect: Effect
    reason: str | None = None
    place: str | None = None


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The effect, the rules that fired, and the errors met: an error is never a silent allow."""

    effect: Effect
    rules: tuple[FiredRule, ...] = ()
    errors: tuple[str, ...] = ()
