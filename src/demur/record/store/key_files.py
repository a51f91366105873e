"""A log's keys in a folder: the private key for its owner alone, the public ones for everybody.

A private key is created on first use and never overwritten. Every file is replaced whole, so a crash leaves the old or the new.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from threading import get_ident
from typing import TYPE_CHECKING

from demur.errors import InputError, UsageError
from demur.record.keys import Ed25519Signer, read_keys, write_keys

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from demur.model.passport import PublicKey

__all__ = ["KeyFolder", "read_private_key", "replace_file"]

_PRIVATE, _NEXT, _PUBLIC = "signing.pem", "signing.next.pem", "keys.json"
_OTHERS = 0o077


class KeyFolder:
    """The keys in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def public_file(self) -> Path:
        """The list that a reader of the log is given."""
        return self._folder / _PUBLIC

    @property
    def exists(self) -> bool:
        """Whether there is a key to sign with."""
        return (self._folder / _PRIVATE).exists()

    def signer(self, now: str) -> Ed25519Signer:
        """Return the signer in force; where there is none yet, create it, valid from `now`."""
        path = self._folder / _PRIVATE
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            private = _new_key()
            # Of two processes that start at once, the second finds the key of the first.
            with suppress(FileExistsError):
                _write_private(path, private)
                self._write_public([*self.public(), Ed25519Signer(private, not_before=now).public])
        signer = Ed25519Signer(read_private_key(path))
        known = {key.key_id: key for key in self.public()}
        if signer.public.key_id not in known:
            # The key came from elsewhere, or the list was lost: what signs must be listed.
            self._write_public([*known.values(), signer.public])
        else:
            signer.public = known[signer.public.key_id]
        return signer

    def public(self) -> tuple[PublicKey, ...]:
        """Return every key there was, oldest first; nothing where no key was created yet."""
        return read_keys(self.public_file.read_bytes()) if self.public_file.exists() else ()

    def prepare_next(self, now: str) -> Ed25519Signer:
        """Return the key that is to take over; it is on disk before the log names it."""
        path = self._folder / _NEXT
        if not path.exists():
            _write_private(path, _new_key())
        return Ed25519Signer(read_private_key(path), not_before=now)

    def promote_next(self, at: str) -> Ed25519Signer:
        """Put the next key in force, once the rotation at that time is on record."""
        old = self.signer(at).public
        new = Ed25519Signer(read_private_key(self._folder / _NEXT), not_before=at)
        others = [key for key in self.public() if key.key_id not in (old.key_id, new.public.key_id)]
        # The list first: after a crash between the two, the old key still signs, and `renew` finishes the rotation.
        self._write_public([*others, replace(old, not_after=at), new.public])
        (self._folder / _NEXT).replace(self._folder / _PRIVATE)
        return new

    def renew(self, retired_id: str, now: str) -> Ed25519Signer:
        """Return the signer after a rotation on record has retired ours; finish the rotation where a crash interrupted it.

        Called only under the log's lock, so that one process at a time does this.
        """
        signer = self.signer(now)
        unfinished = signer.public.key_id == retired_id and (self._folder / _NEXT).exists()
        return self.promote_next(now) if unfinished else signer

    def _write_public(self, keys: list[PublicKey]) -> None:
        replace_file(self.public_file, write_keys(keys))


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Return the Ed25519 key of a PKCS8 file; raise where others can read it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except OSError as exc:
        raise InputError((exc.strerror or "cannot be read").lower(), source=str(path), hint="check the path") from exc
    if os.name == "posix" and mode & _OTHERS:
        raise UsageError(f"others can read the key `{path}`", hint=f"chmod 600 {path}, and rotate it")
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as exc:
        raise InputError("no private key in it", source=str(path), hint="expected PKCS8 in PEM") from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError("not an Ed25519 key", source=str(path), hint="openssl genpkey -algorithm ed25519")
    return key


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in place whole and durably."""
    # A rename within a folder is atomic; syncing first keeps a crash from leaving an empty file under the new name.
    beside = _beside(path)
    with beside.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def _beside(path: Path) -> Path:
    """Return a name that nobody else writes to."""
    return path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}")


def _new_key() -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ModuleNotFoundError as exc:
        raise UsageError("signing needs the cryptography package", hint="pip install 'demur[gateway]'") from exc
    return Ed25519PrivateKey.generate()


def _write_private(path: Path, key: Ed25519PrivateKey) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    beside = _beside(path)
    handle = os.open(beside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        # A link never replaces: of two processes that start at once, one creates the key and both use it, whole.
        os.link(beside, path)
    finally:
        beside.unlink()
