"""Is an auditor that keeps failing worth another call? A circuit breaker, with the clock passed in.

Laws: it opens after a number of failures in a row; once `reset_s` have passed it lets one call through, alone, whose end
decides: well and it closes, badly and it stays open for another `reset_s`; a call that was given up before it ended says
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Breaker", "BreakerSettings"]


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """After how many failures in a row it opens, and how long it stays so."""

    failures: int = 5
    reset_s: float = 30.0


class Breaker:
    """The state of one auditor's breaker."""

    __slots__ = ("_failed", "_opened_at", "_probing", "_settings")

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._failed = 0
        self._opened_at: float | None = None
        self._probing = False

    def allows(self, now: float) -> bool:
        """Return whether a call may be made now; where it may, its end has to be told."""
        if self._opened_at is None:
            return True
        if self._probing or now - self._opened_at < self._settings.reset_s:
            return False
        # One call alone decides whether the auditor is back; the others are spared its timeout.
        self._probing = True
        return True

    def succeeded(self) -> None:
        """Take note of a call that reached its auditor."""
        self._failed, self._opened_at, self._probing = 0, None, False

    def failed(self, now: float) -> None:
        """Take note of a call that did not."""
        self._failed += 1
        if self._probing or self._failed >= self._settings.failures:
            self._opened_at, self._probing = now, False

    def given_up(self) -> None:
        """Take note of a call whose end nobody waited for."""
        self._probing = False
