"""The sealed record of one exchange, before sealing: what is said in it, without any text.

Laws: a text appears only as a salted digest and its length; everything that decided is here (contexts, rules, errors,
auditors that failed), so that the decision can be replayed by someone who does not trust us.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.claim import Claim, Phase
    from demur.model.decision import Decision

__all__ = ["AuditorRun", "AuditorStatus", "Commitment", "Passport", "PhaseRecord"]


class AuditorStatus(StrEnum):
    """How an auditor's turn ended."""

    OK = "ok"
    TIMEOUT = "timeout"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class AuditorRun:
    """One auditor's turn: what it took, how it ended, which failure mode was applied (None where it went well)."""

    auditor: str
    version: str
    status: AuditorStatus
    took_us: int
    failure_mode: str | None = None


@dataclass(frozen=True, slots=True)
class Commitment:
    """`sha256(salt ‖ text)` in place of a text, and its length in bytes."""

    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """What was known and decided in one phase."""

    phase: Phase
    claims: tuple[Claim, ...]
    decision: Decision
    auditors: tuple[AuditorRun, ...]


@dataclass(frozen=True, slots=True)
class Passport:
    """One exchange on record: who, when, which model, under which policy, what was decided and why."""

    session: str
    seq: int
    at: str
    model_asked: str
    model_served: str
    config_digest: str
    policy_digest: str
    request: Commitment | None
    response: Commitment | None
    phases: tuple[PhaseRecord, ...]
