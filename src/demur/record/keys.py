"""Who may sign, from when to when? Keys as values; where they are kept is none of this file's business.

Laws: a key's id is the beginning of the SHA-256 of its 32 bytes, so it cannot be chosen; a key outside its window by more than
clocks may differ, or retired by a rotation, signs nothing that counts; a rotation counts only where the key it retires has signed it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from demur.errors import ShapeError
from demur.model.passport import FaultKind, PublicKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = [
    "CLOCK_SLACK_S",
    "Ed25519Signer",
    "KeyRing",
    "Signer",
    "holds",
    "key_id_of",
    "loaded_key",
    "moment",
    "public_key",
]

_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")
_KEY_BYTES = 32
_ID_CHARS = 32
CLOCK_SLACK_S = 5.0
"""How far clocks may differ, unless a reader says otherwise."""


class Signer(Protocol):
    """Signs bytes with Ed25519 and says with which key."""

    @property
    def public(self) -> PublicKey:
        """The key to check with."""

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature."""


class Ed25519Signer:
    """A signer over a private key in memory."""

    def __init__(
        self, private: Ed25519PrivateKey, *, not_before: str | None = None, not_after: str | None = None
    ) -> None:
        self._private = private
        raw = private.public_key().public_bytes_raw()
        self.public = public_key(raw, not_before=not_before, not_after=not_after)

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature."""
        return self._private.sign(data)


def key_id_of(raw: bytes) -> str:
    """Return the id of a key from its 32 bytes."""
    return sha256(raw).hexdigest()[:_ID_CHARS]


def public_key(raw: bytes, *, not_before: str | None = None, not_after: str | None = None) -> PublicKey:
    """Return the key under its id."""
    return PublicKey(key_id_of(raw), raw.hex(), not_before, not_after)


def moment(at: str) -> datetime:
    """Return the time that an RFC 3339 text in UTC means."""
    hint = "expected RFC 3339 in UTC, as 2026-01-31T12:00:00Z"
    if not _RFC3339.fullmatch(at):
        raise ShapeError(f"`{at}` is no time in UTC", hint=hint)
    try:
        return datetime.fromisoformat(at)
    except ValueError as exc:
        raise ShapeError(f"`{at}` is no time", hint=hint) from exc


def loaded_key(key: PublicKey) -> Ed25519PublicKey:
    """Return the key ready for use; refuse one whose id is not its own."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = bytes.fromhex(key.ed25519)
    except ValueError as exc:
        raise ShapeError(f"the key `{key.key_id}` is not in hex", hint="give its 32 bytes in hex") from exc
    if len(raw) != _KEY_BYTES or key_id_of(raw) != key.key_id:
        raise ShapeError(f"the key `{key.key_id}` does not bear its own id", hint="take the list from its owner again")
    return Ed25519PublicKey.from_public_bytes(raw)


def holds(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """Whether the signature over the data is this key's."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Held:
    key: PublicKey
    loaded: Ed25519PublicKey
    start: datetime | None
    end: datetime | None
    retired: bool = False


class KeyRing:
    """The keys that a reader of a log trusts so far; a rotation on record adds one and retires another."""

    def __init__(self, keys: Iterable[PublicKey], *, slack_s: float = CLOCK_SLACK_S) -> None:
        self._held: dict[str, _Held] = {}
        self._slack = timedelta(seconds=slack_s)
        for key in keys:
            self.add(key)

    @property
    def current(self) -> tuple[PublicKey, ...]:
        """The keys that are not retired."""
        return tuple(held.key for held in self._held.values() if not held.retired)

    @property
    def known(self) -> tuple[PublicKey, ...]:
        """Every key, retired ones included."""
        return tuple(held.key for held in self._held.values())

    def add(self, key: PublicKey) -> None:
        """Trust a key; one that is known stays as it is, so a retired key does not come back."""
        if key.key_id not in self._held:
            start, end = (moment(at) if at else None for at in (key.not_before, key.not_after))
            self._held[key.key_id] = _Held(key, loaded_key(key), start, end)

    def rotate(self, old_id: str, new: PublicKey) -> None:
        """Retire the key that signed a rotation and trust the one it names."""
        self.add(new)
        self._held[old_id] = replace(self._held[old_id], retired=True)

    def refusal(self, key_id: str, *, signature: bytes, data: bytes, at: str) -> FaultKind | None:
        """Return why a signature made at this time does not count; None where it does."""
        held = self._held.get(key_id)
        if held is None:
            return FaultKind.UNKNOWN_KEY
        if not holds(held.loaded, signature, data):
            return FaultKind.BAD_SIGNATURE
        time = moment(at)
        # As differences, since the earliest time there is cannot be moved back. A clock that is set right after the key was made
        # would otherwise spoil the log for good.
        early = held.start is not None and held.start - time > self._slack
        outside = early or (held.end is not None and time - held.end > self._slack)
        return FaultKind.KEY_NOT_VALID if outside or held.retired else None
