"""Ed25519 keys: what signs, what a reader trusts, and the JSON list in which a log's owner publishes public keys.

Keys are values here; `store.key_files` keeps them on disk. Only the keys that a reader brings are trusted, and only a rotation
signed by a trusted key adds another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

import msgspec

from demur.errors import EmptyInputError, ShapeError
from demur.model.passport import FaultKind, PublicKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = [
    "CLOCK_SLACK_S",
    "Ed25519Signer",
    "KeyForm",
    "KeyRing",
    "Signer",
    "is_signed_by",
    "key_form",
    "key_id_of",
    "load_key",
    "parse_time",
    "public_key",
    "public_key_of",
    "read_keys",
    "write_keys",
]

# `datetime.fromisoformat` takes more than RFC 3339 in UTC; records have one spelling of a time.
_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")
_KEY_BYTES = 32
_ID_CHARS = 32
CLOCK_SLACK_S = 5.0
"""How far clocks may differ, unless a reader says otherwise."""


class KeyForm(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A public key and its validity window, as JSON."""

    key_id: str
    ed25519: str
    not_before: str | None = None
    not_after: str | None = None


class Signer(Protocol):
    """Signs bytes with Ed25519 and says with which key."""

    @property
    def public(self) -> PublicKey:
        """The key to verify with."""

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
    # Derived from the key itself, so nobody can choose an id that is already taken.
    return sha256(raw).hexdigest()[:_ID_CHARS]


def public_key(raw: bytes, *, not_before: str | None = None, not_after: str | None = None) -> PublicKey:
    """Return the key under its id."""
    return PublicKey(key_id_of(raw), raw.hex(), not_before, not_after)


def parse_time(at: str) -> datetime:
    """Return the time that an RFC 3339 text in UTC means."""
    hint = "expected RFC 3339 in UTC, as 2026-01-31T12:00:00Z"
    if not _RFC3339.fullmatch(at):
        raise ShapeError(f"`{at}` is no time in UTC", hint=hint)
    try:
        return datetime.fromisoformat(at)
    except ValueError as exc:
        raise ShapeError(f"`{at}` is no time", hint=hint) from exc


def load_key(key: PublicKey) -> Ed25519PublicKey:
    """Return the key ready for use; raise where its id is not derived from its bytes."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = bytes.fromhex(key.ed25519)
    except ValueError as exc:
        raise ShapeError(f"the key `{key.key_id}` is not in hex", hint="give its 32 bytes in hex") from exc
    if len(raw) != _KEY_BYTES or key_id_of(raw) != key.key_id:
        raise ShapeError(f"the key `{key.key_id}` does not bear its own id", hint="take the list from its owner again")
    return Ed25519PublicKey.from_public_bytes(raw)


def is_signed_by(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """Whether the signature over the data is this key's."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _TrustedKey:
    key: PublicKey
    loaded: Ed25519PublicKey
    start: datetime | None
    end: datetime | None
    retired: bool = False


class KeyRing:
    """The keys that a reader of a log trusts so far; a rotation on record adds one and retires another."""

    def __init__(self, keys: Iterable[PublicKey], *, slack_s: float = CLOCK_SLACK_S) -> None:
        self._keys: dict[str, _TrustedKey] = {}
        self._slack = timedelta(seconds=slack_s)
        for key in keys:
            self.add(key)

    @property
    def current(self) -> tuple[PublicKey, ...]:
        """The keys that are not retired."""
        return tuple(trusted.key for trusted in self._keys.values() if not trusted.retired)

    @property
    def known(self) -> tuple[PublicKey, ...]:
        """Every key, including retired ones."""
        return tuple(trusted.key for trusted in self._keys.values())

    def add(self, key: PublicKey) -> None:
        """Trust a key; a key that is already known keeps its state."""
        # Otherwise a rotation back to a retired key would put it in force again.
        if key.key_id not in self._keys:
            start, end = (parse_time(at) if at else None for at in (key.not_before, key.not_after))
            self._keys[key.key_id] = _TrustedKey(key, load_key(key), start, end)

    def rotate(self, old_id: str, new: PublicKey) -> None:
        """Retire the key that signed a rotation and trust the one it names."""
        self.add(new)
        self._keys[old_id] = replace(self._keys[old_id], retired=True)

    def fault(self, key_id: str, *, signature: bytes, data: bytes, at: str) -> FaultKind | None:
        """Return why a signature made at this time does not count; None where it does."""
        trusted = self._keys.get(key_id)
        if trusted is None:
            return FaultKind.UNKNOWN_KEY
        if not is_signed_by(trusted.loaded, signature, data):
            return FaultKind.BAD_SIGNATURE
        time = parse_time(at)
        # Compared as differences: `datetime.min` minus the slack would overflow. Without the slack, a clock that is corrected
        # right after the key was made would invalidate the log for good.
        early = trusted.start is not None and trusted.start - time > self._slack
        outside = early or (trusted.end is not None and time - trusted.end > self._slack)
        return FaultKind.KEY_NOT_VALID if outside or trusted.retired else None


def key_form(key: PublicKey) -> KeyForm:
    """Return the key as it is written."""
    return KeyForm(key.key_id, key.ed25519, key.not_before, key.not_after)


def public_key_of(form: KeyForm) -> PublicKey:
    """Return the key that was written."""
    return PublicKey(form.key_id, form.ed25519, form.not_before, form.not_after)


def write_keys(keys: Sequence[PublicKey]) -> bytes:
    """Return the list as JSON, one key per line."""
    lines = (msgspec.json.encode(key_form(key)) for key in keys)
    return b"[\n" + b",\n".join(lines) + b"\n]\n"


def read_keys(data: bytes) -> tuple[PublicKey, ...]:
    """Return the keys of a list, in its order."""
    try:
        forms = msgspec.json.decode(data, type=tuple[KeyForm, ...])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise ShapeError(f"no list of keys ({str(exc).lower()})", hint="expected a JSON list of public keys") from exc
    if not forms:
        raise EmptyInputError("no keys in the list", hint="a reader has to trust at least one")
    # The key ring loads every key, so an id or a window that is wrong is found here and not at the first signature.
    return KeyRing(public_key_of(form) for form in forms).known
