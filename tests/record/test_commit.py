"""Texts stay out of records, can be shown later, and can be forgotten."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from msgspec.structs import replace
from tests.record.logs import passport_of, phase_of, signer

from demur.errors import UsageError
from demur.model.claim import Claim, ClaimType, Phase
from demur.model.passport import Passport, PhaseRecord
from demur.record.commit import Disclosure, canonical, commit, full_context, meets, withhold
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
