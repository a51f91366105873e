"""What is put to auditors in one phase, what each responded, and what it all came to.

An auditor's failure is a value, never an exception: `troubles` names every auditor that failed or was skipped, with the
failure mode applied, and `gaps` those whose failure let the exchange through.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from demur.model.claim import Effect
from demur.model.passport import AuditorRun, AuditorStatus

if TYPE_CHECKING:
    from demur.model.claim import Claim, Phase
    from demur.model.passport import EnforcementGap

__all__ = ["MOST_VERSION_CHARS", "Audit", "FailureMode", "Problem", "Stated", "Trouble", "Turn"]

MOST_VERSION_CHARS = 128
"""Of an auditor's version, which is in every record."""
_OK = AuditorStatus.OK


class FailureMode(StrEnum):
    """What an auditor's failure does to the exchange."""

    CLOSED = "closed"
    """It is denied."""
    WARN = "warn"
    """It passes with a warning, and the gap is on record."""
    OPEN = "open"
    """It passes, and the gap is on record."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an auditor's answer is not whole: a word for machines, a sentence for people; never the user's text."""

    code: str
    what: str


class Stated(msgspec.Struct, frozen=True):
    """What an auditor answered: the claims that are sound, and what is wrong with the rest.

    `unsound` are the names of the claims that are not, each with the reason.
    `reached` is False where there was no auditor at the other end, or none that keeps to the protocol.
    """

    claims: tuple[Claim, ...] = ()
    problems: tuple[Problem, ...] = ()
    version: str | None = None
    reached: bool = True
    unsound: tuple[tuple[str, str], ...] = ()


class Turn(msgspec.Struct, frozen=True):
    """One auditor's turn; `mode` is the failure mode that is in force should it have failed."""

    auditor: str
    version: str
    status: AuditorStatus
    took_us: int
    mode: FailureMode
    claims: tuple[Claim, ...] = ()
    problems: tuple[Problem, ...] = ()
    unsound: tuple[tuple[str, str], ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the turn did not end well."""
        return self.status is not _OK

    @property
    def run(self) -> AuditorRun:
        """The turn as it goes on record."""
        mode = None if self.status is _OK else self.mode.value
        return AuditorRun(self.auditor, self.version, self.status, self.took_us, mode)


@dataclass(frozen=True, slots=True)
class Trouble:
    """An auditor that failed, or was slower than it may be: how, why, and the failure mode applied (None: none)."""

    auditor: str
    phase: Phase
    status: AuditorStatus
    code: str
    what: str
    mode: FailureMode | None


class Audit(msgspec.Struct, frozen=True):
    """What the auditors of one phase came to; `unsound` are flat names, each with the reason, as `Ask.unsound` takes them."""

    phase: Phase
    claims: tuple[Claim, ...] = ()
    stated: tuple[Claim, ...] = ()
    runs: tuple[AuditorRun, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    gaps: tuple[EnforcementGap, ...] = ()
    denials: tuple[str, ...] = ()
    unsound: tuple[tuple[str, str], ...] = ()

    @property
    def must_deny(self) -> bool:
        """Whether an auditor that fails closed has failed; `denials` say which, and why."""
        return bool(self.denials)

    @property
    def floor(self) -> Effect:
        """The mildest effect that the failures leave: a decision is this or stronger."""
        if self.must_deny:
            return Effect.DENY
        warned = any(trouble.mode is FailureMode.WARN for trouble in self.troubles)
        return Effect.WARN if warned else Effect.ALLOW
