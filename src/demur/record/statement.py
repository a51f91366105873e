"""Entries of the log as in-toto Statements v1 in canonical JSON, and back.

Reading returns exactly what was written, and only canonical bytes are read, so an entry has one spelling. The claims of a phase
are kept under the auditor that made them; a value that the evaluated context already holds is not written a second time.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from demur.errors import ShapeError, UsageError
from demur.model.claim import (
    AuditorRun,
    AuditorStatus,
    Claim,
    ClaimType,
    ClaimValue,
    Decision,
    Effect,
    EnforcementGap,
    FiredRule,
    Phase,
    flat_name,
)
from demur.model.exchange import Channel  # noqa: TC001 — msgspec reads the annotations at run time
from demur.model.passport import (
    Commitment,
    Coverage,
    DeclineCause,
    Erasure,
    KeyRotation,
    LogEntry,
    Passport,
    PhaseRecord,
    Restart,
    SigningMode,
    StreamMode,
    Withheld,
)
from demur.record.commit import JsonValue, canonical, claims_in, is_canonical, read_exact, read_object
from demur.record.keys import KeyForm, key_form, parse_time, public_key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "STATEMENT_TYPE",
    "AuditorForm",
    "ClaimForm",
    "CommitmentForm",
    "CoverageForm",
    "ErasureForm",
    "GapForm",
    "PassportForm",
    "PhaseForm",
    "RestartForm",
    "RotationForm",
    "RuleForm",
    "StatementForm",
    "SubjectForm",
    "read_statement",
    "write_statement",
]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


class _Form(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all forms."""


class SubjectForm(_Form, frozen=True):
    """What a statement is about: a name, its digest by algorithm, and the size of a committed text."""

    name: str
    digest: dict[str, str]
    annotations: dict[str, int] = {}


class CommitmentForm(_Form, frozen=True):
    """What stands in place of a withheld value."""

    digest: str
    size_bytes: int


class ClaimForm(_Form, frozen=True):
    """A claim that cannot be read off the context; a withheld one has `withheld`, a fraction is under `real`."""

    name: str
    type: ClaimType
    value: bool | int | str | tuple[str, ...] | None = None
    # A decimal string: RFC 8785 prints floats as ECMAScript does, and writers in other languages get that wrong.
    real: str | None = None
    confidence: str | None = None
    sensitive: bool = False
    withheld: CommitmentForm | None = None


class AuditorForm(_Form, frozen=True):
    """One auditor's run and its claims: by type the names whose values the context holds, and the other claims."""

    id: str
    version: str
    status: AuditorStatus
    took_us: int
    failure_mode: str | None = None
    claims: dict[ClaimType, tuple[str, ...]] = {}
    other_claims: tuple[ClaimForm, ...] = ()


class RuleForm(_Form, frozen=True):
    """A rule that fired."""

    id: str
    effect: str
    reason: str | None = None
    place: str | None = None


class CoverageForm(_Form, frozen=True):
    """What was scanned."""

    mode: StreamMode
    scanned_bytes: int
    total_bytes: int
    strands: tuple[Channel, ...] = ()


class PhaseForm(_Form, frozen=True):
    """One phase; the context is the one that was evaluated, less what the passport says elsewhere (see `statement`)."""

    phase: Phase
    context: msgspec.Raw
    decision: str
    auditors: tuple[AuditorForm, ...] = ()
    rules: tuple[RuleForm, ...] = ()
    errors: tuple[str, ...] = ()
    coverage: CoverageForm | None = None


class GapForm(_Form, frozen=True):
    """A place where enforcement did not hold."""

    phase: Phase
    what: str
    auditor: str | None = None


class PassportForm(_Form, frozen=True):
    """The predicate of an exchange; its texts are the statement's subjects."""

    session: str
    seq: int
    at: str
    # These three have no default: that there is no signature, attestation or predecessor is stated, never implied.
    signing: SigningMode
    attestation: str | None
    previous: str | None
    model_asked: str
    model_served: str | None
    upstream_status: int | None
    config_digest: str
    policy_digest: str
    phases: tuple[PhaseForm, ...]
    finish_reasons: tuple[str, ...] = ()
    causes: tuple[DeclineCause, ...] = ()
    gaps: tuple[GapForm, ...] = ()


class RotationForm(_Form, frozen=True):
    """The predicate of a key rotation."""

    at: str
    signing: SigningMode
    new: KeyForm


class ErasureForm(_Form, frozen=True):
    """The predicate of an erasure."""

    at: str
    signing: SigningMode
    digests: tuple[str, ...]
    reason: str


class RestartForm(_Form, frozen=True):
    """The predicate of a restart."""

    at: str
    signing: SigningMode
    size: int
    root: str
    config_digest: str
    policy_digest: str
    clean: bool


class StatementForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"type": "_type"}):
    """An in-toto Statement v1; the predicate's type names its kind and version."""

    type: str
    subject: tuple[SubjectForm, ...]
    predicateType: str  # noqa: N815 — in-toto's own spelling
    # Raw, so that the predicate is decoded once its type is known, and in the bytes that were signed.
    predicate: msgspec.Raw


# in-toto's `sha256` is the digest of the content itself; a salted digest under that name would be a false statement.
_SALTED = "saltedSha256"
_PLAIN = "sha256"
_SIZE = "size_bytes"
_Predicate = PassportForm | RotationForm | ErasureForm | RestartForm
_TYPES: dict[type[_Predicate], str] = {
    PassportForm: "urn:demur:passport:v1",
    RotationForm: "urn:demur:rotation:v1",
    ErasureForm: "urn:demur:erasure:v1",
    RestartForm: "urn:demur:restart:v1",
}
_READER = msgspec.json.Decoder(StatementForm)
_READERS: dict[str, msgspec.json.Decoder[_Predicate]] = {
    uri: msgspec.json.Decoder(form) for form, uri in _TYPES.items()
}
_EFFECTS = {effect.word: effect for effect in Effect}
_WORDS = {effect: word for word, effect in _EFFECTS.items()}
_ABSENT: Final = object()
_Stated = tuple[dict[ClaimType, list[str]], list[ClaimForm]]
"""What an auditor stated: by type the names whose values the context holds, and the other claims."""
_SAME_IN_CONTEXT = frozenset({bool, int, str})
"""The types of values that a context holds unchanged."""


def write_statement(entry: LogEntry) -> bytes:
    """Return the canonical bytes of an entry's statement."""
    parse_time(entry.at)
    form: _Predicate
    match entry:
        case Passport():
            form = _passport_form(entry)
        case KeyRotation(new=new):
            form = RotationForm(entry.at, entry.signing, key_form(new))
        case Erasure():
            form = ErasureForm(entry.at, entry.signing, entry.digests, entry.reason)
        case Restart():
            fields = (entry.size, entry.root, entry.config_digest, entry.policy_digest, entry.clean)
            form = RestartForm(entry.at, entry.signing, *fields)
        case _:
            assert_never(entry)
    return canonical(StatementForm(STATEMENT_TYPE, _subjects(entry), _TYPES[type(form)], msgspec.Raw(canonical(form))))


def read_statement(payload: bytes) -> LogEntry:
    """Return the entry that a statement holds."""
    try:
        form = _READER.decode(payload)
        reader = _READERS.get(form.predicateType)
        if form.type != STATEMENT_TYPE or reader is None:
            raise ShapeError(
                f"a statement of type `{form.predicateType}`", hint=f"expected one of {', '.join(_READERS)}"
            )
        predicate = reader.decode(form.predicate)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise ShapeError(f"no statement of ours ({str(exc).lower()})", hint="expected an in-toto Statement v1") from exc
    if not is_canonical(payload):
        raise ShapeError("the statement is not in canonical form", hint="expected RFC 8785")
    entry = _read_entry(predicate, form.subject)
    parse_time(entry.at)
    # The subjects repeat what the predicate says, for readers that know in-toto and not us: both must agree.
    if _subjects(entry) != form.subject:
        raise ShapeError(
            "the statement's subjects are not those of its predicate", hint="expected the texts that were committed to"
        )
    return entry


def _subjects(entry: LogEntry) -> tuple[SubjectForm, ...]:
    match entry:
        case Passport():
            texts = (("request", entry.request), ("response", entry.response))
            found = [
                SubjectForm(name, {_SALTED: c.digest}, {_SIZE: c.size_bytes}) for name, c in texts if c is not None
            ]
            # in-toto requires at least one subject: where no text was committed to, it is the session's name.
            return tuple(found) or (SubjectForm("session", {_PLAIN: sha256(entry.session.encode()).hexdigest()}),)
        case KeyRotation(new=new):
            try:
                digest = sha256(bytes.fromhex(new.ed25519)).hexdigest()
            except ValueError as exc:
                raise ShapeError(f"the key `{new.ed25519}` is not in hex", hint="give its 32 bytes in hex") from exc
            return (SubjectForm("key", {_PLAIN: digest}),)
        case Erasure(digests=digests):
            if not digests:
                raise UsageError("an erasure of nothing", hint="name the commitments that were erased")
            return tuple(SubjectForm("text", {_SALTED: digest}) for digest in digests)
        case Restart(root=root):
            return (SubjectForm("log", {_PLAIN: root}),)
        case _:
            assert_never(entry)


