"""How can a record speak of a text that it does not hold? By `sha256(salt ‖ text)`, the salt kept elsewhere.

Laws: a salt is 16 bytes, used once; deleting salt and text is erasure, for what is left cannot be guessed at; a sensitive
claim is committed to, in the claim as in the context that was evaluated, before anything is sealed; what is disclosed
counts only if it meets its commitment.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from demur.errors import UsageError
from demur.model.claim import flat_name
from demur.model.passport import Commitment, Withheld
from demur.record.canonical import JsonValue, as_object, canonical, read_exact, read_object, read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.claim import Claim
    from demur.model.passport import PhaseRecord

__all__ = ["Disclose", "Disclosure", "claims_in", "commit", "full_context", "meets", "withhold"]

SALT_BYTES = 16
_MARK = "withheld"
_TELLING_BYTES = 8
"""A text at least so long does not stand elsewhere by chance."""


class Disclosure(msgspec.Struct, frozen=True, gc=False):
    """What a commitment was made of: to be kept apart from the log, and deleted on request."""

    digest: str
    salt: bytes
    text: bytes


Disclose = Callable[[str], Disclosure | None]
"""Gives what is behind a commitment's digest, or None where it is not to be had (any more)."""


def commit(text: bytes, salt: bytes) -> tuple[Commitment, Disclosure]:
    """Return what goes on record in place of a text, and what has to be kept to show it one day."""
    if len(salt) != SALT_BYTES:
        raise UsageError(f"a salt of {len(salt)} bytes", hint=f"draw {SALT_BYTES} random bytes for each text")
    digest = sha256(salt + text).hexdigest()
    return Commitment(digest, len(text)), Disclosure(digest, salt, text)


def meets(disclosure: Disclosure, commitment: Commitment) -> bool:
    """Whether this is the text that was committed to."""
    same_size = len(disclosure.text) == commitment.size_bytes
    return same_size and sha256(disclosure.salt + disclosure.text).hexdigest() == commitment.digest


def claims_in(context: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the claims of what a gate evaluated, by flat name."""
    return as_object(context.get("claims", {}))


def withhold(phase: PhaseRecord, salts: Iterator[bytes]) -> tuple[PhaseRecord, tuple[Disclosure, ...]]:
    """Return the phase with its sensitive claims committed to, and what has to be kept; one salt is drawn a claim."""
    sensitive = [claim for claim in phase.claims if claim.sensitive and claim.value is not None]
    if not sensitive:
        return phase, ()
    context = read_exact(phase.context)
    stated = claims_in(context)
    withheld, disclosures = list(phase.withheld), []
    for claim in sensitive:
        key = flat_name(claim.name)
        value = canonical(stated[key]) if key in stated else _claim_bytes(claim)
        commitment, disclosure = commit(value, next(salts))
        withheld.append(Withheld(claim.name, commitment))
        disclosures.append(disclosure)
        if key in stated:
            stated[key] = {_MARK: commitment.digest}
    claims = tuple(replace(claim, value=None) if claim.sensitive else claim for claim in phase.claims)
    text = canonical(context)
    if any(_stands_in(text, claim) for claim in sensitive):
        raise UsageError("a sensitive value stands elsewhere in the context", hint="keep the user's text out of it")
    return replace(phase, claims=claims, context=text.decode(), withheld=tuple(withheld)), tuple(disclosures)


def full_context(phase: PhaseRecord, disclose: Disclose | None) -> str | None:
    """Return the context as it was evaluated; None where a withheld value is not disclosed or is not the one."""
    if not phase.withheld:
        return phase.context
    context = read_object(phase.context)
    stated = claims_in(context)
    behind = {item.commitment.digest: item.commitment for item in phase.withheld}
    for key, value in stated.items():
        found: JsonValue = value
        # Two claims can share a key: what is behind the second commitment is then the mark of the first.
        while (commitment := behind.get(_mark_of(found))) is not None:
            disclosed = disclose(commitment.digest) if disclose else None
            if disclosed is None or not meets(disclosed, commitment):
                return None
            found = read_plain(disclosed.text)
        stated[key] = found
    return canonical(context).decode()


def _stands_in(context: bytes, claim: Claim) -> bool:
    texts = claim.value if isinstance(claim.value, tuple) else (claim.value,)
    inner = (canonical(text)[1:-1] for text in texts if isinstance(text, str))
    return any(len(text) >= _TELLING_BYTES and text in context for text in inner)


def _mark_of(value: JsonValue) -> str:
    digest = value.get(_MARK) if isinstance(value, dict) else None
    return digest if isinstance(digest, str) else ""


def _claim_bytes(claim: Claim) -> bytes:
    return canonical(repr(claim.value) if isinstance(claim.value, float) else claim.value)
