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
_WORDS = {effect: word for word, effect in _EFFECTS.items()}
_ABSENT: Final = object()
_Stated = tuple[dict[ClaimType, list[str]], list[ClaimForm]]
"""What an auditor stated: by type the names whose values the context holds, and the others."""
_SAID_PLAINLY = frozenset({bool, int, str})
"""The types of claims that stand in a context as they are."""


def phase_form(phase: PhaseRecord, session: str, *, model: str) -> PhaseForm:
    """Return the phase as it is written in the passport of this session and model."""
    context = read_exact(phase.context)
    seen = phase.coverage
    return PhaseForm(
        phase=phase.phase,
        context=msgspec.Raw(canonical(_less_known(context, _ordinary_context(phase.phase, session, model=model)))),
        decision=_WORDS[phase.decision.effect],
        auditors=_auditor_forms(phase, claims_in(context)),
        rules=tuple([RuleForm(rule.id, _WORDS[rule.effect], rule.reason, rule.place) for rule in phase.decision.rules]),
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
    return {"principal": session, "action": phase, "resource": model, "labels": [], "extras": {}, "errors": {}}


def _less_known(context: dict[str, JsonValue], frame: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the context without what the frame says already; null stands for a member that it does not have."""
    said = dict(context)
    for key, known in frame.items():
        value = said.get(key, _ABSENT)
        if value == known:
            del said[key]
        elif value is None:
            raise ShapeError("a member of the context is null", hint="leave out what is not known")
        elif value is _ABSENT:
            said[key] = None
    return said


def _restored(said: dict[str, JsonValue], frame: dict[str, JsonValue]) -> dict[str, JsonValue]:
    whole = frame | said
    return {key: value for key, value in whole.items() if value is not None or key not in frame}


def _as_evaluated(value: JsonValue) -> ClaimValue:
    """Return what a claim was when the context says this of it; None where that cannot be told."""
    if isinstance(value, dict):
        call = value.get("__extn")
        digits = call.get("arg") if isinstance(call, dict) and call.get("fn") == "decimal" else None
        return _number(digits, "the context") if isinstance(digits, str) else None
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        return tuple(texts) if len(texts) == len(value) else None
    return value


def _in_context(claim: Claim, evaluated: dict[str, JsonValue]) -> bool:
    """Whether the context tells all of a claim, its auditor and type aside; True and 1 are not the same value."""
    stated = claim.value
    if stated is None or claim.sensitive or claim.confidence != 1.0:
        return False
    told, kind = evaluated.get(flat_name(claim.name)), type(stated)
    if kind in _SAID_PLAINLY and type(told) is kind:
        return told == stated
    value = _as_evaluated(told)
    return type(value) is kind and value == stated


def _auditor_forms(phase: PhaseRecord, evaluated: dict[str, JsonValue]) -> tuple[AuditorForm, ...]:
    withheld: dict[str, list[Commitment]] = {}
    for item in reversed(phase.withheld):
        withheld.setdefault(item.claim, []).append(item.commitment)
    stated: dict[str, _Stated] = {run.auditor: ({}, []) for run in phase.auditors}
    for claim in phase.claims:
        turn = stated.get(claim.auditor)
        if turn is None or claim.phase is not phase.phase:
            hint = "record the turn of every auditor, each in its phase"
            raise UsageError(f"the claim `{claim.name}` is of no auditor that ran in this phase", hint=hint)
        plain, apart = turn
        if not _in_context(claim, evaluated):
            apart.append(_claim_form(claim, _next_commitment(claim, withheld)))
        elif claim.type in plain:
            plain[claim.type].append(claim.name)
        else:
            plain[claim.type] = [claim.name]
    if any(withheld.values()):
        raise UsageError("a value is withheld that no claim has", hint="let `withhold` make both")
    return tuple([_auditor_form(run, *stated[run.auditor]) for run in phase.auditors])


def _auditor_form(run: AuditorRun, plain: dict[ClaimType, list[str]], apart: list[ClaimForm]) -> AuditorForm:
    claims = {kind: tuple(names) for kind, names in plain.items()}
    return AuditorForm(run.auditor, run.version, run.status, run.took_us, run.failure_mode, claims, tuple(apart))


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
    value, real = (None, repr(claim.value)) if isinstance(claim.value, float) else (claim.value, None)
    confidence = None if claim.confidence == 1.0 else repr(claim.confidence)
    behind = None if withheld is None else CommitmentForm(withheld.digest, withheld.size_bytes)
    return ClaimForm(claim.name, claim.type, value, real, confidence, claim.sensitive, behind)


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
