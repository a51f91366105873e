"""How does one show, with a few hashes, that a leaf is in a tree, or that a tree is the beginning of a larger one?

Laws: proofs are those of RFC 9162, § 2.1.3 and § 2.1.4, made from perfect nodes alone, so at any size that the tree has
passed; a check never raises on a false proof, it says no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.record.tree import EMPTY_ROOT, node_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.record.tree import NodeReader

__all__ = ["consistency_proof", "inclusion_proof", "is_consistent", "is_included", "root_at"]


def root_at(size: int, node: NodeReader) -> bytes:
    """Return the root that the tree had at this size; at 0, the hash of nothing."""
    return _stretch(0, size, node) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, node: NodeReader) -> tuple[bytes, ...]:
    """Return the hashes that lead from a leaf to the root at this size, the leaf's sibling first."""
    if not 0 <= index < size:
        raise UsageError(f"leaf {index} is not in a tree of {size}", hint="take a checkpoint after the record")
    path: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(_stretch(middle, stop, node))
            stop = middle
        else:
            path.append(_stretch(start, middle, node))
            start = middle
    return tuple(reversed(path))


def consistency_proof(old: int, new: int, node: NodeReader) -> tuple[bytes, ...]:
    """Return the hashes that show the tree of size `old` to be the beginning of the tree of size `new`."""
    if not 0 <= old <= new:
        raise UsageError(f"a tree of {new} cannot extend one of {old}", hint="give the smaller size first")
    if old in (0, new):
        return ()
    path: list[bytes] = []
    start, stop, whole = 0, new, True
    while old != stop:
        middle = start + _split(stop - start)
        if old <= middle:
            path.append(_stretch(middle, stop, node))
            stop = middle
        else:
            path.append(_stretch(start, middle, node))
            start, whole = middle, False
    if not whole:
        path.append(_stretch(start, stop, node))
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
    steps = [old_root, *proof] if old_size & (old_size - 1) == 0 else list(proof)
    return _both_roots(old_size - 1, new_size - 1, steps) == (old_root, new_root)


def _both_roots(position: int, last: int, steps: list[bytes]) -> tuple[bytes, bytes] | None:
    """Fold a consistency proof into the older and the newer root; None where its length does not fit."""
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


def _stretch(start: int, stop: int, node: NodeReader) -> bytes:
    """Return the root over leaves `start` to `stop`, `start` being aligned as the tree's own splits are."""
    parts: list[bytes] = []
    while start < stop:
        level = (stop - start).bit_length() - 1
        parts.append(node(level, start >> level))
        start += 1 << level
    total = parts.pop()
    while parts:
        total = node_hash(parts.pop(), total)
    return total
