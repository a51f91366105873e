"""Does a store agree with its own entries? All that it keeps beside the envelopes is computed again from them and compared.

Columns, nodes, frontier, hourly counts, retired keys and the sizes of checkpoints: none is trusted, and what a table holds
beyond what the entries make is a fault like what is missing.
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
from demur.record.store.log_store import RateKey, entry_kind, rate_key
from demur.record.tree import Frontier, grow, leaf_hash, node_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.record.store.log_store import LogStore, StoredEntry

__all__ = ["StoreCheck", "StoreFault"]

_MAX_LISTED = 100
# The smallest index that a column can hold: an entry before the log's first must not go unseen.
_MIN_INDEX = -(2**63)


@dataclass(frozen=True, slots=True)
class StoreFault:
    """One thing in which a store and its entries disagree; `index` is None where it is about the whole."""

    what: str
    index: int | None = None


class StoreCheck:
    """Reads a store's entries once, passing each envelope on, and then lists what does not agree."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._frontier = Frontier()
        self._counts: Counter[RateKey] = Counter()
        self._retired: set[tuple[str, int]] = set()
        self.faults: list[StoreFault] = []
        self.attested = 0

    def envelopes(self) -> Iterator[bytes]:
        """Yield every envelope in the order of the log."""
        leaves = self._store.level(0)
        leaf_index, stored_leaf = next(leaves, (-1, b""))
        expected = 0
        for entry in self._store.entries(_MIN_INDEX, None):
            if entry.index < 0:
                self._fault(f"a row at place {entry.index}, where no record can be", None)
                continue
            if entry.index != expected:
                last = entry.index - 1
                more = "" if last == expected else f", and so are all up to {last}"
                self._fault(f"missing from the store{more}", expected)
            expected = entry.index + 1
            self._check_columns(entry)
            while 0 <= leaf_index < entry.index:
                leaf_index, stored_leaf = next(leaves, (-1, b""))
            leaf = leaf_hash(entry.envelope)
            if (leaf_index, stored_leaf) != (entry.index, leaf):
                self._fault("not the one that the tree was grown with", entry.index)
            self._frontier, _ = grow(self._frontier, [leaf])
            yield entry.envelope

    def close(self) -> None:
        """Compare what can only be compared at the end."""
        stored = self._store.frontier()
        size = stored.size
        if (size, stored.root()) != (self._frontier.size, self._frontier.root()):
            what = f"the store says {size} records and a root, its {self._frontier.size} records make another"
            self._fault(what, None)
        self._check_levels(size)
        books = self._store.bookkeeping()
        made = sum(size >> level for level in range(size.bit_length()))
        if books.nodes != made:
            self._fault(f"the tree has {books.nodes} nodes, {size} records make {made}", None)
        if books.retired != self._retired:
            self._fault("the retired keys are not those of the rotations on record", None)
        for kept_as, note in books.checkpoints:
            try:
                stated = read_checkpoint(note).checkpoint.size
            except ShapeError:
                # What cannot be read is reported by the verification itself.
                continue
            if stated != kept_as:
                self._fault(f"a checkpoint of {stated} records is kept as one of {kept_as}", None)
        counts: Counter[RateKey] = Counter()
        for key, n in self._store.rollup():
            counts[key] += n
        # As dicts, for two counters are equal where one has a zero that the other lacks.
        if dict(counts) != dict(self._counts):
            self._fault("the hourly counts are not those of the records", None)

    def _check_columns(self, stored: StoredEntry) -> None:
        try:
            sealed = open_sealed(stored.envelope)
        except InputError:
            # What cannot be opened is reported by the verification itself.
            return
        entry, session, seq = sealed.entry, None, None
        if isinstance(entry, KeyRotation) and sealed.key_id is not None:
            self._retired.add((sealed.key_id, stored.index))
        if isinstance(entry, Passport):
            session, seq = entry.session, entry.seq
            self._counts[rate_key(entry)] += 1
            self.attested += entry.attestation is not None
        if (stored.kind, stored.at, stored.session, stored.seq) != (entry_kind(entry), entry.at, session, seq):
            self._fault("its columns are not what its envelope says", stored.index)

    def _check_levels(self, size: int) -> None:
        level = 0
        while size >> level > 1:
            parents = _parents(self._store.level(level))
            stored = self._store.level(level + 1)
            for (made_index, made), found in zip_longest(parents, stored, fillvalue=(None, b"")):
                if found[0] != made_index or found[1] != made:
                    self._fault(f"the tree's nodes do not agree on level {level + 1}", None)
                    return
            level += 1

    def _fault(self, what: str, index: int | None) -> None:
        if len(self.faults) < _MAX_LISTED:
            self.faults.append(StoreFault(what, index))


def _parents(nodes: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int | None, bytes]]:
    """Yield the parents of a level's nodes; a last node without its sibling has none yet."""
    left: bytes | None = None
    for index, digest in nodes:
        if index % 2 == 0:
            left = digest
        elif left is not None:
            yield index // 2, node_hash(left, digest)
            left = None
