"""How is one phase of an exchange written: what each auditor stated, on which context it was decided, and what?

Laws: the context stands as it was evaluated, in canonical form, and is read back exactly: principal, action and resource are
left out where they are the passport's session, phase and model, labels, extras and errors where there are none; each claim stands under the auditor that made it, its value
only where the context does not tell it already; what is read holds the same claims, in the order of auditors and types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from demur.errors import ShapeError, UsageError
from demur.model.claim import Claim, ClaimType, ClaimValue, Phase, flat_name
from demur.model.decision import Decision, Effect, FiredRule
from demur.model.passport import AuditorRun, Commitment, Coverage, EnforcementGap, PhaseRecord, Withheld
from demur.record.canonical import JsonValue, canonical, read_exact, read_object
from demur.record.commit import claims_in
from demur.record.predicate import (
    AuditorForm,
    ClaimForm,
    CommitmentForm,
    CoverageForm,
    GapForm,
    PhaseForm,
    RuleForm,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["gap_form", "phase_form", "read_gap", "read_phase"]

_EFFECTS = {effect.word: effect for effect in Effect}
_ABSENT: Final = object()


def phase_form(phase: PhaseRecord, session: str, *, model: str) -> PhaseForm:
    """Return the phase as it is written in the passport of this session and model."""
    context = read_exact(phase.context)
    seen = phase.coverage
    return PhaseForm(
        phase=phase.phase,
        context=msgspec.Raw(canonical(_less_known(context, _ordinary_context(phase.phase, session, model=model)))),
        decision=phase.decision.effect.word,
        auditors=_auditor_forms(phase, claims_in(context)),
        rules=tuple(RuleForm(rule.id, rule.effect.word, rule.reason, rule.place) for rule in phase.decision.rules),
        errors=phase.decision.errors,
        coverage=None if seen is None else CoverageForm(seen.mode, seen.scanned_bytes, seen.total_bytes, seen.strands),
    )


def read_phase(form: PhaseForm, session: str, *, model: str) -> PhaseRecord:
    """Return the phase that was written in the passport of this session and model."""
    context = _restored(read_object(bytes(form.context)), _ordinary_context(form.phase, session, model=model))
    evaluated = claims_in(context)
    apart = [claim for run in form.auditors for claim in run.other_claims]
    seen = form.coverage
    return PhaseRecord(
        phase=form.phase,
        claims=tuple(claim for run in form.auditors for claim in _claims_of(run, form.phase, evaluated=evaluated)),
        decision=Decision(_effect(form.decision), tuple(_rule(rule) for rule in form.rules), form.errors),
        auditors=tuple(AuditorRun(a.id, a.version, a.status, a.took_us, a.failure_mode) for a in form.auditors),
        context=canonical(context).decode(),
        withheld=tuple(
            Withheld(claim.name, Commitment(claim.withheld.digest, claim.withheld.size_bytes))
            for claim in apart
            if claim.withheld is not None
        ),
        coverage=None if seen is None else Coverage(seen.mode, seen.scanned_bytes, seen.total_bytes, seen.strands),
    )


def gap_form(gap: EnforcementGap) -> GapForm:
    """Return the gap as it is written."""
    return GapForm(gap.phase, gap.what, gap.auditor)


def read_gap(form: GapForm) -> EnforcementGap:
    """Return the gap that was written."""
    return EnforcementGap(form.phase, form.what, form.auditor)


def _ordinary_context(phase: Phase, session: str, *, model: str) -> dict[str, JsonValue]:
    """Return what a context holds besides its claims in the ordinary case."""
    return {"principal": session, "action": phase.value, "resource": model, "labels": [], "extras": {}, "errors": {}}


def _less_known(context: dict[str, JsonValue], frame: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the context without what the frame says already; null stands for a member that it does not have."""
    said = dict(context)
    for key, known in frame.items():
        value = said.get(key, _ABSENT)
        if value is None:
            raise ShapeError("a member of the context is null", hint="leave out what is not known")
        if value is _ABSENT:
            said[key] = None
        elif value == known:
            del said[key]
    return said


def _restored(said: dict[str, JsonValue], frame: dict[str, JsonValue]) -> dict[str, JsonValue]:
    whole = frame | said
    return {key: value for key, value in whole.items() if value is not None or key not in frame}


