"""Texts stay out of records, can be shown later, and can be forgotten; the canonical form of records is RFC 8785."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.record.logs import passport_of, phase_of, signer

from demur.errors import JsonError, ShapeError, UsageError
from demur.model.claim import Claim, ClaimType, Phase
from demur.model.passport import Passport, PhaseRecord
from demur.record.commit import (
    Disclosure,
    canonical,
    commit,
    full_context,
    is_canonical,
    meets,
    read_exact,
    read_object,
    withhold,
)
from demur.record.seal import open_sealed, seal

SALTS = [bytes([n]) * 16 for n in range(9)]
QUOTED = "my name is Ada"


def secretive() -> PhaseRecord:
    """A phase whose auditor quotes the user, once in the context and twice not."""
    claims = (
        Claim("pii.quote", ClaimType.CATEGORY, QUOTED, Phase.REQUEST, "safety-checker", sensitive=True),
        Claim("aside", ClaimType.CATEGORY, QUOTED + "!", Phase.REQUEST, "safety-checker", sensitive=True),
        Claim("closeness", ClaimType.SCORE_NORMALIZED, 0.25, Phase.REQUEST, "safety-checker", sensitive=True),
    )
    context = json.loads(phase_of().context)
    context["claims"]["pii_quote"] = QUOTED
    return replace(phase_of(), claims=(*phase_of().claims, *claims), context=canonical(context).decode())


def test_a_commitment_is_a_salted_digest() -> None:
    """The digest is sha256(salt ‖ text), the size that of the text; only that text meets it."""
    commitment, kept = commit(b"text", SALTS[1])
    assert commitment.digest == sha256(SALTS[1] + b"text").hexdigest()
    assert (commitment.size_bytes, kept) == (4, Disclosure(commitment.digest, SALTS[1], b"text"))
    assert meets(kept, commitment)
    assert not meets(replace(kept, text=b"tex7"), commitment)
    assert not meets(Disclosure(kept.digest, SALTS[1][:15], SALTS[1][15:] + b"text"), commitment)


def test_a_salt_has_sixteen_bytes() -> None:
    """A short salt could be guessed, so it is refused."""
    with pytest.raises(UsageError, match="a salt of 8 bytes"):
        commit(b"text", bytes(8))


def test_sensitive_claims_leave_no_text() -> None:
    """Withheld, a phase holds no trace of the user's words and still opens as it was sealed."""
    phase, kept = withhold(secretive(), iter(SALTS))
    passport = replace(passport_of(), phases=(phase,))
    sealed = open_sealed(seal(passport, signer()))
    assert b"Ada" not in sealed.payload
    assert sealed.entry == passport
    assert [item.claim for item in phase.withheld] == ["pii.quote", "aside", "closeness"]
    assert [item.text for item in kept] == [b'"my name is Ada"', b'"my name is Ada!"', b'"0.25"']


def test_what_was_evaluated_can_be_had_again() -> None:
    """With the disclosures the context is the one that was evaluated; without, or with false ones, it is not had."""
    phase, kept = withhold(secretive(), iter(SALTS))
    by_digest = {item.digest: item for item in kept}
    assert full_context(phase, by_digest.get) == secretive().context
    assert full_context(phase, None) is None
    forged = {d: replace(item, text=b'"x"') for d, item in by_digest.items()}
    assert full_context(phase, forged.get) is None
    assert full_context(phase_of(), None) == phase_of().context


def test_claims_that_share_a_name_stay_apart() -> None:
    """Two auditors quoting under one name, or under names that contexts spell alike, are each committed to."""
    runs = tuple(replace(phase_of().auditors[0], auditor=name) for name in "ab")
    spellings = (("pii.quote", "a"), ("pii_quote", "b"), ("pii.quote", "b"))
    claims = tuple(Claim(n, ClaimType.CATEGORY, QUOTED, Phase.REQUEST, a, sensitive=True) for n, a in spellings)
    context = canonical({"claims": {"pii_quote": QUOTED}}).decode()
    phase, kept = withhold(replace(phase_of(), claims=claims, auditors=runs, context=context), iter(SALTS))
    entry = open_sealed(seal(replace(passport_of(), phases=(phase,)), signer())).entry
    assert isinstance(entry, Passport)
    assert entry.phases == (phase,)
    assert full_context(entry.phases[0], {item.digest: item for item in kept}.get) == context


