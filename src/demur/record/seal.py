"""Sealing: an entry's statement in a DSSE v1 envelope, signed with Ed25519.

Opening an envelope checks its form; only a key ring checks the signature. An entry either says `signing: none` and has no
signature, or has exactly one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from demur.errors import ShapeError
from demur.model.passport import FaultKind, LogEntry, SigningMode
from demur.record.interface import SealedEntry
from demur.record.statement import read_statement, write_statement
from demur.record.tree import leaf_hash

if TYPE_CHECKING:
    from demur.record.keys import KeyRing, Signer

__all__ = ["PAYLOAD_TYPE", "open_sealed", "pre_authentication", "seal", "seal_entry", "seal_fault"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class _Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: bytes


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    payload: bytes
    payloadType: str  # noqa: N815 — the envelope's own spelling
    signatures: tuple[_Signature, ...]


_READER = msgspec.json.Decoder(_Envelope)
_WRITER = msgspec.json.Encoder(order="sorted")


def pre_authentication(payload: bytes) -> bytes:
    """Return the bytes that are signed: the pre-authentication encoding (PAE) of DSSE v1."""
    # The lengths keep bytes from being moved between type and payload without changing the signed text.
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def seal(entry: LogEntry, signer: Signer | None) -> bytes:
    """Return the envelope; the entry inside says how it is signed, `none` where there is no signer."""
    return _WRITER.encode(_sign(entry, signer)[1])


def seal_entry(entry: LogEntry, signer: Signer | None) -> SealedEntry:
    """Return the entry in its envelope, with all that a store needs; the entry says how it is signed."""
    entry, form = _sign(entry, signer)
    envelope = _WRITER.encode(form)
    key_id, signature = (form.signatures[0].keyid, form.signatures[0].sig) if form.signatures else (None, b"")
    return SealedEntry(entry, envelope, form.payload, key_id, signature, leaf_hash(envelope))


def _sign(entry: LogEntry, signer: Signer | None) -> tuple[LogEntry, _Envelope]:
    mode = SigningMode.NONE if signer is None else SigningMode.ED25519
    entry = entry if entry.signing is mode else replace(entry, signing=mode)
    payload = write_statement(entry)
    signatures: tuple[_Signature, ...] = ()
    if signer is not None:
        signatures = (_Signature(signer.public.key_id, signer.sign(pre_authentication(payload))),)
    return entry, _Envelope(payload, PAYLOAD_TYPE, signatures)


def open_sealed(envelope: bytes) -> SealedEntry:
    """Return what is in an envelope; its signature is not yet verified."""
    try:
        form = _READER.decode(envelope)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        what = "not UTF-8" if isinstance(exc, UnicodeError) else str(exc).lower()
        raise ShapeError(f"no envelope ({what})", hint="expected a DSSE envelope as JSON") from exc
    if form.payloadType != PAYLOAD_TYPE:
        raise ShapeError(f"a payload of type `{form.payloadType}`", hint=f"expected `{PAYLOAD_TYPE}`")
    # The signature does not cover the envelope's own spelling; this makes any changed byte of it visible.
    if _WRITER.encode(form) != envelope:
        raise ShapeError("the envelope is not in canonical form", hint="keep the bytes as they were sealed")
    entry = read_statement(form.payload)
    if len(form.signatures) != (0 if entry.signing is SigningMode.NONE else 1):
        raise ShapeError("the signatures are not what the record says", hint="expected one, or none with signing none")
    key_id, signature = (form.signatures[0].keyid, form.signatures[0].sig) if form.signatures else (None, b"")
    return SealedEntry(entry, envelope, form.payload, key_id, signature, leaf_hash(envelope))


def seal_fault(sealed: SealedEntry, ring: KeyRing) -> FaultKind | None:
    """Return why a seal does not count for someone who trusts these keys; None where it does."""
    if sealed.key_id is None:
        return FaultKind.UNSIGNED
    data = pre_authentication(sealed.payload)
    return ring.fault(sealed.key_id, signature=sealed.signature, data=data, at=sealed.entry.at)
