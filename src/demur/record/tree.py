"""The SHA-256 Merkle tree of RFC 9162, section 2.1, with its inclusion and consistency proofs.

A tree grows from its frontier alone: the roots of its perfect subtrees, at most one per bit of its size. A perfect node never
changes once it is complete, so a store keeps nodes and reads the proof for any earlier size from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from demur.errors import ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "Frontier",
    "NodeReader",
    "consistency_proof",
    "grow",
    "inclusion_proof",
    "is_consistent",
    "is_included",
    "leaf_hash",
    "node_hash",
]

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()
_SIZE_BYTES = 8
# hashlib releases the GIL for pieces of 2,048 bytes or more. With other threads waiting for it, getting it back costs more than
# hashing an entry, so entries of ordinary size are hashed in pieces below that limit.
_GIL_HELD_BYTES, _GIL_HELD_PIECES = 2047, 8

NodeReader = Callable[[int, int], bytes]
"""Gives the hash of the perfect subtree number `index` on `level` (level 0: leaves)."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    # RFC 9162, section 2.1.1: the prefixes 0 and 1 keep a leaf from being passed off as an inner node.
    if len(data) > _GIL_HELD_PIECES * _GIL_HELD_BYTES:
        return sha256(b"\x00" + data).digest()
    hashed = sha256(b"\x00" + data[: _GIL_HELD_BYTES - 1])
    for start in range(_GIL_HELD_BYTES - 1, len(data), _GIL_HELD_BYTES):
        hashed.update(data[start : start + _GIL_HELD_BYTES])
    return hashed.digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """The state of a growing tree: its size and the roots of its perfect subtrees, largest first."""

    size: int = 0
    roots: tuple[bytes, ...] = ()

    def root(self) -> bytes:
        """Return the root of the tree at this size; for an empty tree, the hash of no bytes."""
        if not self.roots:
            return EMPTY_ROOT
        *rest, total = self.roots
        for left in reversed(rest):
            total = node_hash(left, total)
        return total

    def to_bytes(self) -> bytes:
        """Return the state as a store keeps it: the size in 8 bytes, then the hashes."""
        return self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self.roots)

    @classmethod
    def from_bytes(cls, data: bytes) -> Frontier:
        """Return the state that was stored; raise where it is damaged."""
        size = int.from_bytes(data[:_SIZE_BYTES], "big")
        hashes = data[_SIZE_BYTES:]
        # Each 1 bit of the size is one perfect subtree, so the size fixes the number of hashes.
        if len(data) < _SIZE_BYTES or len(hashes) != HASH_BYTES * size.bit_count():
            raise ShapeError("the stored frontier is damaged", hint="rebuild it from the records")
        return cls(size, tuple(hashes[i : i + HASH_BYTES] for i in range(0, len(hashes), HASH_BYTES)))


def grow(frontier: Frontier, leaves: Sequence[bytes]) -> tuple[Frontier, list[tuple[int, int, bytes]]]:
    """Return the state after these leaf hashes, and level, number and hash of the nodes they completed, in order."""
    roots = list(frontier.roots)
    nodes: list[tuple[int, int, bytes]] = []
    for index, leaf in enumerate(leaves, frontier.size):
        level, number, total = 0, index, leaf
        nodes.append((0, index, leaf))
        # A right child completes its parent, as carrying does in binary addition: two hashes per leaf on average.
        while number & 1:
            total = node_hash(roots.pop(), total)
            level, number = level + 1, number >> 1
            nodes.append((level, number, total))
        roots.append(total)
    return Frontier(frontier.size + len(leaves), tuple(roots)), nodes


def inclusion_proof(index: int, size: int, node: NodeReader) -> tuple[bytes, ...]:
    """Return the hashes that lead from a leaf to the root at this size, the leaf's sibling first (RFC 9162, § 2.1.3.1)."""
    if not 0 <= index < size:
        raise UsageError(f"leaf {index} is not in a tree of {size}", hint="take a checkpoint after the record")
    path: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(_range_root(middle, stop, node))
            stop = middle
        else:
            path.append(_range_root(start, middle, node))
            start = middle
    return tuple(reversed(path))


def consistency_proof(old: int, new: int, node: NodeReader) -> tuple[bytes, ...]:
    """Return the hashes that show the tree of size `old` to be the beginning of the tree of size `new` (RFC 9162, § 2.1.4.1)."""
    if not 0 <= old <= new:
        raise UsageError(f"a tree of {new} cannot extend one of {old}", hint="give the smaller size first")
    if old in (0, new):
        return ()
    path: list[bytes] = []
    # `whole` is the flag b of the RFC: the old root itself is known to the verifier and left out of the proof.
    start, stop, whole = 0, new, True
    while old != stop:
        middle = start + _split(stop - start)
        if old <= middle:
            path.append(_range_root(middle, stop, node))
            stop = middle
        else:
            path.append(_range_root(start, middle, node))
            start, whole = middle, False
    if not whole:
        path.append(_range_root(start, stop, node))
    return tuple(reversed(path))


def is_included(leaf: bytes, index: int, *, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof leads from this leaf hash at `index` to the root at `size` (RFC 9162, § 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    position, last, total = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            total = node_hash(sibling, total)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            total = node_hash(total, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and total == root


def is_consistent(old: tuple[int, bytes], new: tuple[int, bytes], proof: Sequence[bytes]) -> bool:
    """Whether the proof shows `old` (size, root) to be the beginning of `new` (RFC 9162, § 2.1.4.2)."""
    (old_size, old_root), (new_size, new_root) = old, new
    if old_size == new_size:
        return old_root == new_root and not proof
    if old_size == 0:
        return old_root == EMPTY_ROOT and not proof
    if not 0 < old_size < new_size or not proof:
        return False
    # An old tree of a power of two is one perfect subtree, and its root is left out of the proof.
    steps = [old_root, *proof] if old_size & (old_size - 1) == 0 else list(proof)
    return _fold_consistency(old_size - 1, new_size - 1, steps) == (old_root, new_root)


def _fold_consistency(position: int, last: int, steps: list[bytes]) -> tuple[bytes, bytes] | None:
    """Return the older and the newer root that a consistency proof makes; None where its length does not fit."""
    while position & 1:
        position, last = position >> 1, last >> 1
    older = newer = steps[0]
    for step in steps[1:]:
        if last == 0:
            return None
        if position & 1 or position == last:
            older, newer = node_hash(step, older), node_hash(step, newer)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            newer = node_hash(newer, step)
        position, last = position >> 1, last >> 1
    return (older, newer) if last == 0 else None


def _split(size: int) -> int:
    """Return the largest power of two below `size`, which is at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def _range_root(start: int, stop: int, node: NodeReader) -> bytes:
    """Return the root over leaves `start` to `stop`; `start` must be aligned as the tree's own splits are."""
    parts: list[bytes] = []
    while start < stop:
        level = (stop - start).bit_length() - 1
        parts.append(node(level, start >> level))
        start += 1 << level
    total = parts.pop()
    while parts:
        total = node_hash(parts.pop(), total)
    return total
