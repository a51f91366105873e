"""Checkpoints: signed tree heads (origin, size and root) in the format of c2sp.org/tlog-checkpoint.

They are C2SP signed notes with Ed25519 signatures, so witnesses elsewhere can read and countersign them. A note proves nothing
until `SignedCheckpoint.signers` names a key that the reader trusts.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from demur.errors import ShapeError, UsageError
from demur.record.keys import is_signed_by, load_key, public_key
from demur.record.tree import HASH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demur.model.passport import PublicKey
    from demur.record.keys import Signer

__all__ = [
    "Checkpoint",
    "NoteKey",
    "NoteSignature",
    "SignedCheckpoint",
    "countersign",
    "issue_checkpoint",
    "read_checkpoint",
]

_ED25519 = b"\x01"
_ID_BYTES = 4
_DASH = "\u2014 "
# c2sp.org/signed-note: readers must accept at least 16, and should have a limit.
_MAX_SIGNATURES = 64
_NAME = re.compile(r"[^\s+]+")
# No leading zeros, as the format asks; 19 digits are as many as a store's 64-bit columns hold.
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A public key under the name by which it signs notes; the log's own name is its origin."""

    name: str
    key: PublicKey

    def __post_init__(self) -> None:
        """Raise where the format cannot hold the name."""
        if not _NAME.fullmatch(self.name) or not self.name.isprintable():
            raise UsageError(f"`{self.name}` is no name for a key", hint="no spaces, no plus, as example.org/log")

    @property
    def note_id(self) -> bytes:
        """The four bytes that tell this key from others of the same name (c2sp.org/signed-note)."""
        raw = bytes.fromhex(self.key.ed25519)
        return sha256(self.name.encode() + b"\n" + _ED25519 + raw).digest()[:_ID_BYTES]

    @property
    def text(self) -> str:
        """The key as verifiers exchange it (a `vkey`): name, id and key in one line."""
        encoded = b64encode(_ED25519 + bytes.fromhex(self.key.ed25519)).decode()
        return f"{self.name}+{self.note_id.hex()}+{encoded}"

    @classmethod
    def from_text(cls, text: str) -> NoteKey:
        """Return the key that a line holds; raise where its id is not derived from it."""
        name, _, rest = text.strip().partition("+")
        stated, _, encoded = rest.partition("+")
        raw = _from_base64(encoded, "the key")
        if len(raw) != HASH_BYTES + 1 or raw[:1] != _ED25519:
            raise ShapeError(f"`{name}` is no Ed25519 key", hint="expected name+id+key")
        found = cls(name, public_key(raw[1:]))
        if found.note_id.hex() != stated:
            raise ShapeError(f"the key of `{name}` does not bear its own id", hint="ask its owner again")
        return found


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The log at a size: its origin, its number of entries, its root."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The lines that are signed."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line: the name, the four bytes of the key's id, the signature."""

    name: str
    note_id: bytes
    signature: bytes

    @property
    def line(self) -> str:
        """The line as it is written."""
        return f"{_DASH}{self.name} {b64encode(self.note_id + self.signature).decode()}\n"


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint and its signatures, not yet verified; `signed` is the signed text, byte for byte."""

    checkpoint: Checkpoint
    signed: bytes
    signatures: tuple[NoteSignature, ...]

    def to_bytes(self) -> bytes:
        """Return the note."""
        return self.signed + b"\n" + "".join(s.line for s in self.signatures).encode()

    def signers(self, keys: Iterable[NoteKey]) -> tuple[NoteKey, ...]:
        """Return which of these keys signed; none at all where a signature in the name of one of them is invalid."""
        found: dict[tuple[str, bytes], NoteKey] = {}
        known = {(key.name, key.note_id): key for key in keys}
        for line in self.signatures:
            key = known.get((line.name, line.note_id))
            if key is None:
                # Witnesses that this reader does not know may have signed as well.
                continue
            if not is_signed_by(load_key(key.key), line.signature, self.signed):
                # c2sp.org/signed-note: one invalid signature of a known key makes the whole note invalid.
                return ()
            found[line.name, line.note_id] = key
        return tuple(found.values())


def issue_checkpoint(checkpoint: Checkpoint, signer: Signer) -> bytes:
    """Return the checkpoint signed by the log itself, under its origin as the name."""
    if len(checkpoint.root) != HASH_BYTES or checkpoint.size < 0:
        raise UsageError("a checkpoint needs a size and a root of 32 bytes", hint="take both from the frontier")
    return countersign(SignedCheckpoint(checkpoint, checkpoint.text.encode(), ()).to_bytes(), signer, checkpoint.origin)


def countersign(note: bytes, signer: Signer, name: str) -> bytes:
    """Return the note with one more signature; the caller has checked consistency before."""
    body, _, _ = note.rpartition(b"\n\n")
    text = body + b"\n"
    line = NoteSignature(name, NoteKey(name, signer.public).note_id, signer.sign(text)).line
    return note + line.encode()


def read_checkpoint(note: bytes) -> SignedCheckpoint:
    """Return the checkpoint of a note; its signatures are not yet verified."""
    try:
        whole = note.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ShapeError("the checkpoint is not UTF-8", hint="expected a signed note") from exc
    head, blank, tail = whole.rpartition("\n\n")
    if not blank or not tail.endswith("\n") or any(c < " " and c != "\n" for c in whole):
        raise ShapeError("no signed note", hint="expected a text, an empty line and signatures")
    lines = tail[:-1].split("\n")
    if len(lines) > _MAX_SIGNATURES:
        raise ShapeError(f"more than {_MAX_SIGNATURES} signatures on a checkpoint")
    text = head + "\n"
    return SignedCheckpoint(_checkpoint_of(text), text.encode(), tuple(_read_signature(line) for line in lines))


def _checkpoint_of(text: str) -> Checkpoint:
    origin, size, root, *rest = [*text.split("\n"), "", ""]
    # Lines after the root are extensions: any text, but never empty, for an empty line ends the signed text.
    extensions = rest[:-3]
    if not origin or not _SIZE.fullmatch(size) or not all(extensions):
        raise ShapeError("the note is no checkpoint", hint="expected origin, size and root, a line each")
    digest = _from_base64(root, "the root")
    if len(digest) != HASH_BYTES:
        raise ShapeError("the checkpoint's root is no SHA-256", hint="expected 32 bytes in base64")
    return Checkpoint(origin, int(size), digest)


def _read_signature(line: str) -> NoteSignature:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not _NAME.fullmatch(name):
        raise ShapeError("a signature line of the checkpoint is damaged", hint="expected a dash, a name, base64")
    raw = _from_base64(encoded, "a signature")
    if len(raw) <= _ID_BYTES:
        raise ShapeError("a signature of the checkpoint is too short")
    return NoteSignature(name, raw[:_ID_BYTES], raw[_ID_BYTES:])


def _from_base64(text: str, what: str) -> bytes:
    try:
        raw = b64decode(text, validate=True)
    except (Base64Error, ValueError) as exc:
        raise ShapeError(f"{what} is not in base64") from exc
    # Base64 has several spellings of the same bytes, and a note must have one.
    if b64encode(raw).decode() != text:
        raise ShapeError(f"{what} is not in canonical base64")
    return raw
