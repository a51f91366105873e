"""The clients' keys, hashed, with the labels that policies see.

The file holds salted hashes and no key. An unknown key, a disabled one and none at all cannot be told apart from outside.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from demur.errors import EmptyInputError, ShapeError, UsageError
from demur.io.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demur.http.upstream import Headers

__all__ = [
    "CREDENTIALS",
    "OWN_KEY",
    "ClientKey",
    "ClientKeys",
    "client_of",
    "credential_of",
    "hash_key",
    "new_client_key",
    "parse_client_keys",
    "presented_key",
    "read_client_keys",
]

OWN_KEY = b"x-demur-key"
"""Where a client shows the gateway's key if `Authorization` holds the provider's."""
CREDENTIALS = frozenset((b"authorization", b"x-api-key", b"api-key"))
_MIN_CHARS = 20
_MAX_CHARS = 1024
_SALT_BYTES = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HASH = re.compile(r"sha256:([0-9a-f]{32,64}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ClientKey:
    """One client: the name that metrics and logs may show, the labels that policies see, and the key's hash."""

    name: str
    salt: bytes
    digest: bytes
    labels: tuple[str, ...] = ()
    disabled: bool = False


def new_client_key() -> str:
    """Return a new key: 256 random bits behind a prefix by which scanners of leaked secrets can know it."""
    return f"demur_{secrets.token_urlsafe(32)}"


def hash_key(key: str, salt: bytes | None = None) -> str:
    """Return what the file holds in place of a key; a short one is refused, since it could be guessed from its hash."""
    if len(key) < _MIN_CHARS or key != key.strip():
        raise UsageError(
            f"a key of fewer than {_MIN_CHARS} characters, or with blanks around it", hint="make a random one"
        )
    salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    return f"sha256:{salt.hex()}:{_salted_digest(salt, key.encode()).hex()}"


def _salted_digest(salt: bytes, key: bytes) -> bytes:
    # A key is long and random, so that a fast hash with a salt of its own is enough: there is no dictionary to try.
    return hashlib.sha256(salt + key).digest()


class _KeyRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    hash: str
    labels: tuple[str, ...] = ()
    disabled: bool = False


class _KeyFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    key: tuple[_KeyRow, ...] = ()


def read_client_keys(name: str) -> ClientKeys:
    """Return the keys in a file."""
    return parse_client_keys(read_text(name), source=name)


def parse_client_keys(text: str, *, source: str) -> ClientKeys:
    """Return the keys in a text; no message repeats a value, which could be a key."""
    try:
        rows = msgspec.convert(tomllib.loads(text), _KeyFile).key
    except tomllib.TOMLDecodeError as exc:
        raise ShapeError("not TOML", source=source, hint="write [[key]] with name, hash and labels") from exc
    except msgspec.ValidationError as exc:
        what = str(exc)[:1].lower() + str(exc)[1:]
        raise ShapeError(f"no keys: {what}", source=source, hint="write [[key]] with name, hash and labels") from exc
    if not rows:
        raise EmptyInputError("no key in it", source=source, hint="nobody could ask; leave `keys.file` empty instead")
    keys = []
    for number, row in enumerate(rows, start=1):
        if not _NAME.fullmatch(row.name):
            raise ShapeError(f"the name of key {number} is none", source=source, hint="up to 64 letters, digits, . _ -")
        found = _HASH.fullmatch(row.hash)
        if found is None:
            hint = "write what `hash_key` returns"
            raise ShapeError(f"the hash of key `{row.name}` is none", source=source, hint=hint)
        salt, digest = bytes.fromhex(found[1]), bytes.fromhex(found[2])
        keys.append(ClientKey(row.name, salt, digest, row.labels, row.disabled))
    return ClientKeys(keys)


def presented_key(headers: Headers) -> str | None:
    """Return the key that a client shows, as OpenAI's (`Authorization: Bearer`), Anthropic's or Azure's clients do."""
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip().decode("latin-1") or None
        if name in (b"x-api-key", b"api-key"):
            return value.strip().decode("latin-1") or None
    return None


def client_of(headers: Headers, keys: ClientKeys) -> ClientKey | None:
    """Return the client who shows a key of the gateway's, None where there is no such key."""
    own = next((value.decode("latin-1").strip() for name, value in headers if name == OWN_KEY), None)
    return keys.find(own if own is not None else presented_key(headers))


class ClientKeys:
    """All clients; `find` tells who shows a key."""

    def __init__(self, keys: Iterable[ClientKey]) -> None:
        self._keys = tuple(keys)
        names = [key.name for key in self._keys]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"two keys are called `{twice}`", hint="rename one of them")
        if len({key.digest for key in self._keys}) < len(self._keys):
            raise UsageError("two names have the same hash", hint="make a key for each")
        self._secret = secrets.token_bytes(32)
        self._found: dict[bytes, ClientKey] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The clients' names, which bound the labels of metrics."""
        return tuple(key.name for key in self._keys)

    def find(self, shown: str | None) -> ClientKey | None:
        """Return the client who shows a key, None where no enabled client has it."""
        if not shown or len(shown) > _MAX_CHARS:
            return None
        given = shown.encode("utf-8", "surrogateescape")
        # A key once found is remembered under a hash keyed with a secret of this process, so that the next look-up costs one
        # hash whatever the number of keys; what is remembered is bounded by that number.
        mark = hashlib.blake2b(given, key=self._secret, digest_size=32).digest()
        known = self._found.get(mark)
        if known is None:
            known = self._match_in_constant_time(given)
            if known is not None:
                self._found[mark] = known
        return known

    def _match_in_constant_time(self, given: bytes) -> ClientKey | None:
        found = None
        # Every hash is tried: to stop at the first match would tell how far down the list it is.
        for key in self._keys:
            if hmac.compare_digest(_salted_digest(key.salt, given), key.digest) and not key.disabled:
                found = key
        return found


def credential_of(headers: Headers) -> bytes:
    """Return what a client is known by: the key that it shows, whosever it is."""
    return next((value for name, value in headers if name == OWN_KEY or name in CREDENTIALS), b"")
