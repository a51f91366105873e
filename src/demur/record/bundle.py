"""Bundles: one entry with its inclusion proof, a checkpoint and the public keys, for a reader who has nothing else.

A bundle is plain JSON that can be checked without our code. The keys in it only say which keys are meant: `check_bundle` takes
the keys that the reader got elsewhere, never the bundle's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from demur.errors import ShapeError, UsageError
from demur.model.passport import Fault, FaultKind
from demur.record.checkpoint import NoteKey, read_checkpoint
from demur.record.keys import CLOCK_SLACK_S, KeyForm, KeyRing, key_form
from demur.record.seal import open_sealed, seal_fault
from demur.record.tree import HASH_BYTES, inclusion_proof, is_included, leaf_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.passport import PublicKey
    from demur.record.tree import NodeReader

__all__ = ["Bundle", "check_bundle", "prove", "read_bundle"]

_FORMAT = "urn:demur:bundle:v1"


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry and all that shows it to be in the log; bytes are base64 in JSON."""

    format: str
    envelope: bytes
    index: int
    proof: tuple[bytes, ...]
    checkpoint: str
    keys: tuple[KeyForm, ...]


def prove(envelope: bytes, index: int, *, checkpoint: bytes, node: NodeReader, keys: Sequence[PublicKey]) -> bytes:
    """Return the bundle for the entry at `index`, proved against a checkpoint that covers it."""
    tree = read_checkpoint(checkpoint).checkpoint
    proof = inclusion_proof(index, tree.size, node)
    # A store whose nodes are damaged, or the checkpoint of another log, must not become a bundle that fails elsewhere.
    if not is_included(leaf_hash(envelope), index, size=tree.size, root=tree.root, proof=proof):
        raise UsageError(f"record {index} is not under this checkpoint", hint="give the checkpoint of the same log")
    bundle = Bundle(_FORMAT, envelope, index, proof, checkpoint.decode(), tuple(key_form(key) for key in keys))
    return msgspec.json.format(msgspec.json.encode(bundle), indent=1) + b"\n"


def read_bundle(data: bytes) -> Bundle:
    """Return what is in a bundle, not yet verified."""
    try:
        bundle = msgspec.json.decode(data, type=Bundle)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise ShapeError(f"no bundle ({str(exc).lower()})", hint="expected what `demur passport prove` wrote") from exc
    if bundle.format != _FORMAT or any(len(step) != HASH_BYTES for step in bundle.proof):
        raise ShapeError(f"a bundle of format `{bundle.format}`", hint=f"expected `{_FORMAT}` with SHA-256 hashes")
    return bundle


def check_bundle(
    bundle: Bundle, keys: Sequence[PublicKey], *, origin: str, slack_s: float = CLOCK_SLACK_S
) -> Fault | None:
    """Return what is wrong with a bundle for someone who trusts these keys of this log; None where nothing is."""
    # The order of the checks: a proof about an entry that nobody signed would say nothing.
    sealed = open_sealed(bundle.envelope)
    kind = seal_fault(sealed, KeyRing(keys, slack_s=slack_s))
    if kind is not None:
        return Fault(kind, bundle.index, "the record's signature does not count")
    note = read_checkpoint(bundle.checkpoint.encode())
    if note.checkpoint.origin != origin or not note.signers([NoteKey(origin, key) for key in keys]):
        return Fault(FaultKind.BAD_CHECKPOINT, bundle.index, "the checkpoint is not this log's")
    size, root = note.checkpoint.size, note.checkpoint.root
    if not is_included(sealed.leaf, bundle.index, size=size, root=root, proof=bundle.proof):
        return Fault(FaultKind.ROOT_MISMATCH, bundle.index, "the proof does not lead to the checkpoint's root")
    return None
