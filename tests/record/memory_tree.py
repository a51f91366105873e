"""A tree with all its perfect nodes in memory, for proofs where there is no store."""

from __future__ import annotations

from collections.abc import Iterable

from demur.record.tree import Frontier, grow


class MemoryTree:
    """Grows as a store does; `node` is a `NodeReader`."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.frontier = Frontier()
        self._nodes: dict[tuple[int, int], bytes] = {}
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> int:
        """Add a leaf hash; return its index."""
        self.frontier, nodes = grow(self.frontier, [leaf])
        self._nodes |= {(level, index): found for level, index, found in nodes}
        return self.frontier.size - 1

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a perfect subtree."""
        return self._nodes[level, index]