def _as_evaluated(value: JsonValue) -> ClaimValue:
    """Return what a claim was when the context says this of it; None where that cannot be told."""
    match value:
        case {"__extn": {"fn": "decimal", "arg": str(digits)}}:
            return _number(digits, "the context")
        case bool() | int() | str():
            return value
        case list() if all(isinstance(item, str) for item in value):
            return tuple(str(item) for item in value)
        case _:
            return None


def _in_context(claim: Claim, evaluated: dict[str, JsonValue]) -> bool:
    """Whether the context tells all of a claim, its auditor and type aside; True and 1 are not the same value."""
    if claim.value is None or claim.sensitive or claim.confidence != 1.0:
        return False
    value = _as_evaluated(evaluated.get(flat_name(claim.name)))
    return type(value) is type(claim.value) and value == claim.value


def _auditor_forms(phase: PhaseRecord, evaluated: dict[str, JsonValue]) -> tuple[AuditorForm, ...]:
    withheld: dict[str, list[Commitment]] = {}
    for item in reversed(phase.withheld):
        withheld.setdefault(item.claim, []).append(item.commitment)
    plain: dict[str, dict[ClaimType, list[str]]] = {run.auditor: {} for run in phase.auditors}
    apart: dict[str, list[ClaimForm]] = {run.auditor: [] for run in phase.auditors}
    for claim in phase.claims:
        if claim.auditor not in apart or claim.phase is not phase.phase:
            hint = "record the turn of every auditor, each in its phase"
            raise UsageError(f"the claim `{claim.name}` is of no auditor that ran in this phase", hint=hint)
        if _in_context(claim, evaluated):
            plain[claim.auditor].setdefault(claim.type, []).append(claim.name)
        else:
            apart[claim.auditor].append(_claim_form(claim, _next_commitment(claim, withheld)))
    if any(withheld.values()):
        raise UsageError("a value is withheld that no claim has", hint="let `withhold` make both")
    return tuple(
        AuditorForm(
            run.auditor,
            run.version,
            run.status,
            run.took_us,
            run.failure_mode,
            {kind: tuple(names) for kind, names in plain[run.auditor].items()},
            tuple(apart[run.auditor]),
        )
        for run in phase.auditors
    )


def _next_commitment(claim: Claim, withheld: dict[str, list[Commitment]]) -> Commitment | None:
    """Take the commitment of a sensitive claim; of two claims of one name, the first comes first."""
    left = withheld.get(claim.name) if claim.sensitive else None
    return left.pop() if left else None


def _claims_of(run: AuditorForm, phase: Phase, *, evaluated: dict[str, JsonValue]) -> Iterator[Claim]:
    for kind, names in run.claims.items():
        for name in names:
            value = _as_evaluated(evaluated.get(flat_name(name)))
            if value is None:
                what = f"the claim `{name}` is said to stand in the context, where it does not"
                raise ShapeError(what, hint="expected its value beside it")
            yield Claim(name, kind, value, phase, run.id)
    for form in run.other_claims:
        yield _claim(form, phase, auditor=run.id)


def _claim_form(claim: Claim, withheld: Commitment | None) -> ClaimForm:
    if claim.sensitive and claim.value is not None:
        raise UsageError(f"the sensitive claim `{claim.name}` still has its value", hint="withhold it before sealing")
    real = repr(claim.value) if isinstance(claim.value, float) else None
    return ClaimForm(
        name=claim.name,
        type=claim.type,
        value=None if isinstance(claim.value, float) else claim.value,
        real=real,
        confidence=None if claim.confidence == 1.0 else repr(claim.confidence),
        sensitive=claim.sensitive,
        withheld=None if withheld is None else CommitmentForm(withheld.digest, withheld.size_bytes),
    )


def _claim(form: ClaimForm, phase: Phase, *, auditor: str) -> Claim:
    value: ClaimValue = form.value if form.real is None else _number(form.real, f"the claim `{form.name}`")
    confidence = 1.0 if form.confidence is None else _number(form.confidence, f"the claim `{form.name}`")
    return Claim(form.name, form.type, value, phase, auditor, confidence=confidence, sensitive=form.sensitive)


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as exc:
        raise ShapeError(f"{where} has `{text}` where a number belongs", hint="expected a decimal") from exc


def _rule(form: RuleForm) -> FiredRule:
    return FiredRule(form.id, _effect(form.effect), form.reason, form.place)


def _effect(word: str) -> Effect:
    if word not in _EFFECTS:
        raise ShapeError(f"`{word}` is no decision", hint=f"expected one of {', '.join(_EFFECTS)}")
    return _EFFECTS[word]
