"""Would the policy have decided so? The recorded context is put to the policy again, and the answers are compared.

Laws: the policy is found by its digest and never guessed; a valid signature does not make a decision true; what an auditor's
failure adds (closed denies, warn warns) is added in the replay too; whatever let an exchange through (an auditor that failed
open, bytes unscanned, a denial not enforced) is on record as a gap or is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from demur.errors import DemurError
from demur.model.decision import Decision, Effect
from demur.model.passport import AuditorStatus, DeclineCause

if TYPE_CHECKING:
    from demur.model.passport import Passport, PhaseRecord

__all__ = ["Replay", "contradiction", "hidden_gap"]

Replay = Callable[[str], Decision]
"""Decides on a context given as JSON; one for each policy digest."""

_FLOORS = {"closed": Effect.DENY, "warn": Effect.WARN}


def contradiction(phase: PhaseRecord, context: str, replay: Replay) -> str | None:
    """Return how the recorded decision differs from the policy's own; None where it does not."""
    try:
        again = replay(context)
    except DemurError as exc:
        return f"the policy cannot be put to the recorded context: {exc.what}"
    effect = max(again.effect, _floor(phase))
    recorded = phase.decision
    if recorded.effect is not effect:
        return f"{phase.phase}: recorded `{recorded.effect.word}`, the policy decides `{effect.word}`"
    rules = {(rule.id, rule.effect) for rule in recorded.rules} ^ {(rule.id, rule.effect) for rule in again.rules}
    if rules:
        return (
            f"{phase.phase}: recorded and replayed rules differ in {', '.join(f'`{i}`' for i in sorted(dict(rules)))}"
        )
    if again.errors and not recorded.errors:
        return f"{phase.phase}: the policy met an error that is not on record"
    return None


def hidden_gap(passport: Passport) -> str | None:
    """Return what let the exchange through against the rules and is not among the passport's enforcement gaps."""
    said = {(gap.phase, gap.auditor) for gap in passport.gaps}
    phases_said = {phase for phase, _ in said}
    blocked = DeclineCause.GATEWAY_BLOCK in passport.causes
    for phase in passport.phases:
        for run in phase.auditors:
            failed = run.status is not AuditorStatus.OK and run.failure_mode == "open"
            if failed and (phase.phase, run.auditor) not in said:
                return f"auditor `{run.auditor}` failed open in {phase.phase}, which is not recorded as a gap"
        if phase.phase in phases_said:
            continue
        seen = phase.coverage
        if seen is not None and seen.scanned_bytes < seen.total_bytes:
            return (
                f"{seen.total_bytes - seen.scanned_bytes} bytes went unscanned in {phase.phase}, not recorded as a gap"
            )
        if phase.decision.effect is Effect.DENY and not blocked:
            return f"denied in {phase.phase}, neither blocked nor recorded as a gap"
    return None


def _floor(phase: PhaseRecord) -> Effect:
    failed = (run.failure_mode for run in phase.auditors if run.status is not AuditorStatus.OK)
    return max((_FLOORS.get(mode or "", Effect.ALLOW) for mode in failed), default=Effect.ALLOW)
