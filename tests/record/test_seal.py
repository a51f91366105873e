"""A seal holds what was sealed, shows any change, and is DSSE for everybody else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]  # exported, but not in its `__all__`
from tests.record.logs import passport_of, phase_of, signer

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
)
from demur.model.exchange import Channel
from demur.model.passport import (
    Coverage,
    DeclineCause,
    Erasure,
    FaultKind,
    KeyRotation,
    LogEntry,
    Passport,
    PhaseRecord,
    Restart,
    SigningMode,
    StreamMode,
)
from demur.record.commit import canonical
from demur.record.keys import KeyRing
from demur.record.seal import PAYLOAD_TYPE, open_sealed, pre_authentication, seal, seal_fault
from demur.record.statement import read_statement, write_statement

AT = "2026-01-01T00:00:00Z"
ENTRIES = [
    passport_of(),
    structs.replace(passport_of(), request=None, response=None, model_served=None, phases=()),
    KeyRotation(AT, signer(2).public),
    Erasure(AT, ("a" * 64, "b" * 64), "asked for by the user"),
    Restart(AT, 3, "e" * 64, "c" * 64, "d" * 64, clean=False),
]


def full_passport() -> Passport:
    """A passport that uses every field."""
    claims = (
        Claim("seen", ClaimType.BOOLEAN, True, Phase.RESPONSE, "a"),  # noqa: FBT003 — a claim's value
        Claim("kinds", ClaimType.CATEGORY_LIST, ("x", "y"), Phase.RESPONSE, "a"),
        Claim("toxic_content", ClaimType.SCORE_NORMALIZED, 0.45, Phase.RESPONSE, "a"),
        Claim("not.evaluated", ClaimType.SCORE_PERCENTAGE, 12.5, Phase.RESPONSE, "a"),
        Claim("one", ClaimType.SCORE_BINARY, 1, Phase.RESPONSE, "a"),
        Claim("doubtful", ClaimType.CATEGORY, "é", Phase.RESPONSE, "a", confidence=0.5),
        Claim("nothing", ClaimType.CONFORMITY, None, Phase.RESPONSE, "a"),
    )
    decimal = {"__extn": {"fn": "decimal", "arg": "0.4500"}}
    stated = {"toxic_content": decimal, "seen": True, "kinds": ["x", "y"], "one": True, "doubtful": "é"}
    context = {"claims": stated, "labels": ["eu"], "errors": {"nothing": "why"}, "resource": "other"}
    phase = PhaseRecord(
        phase=Phase.RESPONSE,
        claims=claims,
        decision=Decision(Effect.REDACT, (FiredRule("r", Effect.REDACT, "because"),), ("one error",)),
        auditors=(AuditorRun("a", "1", AuditorStatus.OK, 5), AuditorRun("b", "2", AuditorStatus.TIMEOUT, 9, "open")),
        context=canonical(context).decode(),
        coverage=Coverage(StreamMode.WINDOWED, 10, 20, (Channel.TEXT, Channel.REFUSAL)),
    )
    return structs.replace(
        passport_of(),
        phases=(phase_of(), phase),
        causes=(DeclineCause.GATEWAY_BLOCK, DeclineCause.PROVIDER_FILTER),
        finish_reasons=("content_filter", "STOP "),
        gaps=(EnforcementGap(Phase.RESPONSE, "failed_open", "b"),),
        previous="f" * 64,
        attestation="quote",
    )


@pytest.mark.parametrize("entry", [*ENTRIES, full_passport()], ids=lambda entry: type(entry).__name__)
def test_what_is_opened_is_what_was_sealed(entry: LogEntry) -> None:
    """Every kind of entry comes back equal, and its seal counts for who trusts the key."""
    sealed = open_sealed(seal(entry, signer()))
    assert sealed.entry == entry
    assert seal_fault(sealed, KeyRing([signer().public])) is None


@pytest.mark.parametrize("cause", DeclineCause)
def test_causes_stay_apart(cause: DeclineCause) -> None:
    """Each cause is on record under its own word, the upstream's status and word beside it."""
    entry = structs.replace(passport_of(), causes=(cause,), upstream_status=400, finish_reasons=("SAFETY",))
    predicate = json.loads(write_statement(entry))["predicate"]
    assert (predicate["causes"], predicate["upstream_status"]) == ([cause.value], 400)
    assert predicate["finish_reasons"] == ["SAFETY"]


