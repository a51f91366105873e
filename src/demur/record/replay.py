"""Replay: would the policy have decided so? The recorded context is evaluated again and compared with the entry.

A valid signature does not make a decision true. The context must be that of the passport's own session, phase and model and must
say what the auditors stated; whatever let an exchange through must be on record as a gap. The merge of claims follows docs/record.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from demur.errors import DemurError
from demur.model.claim import AuditorStatus, Claim, ClaimType, Decision, Effect, flat_name
from demur.model.passport import DeclineCause
from demur.record.commit import JsonValue, as_object, canonical, claims_in, read_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.claim import AuditorRun, ClaimValue
    from demur.model.passport import Passport, PhaseRecord

__all__ = ["Replay", "contradiction", "hidden_gap", "misplacement"]

Replay = Callable[[str], Decision]
"""Decides on a context given as JSON; one for each policy digest."""

_FLOORS = {"closed": Effect.DENY, "warn": Effect.WARN, "open": Effect.ALLOW}
"""The failure modes, and the mildest decision that each leaves."""
_UNSCANNED = frozenset({"unscanned", "upstream_cut", "client_gone", "beyond_limits"})
"""The gaps that explain unscanned bytes."""
_UNENFORCED = "unenforced"
"""The gap that says that a denial was not enforced."""
# Policies see scores with four decimals (Cedar's `decimal`), so a stated score may differ by half a step; the second term is
# for the rounding of two readings of one decimal.
_HALF_STEP = 0.00005
_ROUNDING = 1e-9
_SCORES = (ClaimType.SCORE_BINARY, ClaimType.SCORE_NORMALIZED, ClaimType.SCORE_PERCENTAGE)


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
    # A failed auditor adds its own decision outside of the policy: closed denies, warn warns.
    failed = (run.failure_mode for run in phase.auditors if run.status is not AuditorStatus.OK)
    effect = max([again.effect, *(_FLOORS.get(mode or "", Effect.ALLOW) for mode in failed)])
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
    blocked = DeclineCause.GATEWAY_BLOCK in passport.causes
    for phase in passport.phases:
        gaps = [gap for gap in passport.gaps if gap.phase is phase.phase]
        words = {gap.what for gap in gaps}
        for run in phase.auditors:
            wrong = _hidden_failure(run, phase, explained={gap.auditor for gap in gaps})
            if wrong is not None:
                return f"auditor `{run.auditor}` {wrong}"
        seen = phase.coverage
        if seen is not None and seen.scanned_bytes < seen.total_bytes and not words & _UNSCANNED:
            unscanned = seen.total_bytes - seen.scanned_bytes
            return f"{unscanned} bytes went unscanned in {phase.phase}, not recorded as a gap"
        if phase.decision.effect is Effect.DENY and not blocked and _UNENFORCED not in words:
            return f"denied in {phase.phase}, neither blocked nor recorded as a gap"
    return None


def _hidden_failure(run: AuditorRun, phase: PhaseRecord, *, explained: set[str | None]) -> str | None:
    """Return what an auditor's failure let through without a gap on record."""
    if run.status is AuditorStatus.OK:
        return None
    mode = run.failure_mode
    if mode not in _FLOORS:
        return f"failed in {phase.phase} with no failure mode that there is"
    if phase.decision.effect < _FLOORS[mode]:
        return f"failed {mode} in {phase.phase}, recorded `{phase.decision.effect.word}`"
    # An auditor that fails closed has denied, so nothing went unaudited.
    if mode != "closed" and run.auditor not in explained:
        return f"failed {mode} in {phase.phase}, which is not recorded as a gap"
    return None


def _wrong_context(phase: PhaseRecord, context: str) -> str | None:
    """Return what the context says otherwise than the phase or its auditors."""
    asked = read_object(context)
    action = asked.get("action", phase.phase.value)
    if action != phase.phase.value:
        return f"decided as `{action}`"
    recorded = claims_in(read_object(phase.context))
    for item in phase.withheld:
        value = recorded.get(flat_name(item.claim), {})
        if not isinstance(value, dict) or "__extn" in value:
            return f"`{item.claim}` is withheld and the context has a value for it"
    evaluated = claims_in(asked)
    for name, group in _comparable_claims(phase.claims, asked):
        if name in evaluated and not all(_agrees(value, evaluated[name]) for value in _merged_values(group)):
            return f"`{name}` was stated otherwise than the context has it"
    return None


def _wrong_omission(phase: PhaseRecord, context: str, replay: Replay, *, again: Decision) -> str | None:
    """Return which claims were stated, kept out of the context, and would have changed the decision."""
    asked = read_object(context)
    evaluated = claims_in(asked)
    missing: dict[str, JsonValue] = {}
    for name, group in _comparable_claims(phase.claims, asked):
        if name not in evaluated:
            missing[name] = _context_value(_merged_values(group)[0], group[0].type)
    if not missing:
        return None
    # Leaving a claim out is legitimate where no rule reads it (texts are left out for that reason), so the replay decides.
    complete = replay(canonical(asked | {"claims": evaluated | missing}).decode())
    if (complete.effect, complete.rules) == (again.effect, again.rules):
        return None
    return f"{', '.join(f'`{name}`' for name in sorted(missing))}: stated, not in the context, and would have decided"


def _comparable_claims(stated: Sequence[Claim], context: dict[str, JsonValue]) -> Iterator[tuple[str, list[Claim]]]:
    """Yield the claims by flat name, without those that are withheld, have no value, or are errors in the context."""
    errors = as_object(context.get("errors", {}))
    groups: dict[str, list[Claim]] = {}
    for claim in stated:
        groups.setdefault(flat_name(claim.name), []).append(claim)
    for name, group in groups.items():
        valued = [claim for claim in group if claim.value is not None]
        if valued and name not in errors and not any(claim.sensitive for claim in group):
            yield name, valued


def _merged_values(group: list[Claim]) -> list[ClaimValue]:
    """Return what the context must agree with: one value, or all of them where they cannot be merged."""
    values = [claim.value for claim in group]
    kinds = {claim.type for claim in group}
    if len(kinds) > 1:
        return values
    (kind,) = kinds
    if kind is ClaimType.CATEGORY_LIST:
        return [tuple({word for value in values if isinstance(value, tuple) for word in value})]
    if kind in (ClaimType.CATEGORY, ClaimType.POLICY_VIOLATION):
        return values
    # The stricter one counts: a conformity is good news, scores and booleans are bad news.
    pick = min if kind is ClaimType.CONFORMITY else max
    return [pick(values, key=lambda value: float(value) if isinstance(value, bool | int | float) else 0.0)]


def _context_value(value: ClaimValue, kind: ClaimType) -> JsonValue:
    if isinstance(value, tuple):
        return [*sorted(value)]
    if isinstance(value, float) or (kind in _SCORES and isinstance(value, bool | int)):
        return {"__extn": {"fn": "decimal", "arg": f"{float(value):.4f}"}}
    return value


def _agrees(value: ClaimValue, evaluated: JsonValue) -> bool:
    match evaluated:
        case {"__extn": {"fn": "decimal", "arg": str(digits)}}:
            try:
                score = float(digits)
            except ValueError:
                return False
            return isinstance(value, bool | int | float) and abs(score - value) <= _HALF_STEP + _ROUNDING * abs(value)
        case list():
            return isinstance(value, tuple) and set(value) == {str(word) for word in evaluated}
        case _:
            # Types too: True == 1 in Python and not in a policy.
            return type(value) is type(evaluated) and value == evaluated
