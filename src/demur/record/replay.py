"""Would the policy have decided so? The recorded context is put to the policy again, and the answers are compared.

Laws: the policy is found by its digest and never guessed; a valid signature does not make a decision true; the context is that of the
passport's own session, phase and model, and says what the auditors stated; what an auditor's failure adds (closed denies, warn
warns) is added in the replay too; whatever let an exchange through (an auditor that failed and did not deny, bytes unscanned, a denial
not enforced) is on record as a gap of its own kind or is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from demur.errors import DemurError
from demur.model.claim import flat_name
from demur.model.decision import Decision, Effect
from demur.model.passport import AuditorStatus, DeclineCause
from demur.record.canonical import canonical, read_object
from demur.record.commit import claims_in
from demur.record.merging import misstated, omitted

if TYPE_CHECKING:
    from demur.model.passport import AuditorRun, Passport, PhaseRecord

__all__ = ["Replay", "contradiction", "hidden_gap", "misplacement"]

Replay = Callable[[str], Decision]
"""Decides on a context given as JSON; one for each policy digest."""

_FLOORS = {"closed": Effect.DENY, "warn": Effect.WARN, "open": Effect.ALLOW}
"""The failure modes, and the mildest decision that each leaves."""
_UNSCANNED = frozenset({"unscanned", "upstream_cut", "client_gone", "beyond_limits"})
"""The gaps that say why bytes went unscanned."""
_UNENFORCED = "unenforced"
"""The gap that says that a denial was not enforced."""


def misplacement(passport: Passport, phase: PhaseRecord) -> str | None:
    """Return how a phase's context is that of another session or model; None where it is the passport's own."""
    context = read_object(phase.context)
    for key, own in (("principal", passport.session), ("resource", passport.model_asked)):
        if context.get(key, own) != own:
            return f"{phase.phase}: decided on the {key} `{context[key]}`, the passport is of `{own}`"
    return None


def contradiction(phase: PhaseRecord, context: str, replay: Replay) -> str | None:
    """Return how the recorded decision differs from the policy's own; None where it does not."""
    try:
        again = replay(context)
        wrong = _wrong_context(phase, context) or _wrong_omission(phase, context, replay, again=again)
    except DemurError as exc:
        return f"the policy cannot be put to the recorded context: {exc.what}"
    if wrong is not None:
        return f"{phase.phase}: {wrong}"
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


def _wrong_context(phase: PhaseRecord, context: str) -> str | None:
    asked = read_object(context)
    action = asked.get("action", phase.phase.value)
    if action != phase.phase.value:
        return f"decided as `{action}`"
    recorded = claims_in(read_object(phase.context))
    for item in phase.withheld:
        value = recorded.get(flat_name(item.claim), {})
        if not isinstance(value, dict) or "__extn" in value:
            return f"`{item.claim}` is withheld and the context has a value for it"
    name = misstated(phase.claims, asked)
    return None if name is None else f"`{name}` was stated otherwise than the context has it"


def _wrong_omission(phase: PhaseRecord, context: str, replay: Replay, *, again: Decision) -> str | None:
    """Return which claims were stated, kept out of the context, and would have changed the decision."""
    asked = read_object(context)
    missing = omitted(phase.claims, asked)
    if not missing:
        return None
    told = replay(canonical(asked | {"claims": claims_in(asked) | missing}).decode())
    if (told.effect, told.rules) == (again.effect, again.rules):
        return None
    return f"{', '.join(f'`{name}`' for name in sorted(missing))}: stated, not in the context, and would have decided"


def hidden_gap(passport: Passport) -> str | None:
    """Return what let the exchange through against the rules and is not among the passport's enforcement gaps."""
    blocked = DeclineCause.GATEWAY_BLOCK in passport.causes
    for phase in passport.phases:
        said = {(gap.what, gap.auditor) for gap in passport.gaps if gap.phase is phase.phase}
        words = {what for what, _ in said}
        for run in phase.auditors:
            wrong = _hidden_failure(run, phase, said={auditor for _, auditor in said})
            if wrong is not None:
                return f"auditor `{run.auditor}` {wrong}"
        seen = phase.coverage
        if seen is not None and seen.scanned_bytes < seen.total_bytes and not words & _UNSCANNED:
            unscanned = seen.total_bytes - seen.scanned_bytes
            return f"{unscanned} bytes went unscanned in {phase.phase}, not recorded as a gap"
        if phase.decision.effect is Effect.DENY and not blocked and _UNENFORCED not in words:
            return f"denied in {phase.phase}, neither blocked nor recorded as a gap"
    return None


def _hidden_failure(run: AuditorRun, phase: PhaseRecord, *, said: set[str | None]) -> str | None:
    """Return what a failed auditor did unsaid: only one that is closed, and so denied, leaves no gap."""
    if run.status is AuditorStatus.OK:
        return None
    mode = run.failure_mode
    if mode not in _FLOORS:
        return f"failed in {phase.phase} with no failure mode that there is"
    if phase.decision.effect < _FLOORS[mode]:
        return f"failed {mode} in {phase.phase}, recorded `{phase.decision.effect.word}`"
    if mode != "closed" and run.auditor not in said:
        return f"failed {mode} in {phase.phase}, which is not recorded as a gap"
    return None


def _floor(phase: PhaseRecord) -> Effect:
    failed = (run.failure_mode for run in phase.auditors if run.status is not AuditorStatus.OK)
    return max((_FLOORS.get(mode or "", Effect.ALLOW) for mode in failed), default=Effect.ALLOW)