def test_the_same_passport_gives_the_same_bytes() -> None:
    """Nothing in a seal depends on when or where it is made."""
    assert seal(full_passport(), signer()) == seal(full_passport(), signer())


@given(st.data())
def test_any_changed_byte_shows(data: st.DataObject) -> None:
    """Whichever byte of an envelope is changed, it no longer opens or its signature no longer counts."""
    envelope = bytearray(seal(passport_of(), signer()))
    place = data.draw(st.integers(0, len(envelope) - 1))
    envelope[place] ^= data.draw(st.integers(1, 255))
    try:
        sealed = open_sealed(bytes(envelope))
    except ShapeError:
        return
    assert seal_fault(sealed, KeyRing([signer().public])) is not None


def test_unsigned_is_stamped() -> None:
    """Without a signer the record itself says so, whatever the passport said, and its seal never counts."""
    sealed = open_sealed(seal(passport_of(), None))
    assert sealed.entry.signing is SigningMode.NONE
    assert b'"signing":"none"' in sealed.payload
    assert seal_fault(sealed, KeyRing([signer().public])) is FaultKind.UNSIGNED


def test_a_stripped_signature_shows() -> None:
    """A record that says it is signed and is not, or the other way round, does not open."""
    signed, unsigned = (json.loads(seal(passport_of(), key)) for key in (signer(), None))
    for form in (signed | {"signatures": []}, unsigned | {"signatures": signed["signatures"]}):
        with pytest.raises(ShapeError, match="not what the record says"):
            open_sealed(canonical(form))


def test_others_can_verify_our_envelopes() -> None:
    """An independent DSSE implementation accepts our signature, and we sign what it signs."""
    private = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
    ours = seal(passport_of(), signer())
    key = SSlibKey.from_crypto(private.public_key(), keyid=signer().public.key_id)
    envelope = Envelope.from_dict(json.loads(ours))
    assert set(envelope.verify([key], threshold=1)) == {key.keyid}
    assert pre_authentication(envelope.payload) == envelope.pae()
    theirs = Envelope(envelope.payload, PAYLOAD_TYPE, {})
    theirs.sign(CryptoSigner(private, key))
    assert canonical(theirs.to_dict()) == ours


def test_the_statement_is_in_toto() -> None:
    """The payload is a Statement v1 whose subjects are the committed texts."""
    form = json.loads(write_statement(passport_of()))
    assert form["_type"] == "https://in-toto.io/Statement/v1"
    assert form["predicateType"] == "urn:demur:passport:v1"
    assert [(s["name"], s["digest"]["saltedSha256"][0]) for s in form["subject"]] == [
        ("request", "a"),
        ("response", "b"),
    ]
    assert form["predicate"]["attestation"] is None


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"Statement/v1", b"Statement/v2", "a statement of type"),
        (b"passport:v1", b"passport:v2", "a statement of type"),
        (b'"seq":0', b'"seq": 0', "not in canonical form"),
        (b'"seq":0', b'"seq":0,"seq2":0', "no statement of ours"),
        (b'"decision":"allow"', b'"decision":"maybe"', "`maybe` is no decision"),
        (b'"name":"request"}', b'"name":"requesz"}', "subjects are not those"),
        (b'"arg":"0.4500"', b'"arg":"O.4500"', "where a number belongs"),
        (b"00:00:00Z", b"00:00:00+01:00", "no time in UTC"),
        (b"2026-01-01T", b"2026-13-01T", "is no time"),
        (b'"context":{"claims":{"toxic', b'"context":{"claims":[],"d":{"toxic', "not an object of objects"),
    ],
)
def test_what_is_no_statement(old: bytes, new: bytes, why: str) -> None:
    """A statement that departs from the form is refused with the reason."""
    payload = write_statement(passport_of())
    assert old in payload
    with pytest.raises(ShapeError, match=why):
        read_statement(payload.replace(old, new, 1))


@pytest.mark.parametrize("number", ["real", "confidence"])
def test_a_number_that_is_none(number: str) -> None:
    """A claim whose number cannot be read is refused."""
    claim = Claim("apart", ClaimType.SCORE_NORMALIZED, 0.5, Phase.REQUEST, "safety-checker", confidence=0.5)
    payload = write_statement(structs.replace(passport_of(), phases=(structs.replace(phase_of(), claims=(claim,)),)))
    with pytest.raises(ShapeError, match="where a number belongs"):
        read_statement(payload.replace(f'"{number}":"0.5"'.encode(), f'"{number}":"o.5"'.encode()))


