"""Commitments: an entry holds `sha256(salt ‖ text)` in place of a text, and the salt is kept apart from the log.

Deleting salt and text erases the text: the digest that is left cannot be guessed at. A sensitive claim is withheld both from the
claim and from the evaluated context before anything is sealed.
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

    from demur.model.passport import PhaseRecord

__all__ = ["Disclose", "Disclosure", "claims_in", "commit", "full_context", "meets", "withhold"]

# 128 bits: enough that a short text (a name, a number) cannot be found by trying all of them with all salts.
SALT_BYTES = 16
_MARK = "withheld"
# A shorter text may well be in the context by chance, as `yes` is.
_MIN_LEAK_BYTES = 8


class Disclosure(msgspec.Struct, frozen=True, gc=False):
    """The salt and text behind a commitment: kept apart from the log, and deleted on request."""

    digest: str
    salt: bytes
    text: bytes


Disclose = Callable[[str], Disclosure | None]
"""Gives what is behind a commitment's digest, or None where it is not available (any more)."""


def commit(text: bytes, salt: bytes) -> tuple[Commitment, Disclosure]:
    """Return what goes on record in place of a text, and what has to be kept in order to disclose it."""
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
    """Return the phase with its sensitive claims committed to, and what has to be kept; each claim takes one salt."""
    sensitive = [claim for claim in phase.claims if claim.sensitive and claim.value is not None]
    if not sensitive:
        return phase, ()
    context = read_exact(phase.context)
    stated = claims_in(context)
    withheld, disclosures = list(phase.withheld), []
    for claim in sensitive:
        key = flat_name(claim.name)
        # What the policy saw is committed to, so that a disclosure can be put back and the decision replayed.
        value = stated[key] if key in stated else repr(claim.value) if isinstance(claim.value, float) else claim.value
        commitment, disclosure = commit(canonical(value), next(salts))
        withheld.append(Withheld(claim.name, commitment))
        disclosures.append(disclosure)
        if key in stated:
            stated[key] = {_MARK: commitment.digest}
    claims = tuple(replace(claim, value=None) if claim.sensitive else claim for claim in phase.claims)
    text = canonical(context)
    for claim in sensitive:
        texts = claim.value if isinstance(claim.value, tuple) else (claim.value,)
        inner = (canonical(each)[1:-1] for each in texts if isinstance(each, str))
        # Another claim, a label or an extra may carry the same text: committing to one copy would not keep it private.
        if any(len(each) >= _MIN_LEAK_BYTES and each in text for each in inner):
            raise UsageError("a sensitive value stands elsewhere in the context", hint="keep the user's text out of it")
    return replace(phase, claims=claims, context=text.decode(), withheld=tuple(withheld)), tuple(disclosures)


def full_context(phase: PhaseRecord, disclose: Disclose | None) -> str | None:
    """Return the context as it was evaluated; None where a withheld value is not disclosed or does not match."""
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


def _mark_of(value: JsonValue) -> str:
    digest = value.get(_MARK) if isinstance(value, dict) else None
    return digest if isinstance(digest, str) else ""
