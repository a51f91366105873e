"""Does a store agree with its own records? What it keeps for speed is counted anew from the envelopes and compared.

Laws: the envelopes are the truth, whatever the columns beside them say; a row that is missing, moved or relabelled is named by its
leaf index; nodes, frontier and rollup are all compared, none is believed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from demur.adapters.log_growth import RateKey, entry_kind, rate_key
from demur.errors import InputError
from demur.model.passport import Passport
from demur.record.seal import open_sealed
from demur.record.tree import Frontier, grow, leaf_hash, node_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.adapters.log_growth import LogStore, StoredRow

__all__ = ["StoreCheck", "StoreFault"]

_MOST = 100
_NO_END = 2**62


@dataclass(frozen=True, slots=True)
class StoreFault:
    """One thing in which a store and its records disagree; `index` is None where it is about the whole."""

    what: str
    index: int | None = None


class StoreCheck:
    """Reads a store's rows once, passing each envelope on, and says afterwards what does not agree."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._frontier = Frontier()
        self._counts: Counter[RateKey] = Counter()
        self.faults: list[StoreFault] = []
        self.attested = 0

    def envelopes(self) -> Iterator[bytes]:
        """Yield every envelope in the order of the log."""
        leaves = _Leaves(self._store.level(0))
        expected = 0
        for row in self._store.rows(0, _NO_END):
            if row.place != expected:
                last = row.place - 1
                more = "" if last == expected else f", and so are all up to {last}"
                self._fault(f"missing from the store{more}", expected)
            expected = row.place + 1
            self._check_row(row)
            leaf = leaf_hash(row.envelope)
            if leaves.at(row.place) != leaf:
                self._fault("not the one that the tree was grown with", row.place)
            self._frontier, _ = grow(self._frontier, leaf)
            yield row.envelope

    def close(self) -> None:
        """Compare what can only be compared at the end."""
        stored = self._store.frontier()
        if (stored.size, stored.root()) != (self._frontier.size, self._frontier.root()):
            what = f"the store says {stored.size} records and a root, its {self._frontier.size} records make another"
            self._fault(what, None)
        self._check_levels(stored.size)
        if Counter(dict(self._store.rollup())) != self._counts:
            self._fault("the hourly counts are not those of the records", None)

    def _check_row(self, row: StoredRow) -> None:
        try:
            entry = open_sealed(row.envelope).entry
        except InputError:
            # What cannot be opened is named by the verification itself.
            return
        session = seq = None
        if isinstance(entry, Passport):
            session, seq = entry.session, entry.seq
            self._counts[rate_key(entry)] += 1
            self.attested += entry.attestation is not None
        if (row.kind, row.at, row.session, row.seq) != (entry_kind(entry), entry.at, session, seq):
            self._fault("its columns are not what its envelope says", row.place)

    def _check_levels(self, size: int) -> None:
        level = 0
        while size >> level > 1:
            pairs = _pairs(self._store.level(level))
            stored = self._store.level(level + 1)
            for (made_index, made), found in zip_longest(pairs, stored, fillvalue=(None, b"")):
                if found[0] != made_index or found[1] != made:
                    self._fault(f"the tree's nodes do not agree on level {level + 1}", None)
                    return
            level += 1

    def _fault(self, what: str, index: int | None) -> None:
        if len(self.faults) < _MOST:
            self.faults.append(StoreFault(what, index))


class _Leaves:
    """The stored leaf hashes, asked for in order."""

    def __init__(self, leaves: Iterator[tuple[int, bytes]]) -> None:
        self._leaves = leaves
        self._next = next(leaves, None)

    def at(self, place: int) -> bytes | None:
        """Return the hash at a place, None where there is none."""
        while self._next is not None and self._next[0] < place:
            self._next = next(self._leaves, None)
        return self._next[1] if self._next is not None and self._next[0] == place else None


def _pairs(nodes: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int | None, bytes]]:
    """Yield the parents of a level's nodes, of complete pairs alone."""
    left: bytes | None = None
    for index, digest in nodes:
        if index % 2 == 0:
            left = digest
        elif left is not None:
            yield index // 2, node_hash(left, digest)
            left = None