def _passport_form(passport: Passport) -> PassportForm:
    return PassportForm(
        session=passport.session,
        seq=passport.seq,
        at=passport.at,
        signing=passport.signing,
        attestation=passport.attestation,
        previous=passport.previous,
        model_asked=passport.model_asked,
        model_served=passport.model_served,
        upstream_status=passport.upstream_status,
        finish_reasons=passport.finish_reasons,
        config_digest=passport.config_digest,
        policy_digest=passport.policy_digest,
        causes=passport.causes,
        gaps=tuple(GapForm(gap.phase, gap.what, gap.auditor) for gap in passport.gaps),
        phases=tuple(_phase_form(phase, passport.session, model=passport.model_asked) for phase in passport.phases),
    )


def _read_entry(form: _Predicate, subjects: tuple[SubjectForm, ...]) -> LogEntry:
    # Texts are in the subjects alone: in-toto's own verifiers look for digests there.
    match form:
        case PassportForm():
            return _read_passport(form, {subject.name: subject for subject in subjects})
        case RotationForm(new=new):
            return KeyRotation(form.at, public_key_of(new), signing=form.signing)
        case ErasureForm():
            return Erasure(form.at, form.digests, form.reason, signing=form.signing)
        case RestartForm():
            fields = (form.size, form.root, form.config_digest, form.policy_digest)
            return Restart(form.at, *fields, clean=form.clean, signing=form.signing)
        case _:
            assert_never(form)


def _read_passport(form: PassportForm, subjects: dict[str, SubjectForm]) -> Passport:
    return Passport(
        session=form.session,
        seq=form.seq,
        at=form.at,
        model_asked=form.model_asked,
        model_served=form.model_served,
        config_digest=form.config_digest,
        policy_digest=form.policy_digest,
        request=_read_commitment(subjects.get("request")),
        response=_read_commitment(subjects.get("response")),
        phases=tuple(_read_phase(phase, form.session, model=form.model_asked) for phase in form.phases),
        causes=form.causes,
        finish_reasons=form.finish_reasons,
        upstream_status=form.upstream_status,
        gaps=tuple(EnforcementGap(gap.phase, gap.what, gap.auditor) for gap in form.gaps),
        previous=form.previous,
        signing=form.signing,
        attestation=form.attestation,
    )


def _read_commitment(subject: SubjectForm | None) -> Commitment | None:
    if subject is None:
        return None
    # What is missing here makes other subjects than the statement has, and is reported as that.
    return Commitment(subject.digest.get(_SALTED, ""), subject.annotations.get(_SIZE, -1))


def _phase_form(phase: PhaseRecord, session: str, *, model: str) -> PhaseForm:
    """Return the phase as it is written in the passport of this session and model."""
    context = read_exact(phase.context)
    evaluated = claims_in(context)
    # Half of an ordinary context repeats the passport. Leaving that out, and writing null for a member that the context does not
    # have, keeps it exactly restorable; so a context's own null could not be told apart and is rejected.
    for key, usual in _usual_context(phase.phase, session, model=model).items():
        value = context.get(key, _ABSENT)
        if value == usual:
            del context[key]
        elif value is None:
            raise ShapeError("a member of the context is null", hint="leave out what is not known")
        elif value is _ABSENT:
            context[key] = None
    seen = phase.coverage
    return PhaseForm(
        phase=phase.phase,
        context=msgspec.Raw(canonical(context)),
        decision=_WORDS[phase.decision.effect],
        auditors=_auditor_forms(phase, evaluated),
        rules=tuple([RuleForm(rule.id, _WORDS[rule.effect], rule.reason, rule.place) for rule in phase.decision.rules]),
        errors=phase.decision.errors,
        coverage=None if seen is None else CoverageForm(seen.mode, seen.scanned_bytes, seen.total_bytes, seen.strands),
    )


def _read_phase(form: PhaseForm, session: str, *, model: str) -> PhaseRecord:
    """Return the phase that was written in the passport of this session and model."""
    usual = _usual_context(form.phase, session, model=model)
    written = usual | read_object(bytes(form.context))
    context = {key: value for key, value in written.items() if value is not None or key not in usual}
    evaluated = claims_in(context)
    rules = tuple(FiredRule(rule.id, _read_effect(rule.effect), rule.reason, rule.place) for rule in form.rules)
    seen = form.coverage
    return PhaseRecord(
        phase=form.phase,
        claims=tuple(claim for run in form.auditors for claim in _read_claims(run, form.phase, evaluated=evaluated)),
        decision=Decision(_read_effect(form.decision), rules, form.errors),
        auditors=tuple(AuditorRun(a.id, a.version, a.status, a.took_us, a.failure_mode) for a in form.auditors),
        context=canonical(context).decode(),
        withheld=tuple(
            Withheld(claim.name, Commitment(claim.withheld.digest, claim.withheld.size_bytes))
            for run in form.auditors
            for claim in run.other_claims
            if claim.withheld is not None
        ),
        coverage=None if seen is None else Coverage(seen.mode, seen.scanned_bytes, seen.total_bytes, seen.strands),
    )


