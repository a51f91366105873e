"""Commitments: an entry holds `sha256(salt ‖ text)` in place of a text, and the salt is kept apart from the log.

Deleting salt and text erases the text: the digest that is left cannot be guessed at. A sensitive claim is withheld both from the
claim and from the evaluated context before anything is sealed.

Canonical JSON (RFC 8785), so that anyone can make the signed bytes of a value again.

Records hold no fractions (scores are decimal strings) and no integers beyond ±(2^53 - 1).
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec.structs import replace

from demur.errors import JsonError, ShapeError, UsageError
from demur.model.claim import flat_name
from demur.model.passport import Commitment, Withheld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.passport import PhaseRecord

__all__ = [
    "Disclose",
    "Disclosure",
    "JsonValue",
    "as_object",
    "canonical",
    "claims_in",
    "commit",
    "full_context",
    "is_canonical",
    "meets",
    "read_exact",
    "read_object",
    "read_plain",
    "withhold",
]

JsonValue = None | bool | int | str | list["JsonValue"] | dict[str, "JsonValue"]

# Beyond this, readers that hold numbers as IEEE 754 doubles (RFC 8785 assumes them) would see another integer.
_MAX_EXACT = 2**53 - 1
_MAX_DEPTH = 4
"""How deeply the quick reader takes objects and lists: a context of ours is no deeper."""


class _FractionError(Exception):
    """A number with a fraction or an exponent."""


def _raise_on_fraction(literal: str) -> float:
    # Not a ValueError: the decoder would wrap it, and the literal would be lost.
    raise _FractionError(literal)


# The decoder itself rejects fractions and inexact integers, several times faster than a walk through the decoded value.
_SCALAR: Any = None | bool | Annotated[int, msgspec.Meta(ge=-_MAX_EXACT, le=_MAX_EXACT)] | str
_NESTED: Any = _SCALAR
for _ in range(_MAX_DEPTH - 1):
    _NESTED = _SCALAR | list[_NESTED] | dict[str, _NESTED]

_READER = msgspec.json.Decoder(float_hook=_raise_on_fraction)
_EXACT: msgspec.json.Decoder[dict[str, JsonValue]] = msgspec.json.Decoder(dict[str, _NESTED])
_SORTED = msgspec.json.Encoder(order="sorted")
_AS_GIVEN = msgspec.json.Encoder()


def canonical(value: object) -> bytes:
    """Return the canonical bytes of plain values or msgspec Structs of them; they must hold no fractions."""
    try:
        data = _SORTED.encode(value)
    except (TypeError, UnicodeEncodeError, msgspec.MsgspecError) as exc:
        raise ShapeError(f"cannot be written as JSON ({exc})", hint="expected JSON values in UTF-8") from exc
    # The encoder sorts by code point, RFC 8785 (section 3.2.3) by UTF-16 unit: the orders differ only beyond ASCII.
    return data if data.isascii() else _AS_GIVEN.encode(_in_utf16_order(_READER.decode(data)))


def read_exact(text: str | bytes) -> dict[str, JsonValue]:
    """Return the JSON object; raise on what the canonical form cannot hold."""
    try:
        return _EXACT.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # Nested deeper than usual, or wrong: saying what is wrong takes a walk through the value.
        value = read_object(text)
        _check_exact(value)
        return value


def read_object(text: str | bytes) -> dict[str, JsonValue]:
    """Return the JSON object; raise on any other value and on fractions."""
    return as_object(read_plain(text))


def as_object(value: JsonValue) -> dict[str, JsonValue]:
    """Return the value if it is an object; raise otherwise."""
    if not isinstance(value, dict):
        raise ShapeError("the context is not an object of objects", hint="expected {`claims`: {…}, …}")
    return value


def is_canonical(data: bytes) -> bool:
    """Whether these are the canonical bytes of the JSON value they hold."""
    try:
        return canonical(read_plain(data)) == data
    except (JsonError, ShapeError):
        return False


def read_plain(text: str | bytes) -> JsonValue:
    """Return the JSON value; raise on fractions."""
    try:
        value: JsonValue = _READER.decode(text)
    except _FractionError as exc:
        raise ShapeError(f"a fraction, `{exc}`, in a record", hint="write scores as decimal strings") from exc
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise JsonError(f"not JSON ({str(exc).lower()})") from exc
    return value


def _check_exact(value: JsonValue) -> None:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_exact(item)
    elif isinstance(value, int) and not -_MAX_EXACT <= value <= _MAX_EXACT:
        raise ShapeError(f"the integer `{value}` is beyond 2^53 - 1", hint="write it as a string")


def _in_utf16_order(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be"))
        return {key: _in_utf16_order(item) for key, item in ordered}
    if isinstance(value, list):
        return [_in_utf16_order(item) for item in value]
    return value


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
