"""What must a store of records do, whoever writes it? The ports of the record stage.

Laws of a store: leaves are appended in order and never changed; a batch is appended whole or not at all, and once `append`
has returned it survives a crash; frontier, nodes and sessions' tails always speak of the same size. Disclosures live
elsewhere and can be deleted one by one; deleting one leaves every record, proof and root as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.record.commit import Disclosure
    from demur.record.tree import Frontier

__all__ = ["DisclosureStore", "RecordStore", "SessionTail"]


@dataclass(frozen=True, slots=True)
class SessionTail:
    """The last passport of a session: the next one has `seq + 1` and names this leaf as `previous`."""

    seq: int
    leaf: str
    """The leaf hash, in hex."""
    at: str


class RecordStore(Protocol):
    """Keeps sealed envelopes in order, with what growing and proving need."""

    def append(self, envelopes: Sequence[bytes]) -> range:
        """Append a batch of sealed envelopes in order, durably; return their leaf indices.

        `tree.grow` gives the new frontier and the nodes to keep; refuse a batch (`UsageError`) whose passports do not
        follow their sessions' tails, so that two writers cannot both continue one session.
        """

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the envelopes from leaf `start` up to, not including, leaf `stop`, byte for byte as they were given."""

    def frontier(self) -> Frontier:
        """Return the state of the tree: `size` is the number of leaves."""

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a perfect subtree; a `tree.NodeReader`, what proofs are made from."""

    def session_tail(self, session: str) -> SessionTail | None:
        """Return the last passport of a session; None where it has none."""

    def add_checkpoint(self, size: int, note: bytes) -> None:
        """Keep a signed checkpoint; a later one of the same size that carries more signatures replaces the earlier."""

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the checkpoints of at least this size, smallest first."""


class DisclosureStore(Protocol):
    """Keeps what is behind commitments, apart from the log, under the commitment's digest."""

    def put(self, disclosures: Sequence[Disclosure]) -> None:
        """Keep these."""

    def get(self, digest: str) -> Disclosure | None:
        """Return what is behind a digest; None where it was erased or never kept: a `commit.Disclose`."""

    def erase(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Delete beyond recovery; return the digests that were there, for the `Erasure` to put on record."""

    def close(self) -> None:
        """Let go of it; what was kept stays."""