def _usual_context(phase: Phase, session: str, *, model: str) -> dict[str, JsonValue]:
    """Return what a context holds besides its claims in the usual case."""
    return {"principal": session, "action": phase, "resource": model, "labels": [], "extras": {}, "errors": {}}


def _auditor_forms(phase: PhaseRecord, evaluated: dict[str, JsonValue]) -> tuple[AuditorForm, ...]:
    # Two claims of one name can both be withheld: the commitments are taken in the order in which they were made.
    withheld: dict[str, list[Commitment]] = {}
    for item in reversed(phase.withheld):
        withheld.setdefault(item.claim, []).append(item.commitment)
    stated: dict[str, _Stated] = {run.auditor: ({}, []) for run in phase.auditors}
    for claim in phase.claims:
        turn = stated.get(claim.auditor)
        if turn is None or claim.phase is not phase.phase:
            hint = "record the turn of every auditor, each in its phase"
            raise UsageError(f"the claim `{claim.name}` is of no auditor that ran in this phase", hint=hint)
        in_context, apart = turn
        if not _is_in_context(claim, evaluated):
            commitments = withheld.get(claim.name) if claim.sensitive else None
            apart.append(_claim_form(claim, commitments.pop() if commitments else None))
        elif claim.type in in_context:
            in_context[claim.type].append(claim.name)
        else:
            in_context[claim.type] = [claim.name]
    if any(withheld.values()):
        raise UsageError("a value is withheld that no claim has", hint="let `withhold` make both")
    forms: list[AuditorForm] = []
    for run in phase.auditors:
        in_context, apart = stated[run.auditor]
        claims = {kind: tuple(names) for kind, names in in_context.items()}
        turn_of = (run.auditor, run.version, run.status, run.took_us, run.failure_mode)
        forms.append(AuditorForm(*turn_of, claims, tuple(apart)))
    return tuple(forms)


def _is_in_context(claim: Claim, evaluated: dict[str, JsonValue]) -> bool:
    """Whether the context tells all of a claim, apart from its auditor and type."""
    stated = claim.value
    if stated is None or claim.sensitive or claim.confidence != 1.0:
        return False
    found, kind = evaluated.get(flat_name(claim.name)), type(stated)
    # Types are compared as well as values, for True == 1 in Python and not in a policy.
    if kind in _SAME_IN_CONTEXT and type(found) is kind:
        return found == stated
    value = _value_in_context(found)
    return type(value) is kind and value == stated


def _value_in_context(value: JsonValue) -> ClaimValue:
    """Return the claim's value that a context shows so; None where that cannot be told."""
    if isinstance(value, dict):
        # Cedar's JSON writes a decimal as a call of the extension function `decimal`.
        call = value.get("__extn")
        digits = call.get("arg") if isinstance(call, dict) and call.get("fn") == "decimal" else None
        return _read_number(digits, "the context") if isinstance(digits, str) else None
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        return tuple(texts) if len(texts) == len(value) else None
    return value


def _claim_form(claim: Claim, withheld: Commitment | None) -> ClaimForm:
    # The last barrier before a user's text would go on record.
    if claim.sensitive and claim.value is not None:
        raise UsageError(f"the sensitive claim `{claim.name}` still has its value", hint="withhold it before sealing")
    value, real = (None, repr(claim.value)) if isinstance(claim.value, float) else (claim.value, None)
    confidence = None if claim.confidence == 1.0 else repr(claim.confidence)
    behind = None if withheld is None else CommitmentForm(withheld.digest, withheld.size_bytes)
    return ClaimForm(claim.name, claim.type, value, real, confidence, claim.sensitive, behind)


def _read_claims(run: AuditorForm, phase: Phase, *, evaluated: dict[str, JsonValue]) -> Iterator[Claim]:
    for kind, names in run.claims.items():
        for name in names:
            value = _value_in_context(evaluated.get(flat_name(name)))
            if value is None:
                what = f"the claim `{name}` is said to stand in the context, where it does not"
                raise ShapeError(what, hint="expected its value beside it")
            yield Claim(name, kind, value, phase, run.id)
    for form in run.other_claims:
        where = f"the claim `{form.name}`"
        value = form.value if form.real is None else _read_number(form.real, where)
        confidence = 1.0 if form.confidence is None else _read_number(form.confidence, where)
        yield Claim(form.name, form.type, value, phase, run.id, confidence=confidence, sensitive=form.sensitive)


def _read_number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as exc:
        raise ShapeError(f"{where} has `{text}` where a number belongs", hint="expected a decimal") from exc


def _read_effect(word: str) -> Effect:
    if word not in _EFFECTS:
        raise ShapeError(f"`{word}` is no decision", hint=f"expected one of {', '.join(_EFFECTS)}")
    return _EFFECTS[word]
