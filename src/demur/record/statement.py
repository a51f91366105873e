"""How is an entry of the log written, and read back? As an in-toto Statement v1 in canonical form.

Laws: what is read equals what was written; a sensitive claim that still has its value is refused, so that no text slips in;
what is read must be in canonical form, so a record has one spelling.
"""

from __future__ import annotations

from hashlib import sha256
from typing import assert_never

import msgspec

from demur.errors import ShapeError, UsageError
from demur.model.passport import Commitment, Erasure, KeyRotation, LogEntry, Passport, Restart
from demur.record.canonical import canonical, is_canonical
from demur.record.keylist import key_form, public_key_of
from demur.record.keys import moment
from demur.record.phases import gap_form, phase_form, read_gap, read_phase
from demur.record.predicate import (
    STATEMENT_TYPE,
    ErasureForm,
    PassportForm,
    RestartForm,
    RotationForm,
    StatementForm,
    SubjectForm,
)

__all__ = ["read_statement", "write_statement"]

_SALTED = "saltedSha256"
"""The digest of a salted text: not in-toto's `sha256`, which is that of the text itself."""
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


def write_statement(entry: LogEntry) -> bytes:
    """Return the canonical bytes of an entry's statement."""
    moment(entry.at)
    form = _predicate(entry)
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
    entry = _entry_of_form(predicate, form.subject)
    moment(entry.at)
    if _subjects(entry) != form.subject:
        raise ShapeError(
            "the statement's subjects are not those of its predicate", hint="expected the texts that were committed to"
        )
    return entry


def _predicate(entry: LogEntry) -> _Predicate:
    match entry:
        case Passport():
            return _passport_form(entry)
        case KeyRotation(new=new):
            return RotationForm(entry.at, entry.signing, key_form(new))
        case Erasure():
            return ErasureForm(entry.at, entry.signing, entry.digests, entry.reason)
        case Restart():
            fields = (entry.size, entry.root, entry.config_digest, entry.policy_digest, entry.clean)
            return RestartForm(entry.at, entry.signing, *fields)
        case _:
            assert_never(entry)


def _subjects(entry: LogEntry) -> tuple[SubjectForm, ...]:
    match entry:
        case Passport():
            return _texts(entry)
        case KeyRotation(new=new):
            return (_plain_subject("key", _digest(new.ed25519)),)
        case Erasure(digests=digests):
            if not digests:
                raise UsageError("an erasure of nothing", hint="name the commitments that were erased")
            return tuple(SubjectForm("text", {_SALTED: digest}) for digest in digests)
        case Restart(root=root):
            return (_plain_subject("log", root),)
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
        gaps=tuple(gap_form(gap) for gap in passport.gaps),
        phases=tuple(phase_form(phase, passport.session, model=passport.model_asked) for phase in passport.phases),
    )


def _texts(passport: Passport) -> tuple[SubjectForm, ...]:
    """Return the committed texts as subjects; in-toto wants at least one, so else the session's name."""
    texts = (("request", passport.request), ("response", passport.response))
    found = tuple(SubjectForm(name, {_SALTED: c.digest}, {_SIZE: c.size_bytes}) for name, c in texts if c is not None)
    return found or (_plain_subject("session", sha256(passport.session.encode()).hexdigest()),)


def _plain_subject(name: str, digest: str) -> SubjectForm:
    return SubjectForm(name, {_PLAIN: digest})


def _digest(raw_hex: str) -> str:
    try:
        return sha256(bytes.fromhex(raw_hex)).hexdigest()
    except ValueError as exc:
        raise ShapeError(f"the key `{raw_hex}` is not in hex", hint="give its 32 bytes in hex") from exc


def _entry_of_form(form: _Predicate, subjects: tuple[SubjectForm, ...]) -> LogEntry:
    match form:
        case PassportForm():
            return _passport(form, {subject.name: subject for subject in subjects})
        case RotationForm(new=new):
            return KeyRotation(form.at, public_key_of(new), signing=form.signing)
        case ErasureForm():
            return Erasure(form.at, form.digests, form.reason, signing=form.signing)
        case RestartForm():
            fields = (form.size, form.root, form.config_digest, form.policy_digest)
            return Restart(form.at, *fields, clean=form.clean, signing=form.signing)
        case _:
            assert_never(form)


def _passport(form: PassportForm, subjects: dict[str, SubjectForm]) -> Passport:
    return Passport(
        session=form.session,
        seq=form.seq,
        at=form.at,
        model_asked=form.model_asked,
        model_served=form.model_served,
        config_digest=form.config_digest,
        policy_digest=form.policy_digest,
        request=_commitment(subjects.get("request")),
        response=_commitment(subjects.get("response")),
        phases=tuple(read_phase(phase, form.session, model=form.model_asked) for phase in form.phases),
        causes=form.causes,
        finish_reasons=form.finish_reasons,
        upstream_status=form.upstream_status,
        gaps=tuple(read_gap(gap) for gap in form.gaps),
        previous=form.previous,
        signing=form.signing,
        attestation=form.attestation,
    )


def _commitment(subject: SubjectForm | None) -> Commitment | None:
    if subject is None:
        return None
    return Commitment(subject.digest.get(_SALTED, ""), subject.annotations.get(_SIZE, -1))
