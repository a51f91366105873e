"""What is the one hash that stands for a whole log, and how does it grow? The SHA-256 Merkle tree of RFC 9162, § 2.1.

Laws: a leaf costs a constant number of hashes on average; the frontier (the roots of the perfect subtrees, at most one a
bit of the size) is all that growing needs, so a store can put it away and go on; a perfect node, once complete, never
changes, so nodes can be kept and proofs read from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from demur.errors import ShapeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "Frontier",
    "MemoryTree",
    "Node",
    "NodeReader",
    "grow",
    "grow_all",
    "leaf_hash",
    "node_hash",
]

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()
_SIZE_BYTES = 8
_QUIET_BYTES, _QUIET_PIECES = 2047, 8
"""A longer piece is hashed with the interpreter let go: where other threads want it, that costs more than the hash of a record."""

NodeReader = Callable[[int, int], bytes]
"""Gives the hash of the perfect subtree number `index` on `level` (level 0: leaves)."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf, set apart from inner nodes by its prefix."""
    if len(data) > _QUIET_PIECES * _QUIET_BYTES:
        return sha256(b"\x00" + data).digest()
    hashed = sha256(b"\x00" + data[: _QUIET_BYTES - 1])
    for start in range(_QUIET_BYTES - 1, len(data), _QUIET_BYTES):
        hashed.update(data[start : start + _QUIET_BYTES])
    return hashed.digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Node:
    """A perfect subtree that is complete: its level, its number on that level, its hash."""

    level: int
    index: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Frontier:
    """The state of a growing tree: its size and the roots of its perfect subtrees, largest first."""

    size: int = 0
    roots: tuple[bytes, ...] = ()

    def root(self) -> bytes:
        """Return the root of the tree at this size; of an empty tree, the hash of nothing."""
        if not self.roots:
            return EMPTY_ROOT
        *rest, total = self.roots
        for left in reversed(rest):
            total = node_hash(left, total)
        return total

    def to_bytes(self) -> bytes:
        """Return the state as a store can keep it: the size in 8 bytes, then the hashes."""
        return self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self.roots)

    @classmethod
    def from_bytes(cls, data: bytes) -> Frontier:
        """Return the state that was put away; refuse one whose hashes do not fit its size."""
        size = int.from_bytes(data[:_SIZE_BYTES], "big")
        hashes = data[_SIZE_BYTES:]
        if len(data) < _SIZE_BYTES or len(hashes) != HASH_BYTES * size.bit_count():
            raise ShapeError("the stored frontier is damaged", hint="rebuild it from the records")
        return cls(size, tuple(hashes[i : i + HASH_BYTES] for i in range(0, len(hashes), HASH_BYTES)))


def grow(frontier: Frontier, leaf: bytes) -> tuple[Frontier, tuple[Node, ...]]:
    """Return the state after one more leaf hash, and the nodes which that completed, the leaf first."""
    frontier, nodes = grow_all(frontier, (leaf,))
    return frontier, tuple(Node(*node) for node in nodes)


def grow_all(frontier: Frontier, leaves: Sequence[bytes]) -> tuple[Frontier, list[tuple[int, int, bytes]]]:
    """Return the state after these leaf hashes, and level, number and hash of the nodes which they completed, in order."""
    roots = list(frontier.roots)
    nodes: list[tuple[int, int, bytes]] = []
    for index, leaf in enumerate(leaves, frontier.size):
        level, place, total = 0, index, leaf
        nodes.append((0, index, leaf))
        while place & 1:
            total = node_hash(roots.pop(), total)
            level, place = level + 1, place >> 1
            nodes.append((level, place, total))
        roots.append(total)
    return Frontier(frontier.size + len(leaves), tuple(roots)), nodes


class MemoryTree:
    """A tree with all its perfect nodes in memory, 64 bytes a leaf: what proofs are read from where no store is."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.frontier = Frontier()
        self._levels: list[bytearray] = []
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> int:
        """Add a leaf hash; return its index."""
        self.frontier, nodes = grow(self.frontier, leaf)
        for node in nodes:
            if node.level == len(self._levels):
                self._levels.append(bytearray())
            self._levels[node.level] += node.hash
        return self.frontier.size - 1

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a perfect subtree: a `NodeReader`."""
        start = index * HASH_BYTES
        found = bytes(self._levels[level][start : start + HASH_BYTES]) if 0 <= level < len(self._levels) else b""
        if index < 0 or len(found) != HASH_BYTES:
            raise ShapeError(f"the tree has no node {index} on level {level}", hint="ask within the tree's size")
        return found
