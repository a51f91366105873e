"""Does a store agree with its own records? What it keeps for speed is counted anew from the envelopes and compared.

Laws: the envelopes are the truth, whatever the columns beside them say; a row that is missing, moved or relabelled is named by its
leaf index; nodes, frontier, rollup, retired keys and the sizes of checkpoints are all compared, none is believed, and what is in a
table beyond what the records make is a fault like what is missing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from demur.errors import InputError, ShapeError
from demur.model.passport import KeyRotation, Passport
from demur.record.checkpoint import read_checkpoint
from demur.record.seal import open_sealed
from demur.record.store.growth import RateKey, entry_kind, rate_key
from demur.record.tree import Frontier, grow, leaf_hash, node_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.record.store.growth import LogStore, StoredRow

__all__ = ["StoreCheck", "StoreFault"]

_MOST = 100
_FIRST = -(2**63)
"""The smallest place that a column can hold: a row before the log's first must not hide there."""


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
        self._retired: set[tuple[str, int]] = set()
        self.faults: list[StoreFault] = []
        self.attested = 0

    def envelopes(self) -> Iterator[bytes]:
        """Yield every envelope in the order of the log."""
        leaves = _Leaves(self._store.level(0))
        expected = 0
        for row in self._store.rows(_FIRST, None):
            if row.place < 0:
                self._fault(f"a row at place {row.place}, where no record can be", None)
                continue
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
        self._check_books(stored.size)
        self._check_counts()

    def _check_books(self, size: int) -> None:
        books = self._store.bookkeeping()
        made = sum(size >> level for level in range(size.bit_length()))
        if books.nodes != made:
            self._fault(f"the tree has {books.nodes} nodes, {size} records make {made}", None)
        if books.retired != self._retired:
            self._fault("the retired keys are not those of the rotations on record", None)
        for kept_as, note in books.checkpoints:
            try:
                said = read_checkpoint(note).checkpoint.size
            except ShapeError:
                # What cannot be read is named by the verification itself.
                continue
            if said != kept_as:
                self._fault(f"a checkpoint of {said} records is kept as one of {kept_as}", None)

    def _check_counts(self) -> None:
        found: Counter[RateKey] = Counter()
        for key, n in self._store.rollup():
            found[key] += n
        # As plain mappings: counters take a count of nought for none.
        if dict(found) != dict(self._counts):
            self._fault("the hourly counts are not those of the records", None)

    def _check_row(self, row: StoredRow) -> None:
        try:
            sealed = open_sealed(row.envelope)
        except InputError:
            # What cannot be opened is named by the verification itself.
            return
        entry, session, seq = sealed.entry, None, None
        if isinstance(entry, KeyRotation) and sealed.key_id is not None:
            self._retired.add((sealed.key_id, row.place))
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