@pytest.mark.parametrize(
    ("envelope", "why"),
    [(b"", "no envelope"), (b"\xff", "no envelope"), (b'{"payload":"","payloadType":"x","signatures":[]}', "type `x`")],
)
def test_what_is_no_envelope(envelope: bytes, why: str) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ShapeError, match=why):
        open_sealed(envelope)


@pytest.mark.parametrize(
    "context", ["{}", '{"principal":"s"}', '{"labels":["a"],"errors":{"b":"c"}}', '{"other":null}']
)
def test_any_context_comes_back(context: str) -> None:
    """Whatever the shape of a context, with or without what the passport says too, it is read as it was evaluated."""
    entry = structs.replace(passport_of(), phases=(structs.replace(phase_of(), context=context),))
    assert open_sealed(seal(entry, signer())).entry == structs.replace(
        entry, phases=(structs.replace(entry.phases[0], context=canonical(json.loads(context)).decode()),)
    )


def test_a_context_says_nothing_twice() -> None:
    """Session, phase and model stand once, in the passport, where the context agrees with it."""
    phase = json.loads(write_statement(passport_of()))["predicate"]["phases"][0]
    assert phase["context"].keys() == {"claims"}
    renamed = json.loads(write_statement(structs.replace(passport_of(), session="t")))
    assert renamed["predicate"]["phases"][0]["context"]["principal"] == "s"
    with pytest.raises(ShapeError, match="is null"):
        seal(structs.replace(passport_of(), phases=(structs.replace(phase_of(), context='{"labels":null}'),)), signer())


def test_what_is_not_sealed() -> None:
    """A claim of nobody, a time of nowhere, an erasure of nothing and a key that is none are refused."""
    stray = structs.replace(phase_of(), auditors=())
    with pytest.raises(UsageError, match="of no auditor"):
        seal(structs.replace(passport_of(), phases=(stray,)), signer())
    with pytest.raises(ShapeError, match="no time in UTC"):
        seal(structs.replace(passport_of(), at="2026-01-01T00:00:00"), signer())
    with pytest.raises(UsageError, match="an erasure of nothing"):
        seal(Erasure(AT, (), "why"), signer())
    with pytest.raises(ShapeError, match="not in hex"):
        seal(KeyRotation(AT, replace(signer().public, ed25519="zz")), signer())


def test_a_passport_at_its_place_is_the_same_otherwise() -> None:
    """Placing changes number, time, link and stamp, and nothing else of any field."""
    placed = full_passport().placed(8, AT, previous="9" * 64, signing=SigningMode.NONE)
    assert placed == structs.replace(full_passport(), seq=8, at=AT, previous="9" * 64, signing=SigningMode.NONE)


@pytest.mark.parametrize(
    ("value", "told", "apart"),
    [
        (True, True, False),
        (1, True, True),
        (True, 1, True),
        (1, 1, False),
        ("x", "x", False),
        ("x", ["x"], True),
        (("x",), ["x"], False),
        ((), [], False),
        (("x",), ["x", 1], True),
        (0.5, {"__extn": {"fn": "decimal", "arg": "0.50"}}, False),
        (0.5, {"__extn": {"fn": "decimal", "arg": "0.51"}}, True),
        (0.5, {"__extn": {"fn": "ip", "arg": "0.5"}}, True),
        (0.5, {"__extn": "0.5"}, True),
        (0.5, {"arg": "0.5"}, True),
        ("0.5", {"__extn": {"fn": "decimal", "arg": "0.5"}}, True),
        (1, {"__extn": {"fn": "decimal", "arg": "1.0"}}, True),
        (None, None, True),
        ("x", None, True),
    ],
)
def test_a_claim_stands_apart_unless_the_context_tells_it(value: ClaimValue, told: object, *, apart: bool) -> None:
    """Only a value of the same type, and the same, is left to the context; either way the claim comes back as it was."""
    claim = Claim("a.b", ClaimType.CATEGORY, value, Phase.REQUEST, "safety-checker")
    phase = structs.replace(phase_of(), claims=(claim,), context=json.dumps({"claims": {"a_b": told}}))
    payload = write_statement(structs.replace(passport_of(), phases=(phase,)))
    (auditor,) = json.loads(payload)["predicate"]["phases"][0]["auditors"]
    assert ("other_claims" in auditor, "claims" in auditor) == (apart, not apart)
    entry = read_statement(payload)
    assert isinstance(entry, Passport)
    (back,) = entry.phases[0].claims
    assert (back, type(back.value)) == (claim, type(value))