def test_a_commitment_without_a_claim_is_refused() -> None:
    """What is withheld belongs to a sensitive claim, else it would be lost."""
    phase, _ = withhold(secretive(), iter(SALTS))
    with pytest.raises(UsageError, match="withheld that no claim has"):
        seal(replace(passport_of(), phases=(replace(phase, claims=phase.claims[:2]),)), signer())


@pytest.mark.parametrize("value", [QUOTED, ("no", QUOTED)])
def test_a_sensitive_value_elsewhere_is_refused(value: str | tuple[str, ...]) -> None:
    """A text that stands in the context outside its claim is not let through, whole or as a part of another."""
    claim = Claim("quote", ClaimType.CATEGORY, value, Phase.REQUEST, "safety-checker", sensitive=True)
    for context in ({"context": {"quote": QUOTED}}, {"labels": [f"said: {QUOTED}."]}):
        phase = replace(phase_of(), claims=(claim,), context=canonical(context).decode())
        with pytest.raises(UsageError, match="stands elsewhere"):
            withhold(phase, iter(SALTS))


def test_nothing_sensitive_nothing_done() -> None:
    """A phase without sensitive claims is left as it is, and draws no salt."""
    assert withhold(phase_of(), iter(())) == (phase_of(), ())


def test_a_sensitive_value_is_never_sealed() -> None:
    """Forgetting to withhold is an error, not a leak."""
    with pytest.raises(UsageError, match=r"`pii\.quote` still has its value"):
        seal(replace(passport_of(), phases=(secretive(),)), signer())


EXACT = st.integers(-(2**53) + 1, 2**53 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | EXACT | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
def test_the_bytes_are_those_of_the_rfc(value: object) -> None:
    """Any value without fractions is written as the reference library writes it, and known again."""
    data = canonical(value)
    assert data == rfc8785.dumps(value)  # type: ignore[arg-type]  # plain values by construction
    assert canonical(read_exact(json.dumps({"a": value}))) == b'{"a":' + data + b"}"
    assert is_canonical(data)


def test_keys_are_ordered_by_utf16() -> None:
    """A key beyond the basic plane comes before one at its end, as the RFC has it and code points do not."""
    keys: dict[str, Any] = {
        "\ufb33": 1,
        "\U0001f600": 2,
        "a": {"\uffff": 1, "\U00010000": [{"\ufb33": 1, "\U0001f600": 2}]},
    }
    assert canonical(keys) == rfc8785.dumps(keys)
    assert canonical(keys).decode().index("\U0001f600") < canonical(keys).decode().rindex("\ufb33")


@pytest.mark.parametrize("text", ['{"a": 1}', '{"b":1,"a":1}', '{"a":1,"a":1}', '"\\u0041"', "[1.5]", "{", "\ud800"])
def test_other_spellings_are_known(text: str) -> None:
    """White space, order, repetition, needless escapes, fractions and what is no JSON are not canonical."""
    assert not is_canonical(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "a fraction, ") for text in ('{"a":0.5}', '{"a":[1e3]}', '{"a":{"b":-0.0}}')),
        (f'{{"a":{2**53}}}', "beyond 2\\^53 - 1"),
        (f'{{"a":[{{"b":{-(2**53)}}}]}}', "beyond 2\\^53 - 1"),
        (f'{{"a":[{2**80}]}}', "beyond 2\\^53 - 1"),
        (f'{{"a":[[[[[[{{"b":{2**53}}}]]]]]]}}', "beyond 2\\^53 - 1"),
    ],
)
def test_numbers_that_others_would_round_are_refused(text: str, why: str) -> None:
    """Neither a float nor an integer beyond 2^53 - 1 ever reaches a record."""
    with pytest.raises(ShapeError, match=why):
        read_exact(text)


@pytest.mark.parametrize("depth", range(8))
@pytest.mark.parametrize("most", [2**53 - 1, 1 - 2**53])
def test_exact_integers_are_read_at_any_depth(depth: int, most: int) -> None:
    """However deep it stands, the largest exact integer is read as it is, and digits in a text are no integer."""
    value: Any = {"a": most, "b": str(2**80)}
    for _ in range(depth):
        value = {"in": [value]}
    assert read_exact(json.dumps(value)) == value


def test_what_cannot_be_written() -> None:
    """A lone surrogate is no text, broken JSON no value, a list no object."""
    with pytest.raises(ShapeError, match="cannot be written"):
        canonical({"a": "\ud800"})
    with pytest.raises(JsonError, match="not JSON"):
        read_exact("{")
    with pytest.raises(ShapeError, match="not an object"):
        read_object("[]")
