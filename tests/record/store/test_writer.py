"""The writer: who waits for what, what a failure costs, and how time, numbers and keys are given."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.patience import until
from tests.record.logs import MemoryTree, append
from tests.record.store.passport_logs import (
    ORIGIN,
    SYNC,
    decided,
    fill_disk,
    free_disk,
    opened_at,
    small_log,
    ticking,
    verified,
    writing,
)

from demur.errors import StoreError, UsageError
from demur.model.claim import Claim, ClaimType, Phase
from demur.model.passport import KeyRotation, Passport
from demur.policy.gate import PolicyGate
from demur.record.checkpoint import read_checkpoint
from demur.record.interface import SessionTail
from demur.record.seal import seal
from demur.record.store.anchor_files import AnchorFile, read_notes
from demur.record.store.key_files import KeyFolder
from demur.record.store.location import LogPlace
from demur.record.store.sealing import issue_time
from demur.record.store.sqlite import SqliteLog
from demur.record.store.writer import Durability, LogWriter, WriterCache, WriterSettings
from demur.record.tree import Frontier, leaf_hash

TAIL = SessionTail(3, "ab" * 32, "2026-01-31T12:00:00Z")
ASYNC = WriterSettings(Durability.ASYNC, interval_s=0.0, max_unsynced=8)


def telling(gate: PolicyGate) -> Passport:
    """A passport that cannot be sealed: a claim still quotes the user."""
    secret = Claim("quote", ClaimType.CATEGORY, "text of a user", Phase.REQUEST, "safety", sensitive=True)
    return structs.replace(decided(gate), phases=(structs.replace(decided(gate).phases[0], claims=(secret,)),))


def rotate_key(place: LogPlace, clock: Callable[[], str]) -> None:
    """Rotate the log's key as another process would."""
    keys = place.keys()
    old, at = keys.signer(clock()), clock()
    new = replace(keys.prepare_next(at).public, not_before=at)
    other = place.open(read_only=False)
    append(other, [seal(KeyRotation(at, new), old)])
    keys.promote_next(at)
    other.close()


def test_nobody_waits_in_async_mode_until_the_bound_is_reached(tmp_path: Path, gate: PolicyGate) -> None:
    """With the store held, the first `max_unsynced` records are acknowledged at once, every further one must wait."""
    place = small_log(tmp_path, 1)
    other = sqlite3.connect(place.store, isolation_level=None)
    with writing(place, settings=ASYNC) as writer, closing(other):
        other.execute("BEGIN IMMEDIATE")
        waits = [writer.submit(decided(gate, f"s{number}")).must_wait for number in range(10)]
    assert waits == [False] * 8 + [True] * 2


def test_a_denial_waits_in_either_mode(place: LogPlace, gate: PolicyGate) -> None:
    """A durable submission must wait in `async` mode too, and is in the store once it was waited for."""
    with writing(place, settings=ASYNC) as writer:
        denial = writer.submit(decided(gate, score=0.9), durable=True)
        assert denial.must_wait
        receipt = denial.receipt.result(timeout=30)
        assert opened_at(place, receipt.index).leaf.hex() == receipt.leaf


def test_an_answer_is_acknowledged_on_the_event_loop(place: LogPlace, gate: PolicyGate) -> None:
    """`acknowledged` returns on an event loop when the record is durable, and raises where it cannot be sealed."""

    async def talk() -> None:
        with writing(place) as writer:
            await writer.submit(decided(gate)).acknowledged()
            with pytest.raises(UsageError, match="still has its value"):
                await writer.submit(telling(gate)).acknowledged()
            await writer.submit(decided(gate)).acknowledged()

    asyncio.run(talk())


def test_numbers_links_and_times_are_given_by_the_writer(place: LogPlace, gate: PolicyGate) -> None:
    """Records of one session count up and name the leaf before, whatever the submitted passport said."""
    with writing(place) as writer:
        pending = [writer.submit(structs.replace(decided(gate), seq=7, previous="x")) for _ in range(3)]
        receipts = [each.receipt.result(timeout=30) for each in pending]
    found = [entry for n in range(3) if isinstance(entry := opened_at(place, n).entry, Passport)]
    leaves = [None, *(receipt.leaf for receipt in receipts[:2])]
    assert [(entry.seq, entry.previous) for entry in found] == list(zip((0, 1, 2), leaves, strict=True))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-01-01T00:00:05.000000Z", "2026-01-01T00:00:05.000000Z"),
        ("2026-01-01T00:00:03.500000Z", "2026-01-01T00:00:04Z"),
        ("2026-01-01T00:00:01.000000Z", "2026-01-01T00:00:01.000000Z"),
    ],
    ids=["later", "a little behind", "set back"],
)
def test_a_little_skew_is_evened_out_and_a_step_back_is_kept(now: str, expected: str) -> None:
    """Within two seconds a session's record takes the time of the one before; a larger step back stays visible."""
    assert issue_time(now, SessionTail(0, "", "2026-01-01T00:00:04Z")) == expected
    assert issue_time(now, None) == now


def test_records_already_acknowledged_survive_a_store_that_fails(tmp_path: Path, gate: PolicyGate) -> None:
    """What was acknowledged in `async` mode is kept while the store is full, and written once it is not."""
    place = small_log(tmp_path, 1)
    with writing(place, settings=ASYNC) as writer:
        fill_disk(writer._store.db)
        pending = [writer.submit(decided(gate, f"{n}" * 9000)) for n in range(8)]
        told = writer.submit(decided(gate, "x" * 9000), durable=True).receipt.exception(timeout=30)
        assert isinstance(told, StoreError)
        assert writer.submit(decided(gate, "y")).must_wait
        free_disk(writer._store.db)
        acknowledged = [each for each in pending if not each.must_wait]
        indices = [each.receipt.result(timeout=30).index for each in acknowledged]
    assert acknowledged
    assert indices == sorted(indices)


def test_a_denial_is_owed_its_record(tmp_path: Path, gate: PolicyGate) -> None:
    """A denial whose record cannot be kept is told so, and its record is written once the store takes records again."""
    place = small_log(tmp_path, 1)
    counted: list[tuple[int, int]] = []
    store = place.open(read_only=False)
    settings = WriterSettings(Durability.SYNC, interval_s=0.0, max_unsynced=1)
    writer = LogWriter(store, None, settings=settings, on_batch=lambda *count: counted.append(count))
    writer.start("c" * 64, "d" * 64)
    size = store.frontier().size
    fill_disk(store.db)
    for durable in (True, False, True):
        told = writer.submit(decided(gate, "x" * 90_000), durable=durable).receipt.exception(timeout=30)
        assert isinstance(told, StoreError)
    free_disk(store.db)
    writer.submit(decided(gate, "y")).receipt.result(timeout=30)
    writer.close()
    # The first denial is kept, as many as may be at stake; what else was told to fail is lost, and counted as that.
    assert store.frontier().size == size + 2
    assert [sum(column) for column in zip(*counted, strict=True)] == [2, 2]
    store.close()


def test_a_log_that_could_not_be_signed_is_signed_as_soon_as_it_can(place: LogPlace, gate: PolicyGate) -> None:
    """A checkpoint that failed is tried again without waiting for another record, and then the writer is well again."""
    assert place.anchors is not None
    settings = WriterSettings(interval_s=0.0, checkpoint_records=1)
    with writing(place, settings=settings) as writer:
        place.anchors.mkdir()
        writer.submit(decided(gate)).receipt.result(timeout=30)
        until(lambda: writer.failure is not None)
        place.anchors.rmdir()
        until(lambda: writer.failure is None)
    assert len(read_notes(place.anchors)) == 1


def test_a_writer_takes_the_key_that_replaced_its_own(tmp_path: Path, place: LogPlace, gate: PolicyGate) -> None:
    """After a rotation on record by another process, the next record is signed by the new key, finished or not."""
    clock = ticking(0.001)
    with writing(place, clock=clock) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        keys = KeyFolder(tmp_path)
        old, new = keys.signer(clock()), keys.prepare_next(clock())
        other = place.open(read_only=False)
        append(other, [seal(KeyRotation(clock(), new.public), old)])
        other.close()
        index = writer.submit(decided(gate)).receipt.result(timeout=30).index
    assert opened_at(place, index).key_id == new.public.key_id
    assert [key.not_after is None for key in keys.public()] == [False, True]


@pytest.mark.parametrize("started", [True, False])
def test_a_writer_that_was_idle_over_a_rotation_signs_with_the_new_key(
    place: LogPlace, gate: PolicyGate, *, started: bool
) -> None:
    """Whether it started before the rotation or only read its key before, every checkpoint it leaves is of a key in force."""
    clock = ticking()
    assert place.anchors is not None
    with writing(place, clock=clock) as busy:
        busy.submit(decided(gate, "a")).receipt.result(timeout=30)
        store = place.open(origin=ORIGIN, read_only=False)
        idle = LogWriter(store, place.keys(), settings=SYNC, anchor=AnchorFile(place.anchors), clock=clock)
        if started:
            idle.start("c" * 64, "d" * 64)
        rotate_key(place, clock)
        busy.submit(decided(gate, "a")).receipt.result(timeout=30)
        if not started:
            idle.start("c" * 64, "d" * 64)
        idle.close()
        store.close()
        busy.submit(decided(gate, "a")).receipt.result(timeout=30)
    assert verified(place, with_anchors=True).faults == ()


def test_a_writer_whose_key_is_gone_refuses(tmp_path: Path, place: LogPlace, gate: PolicyGate) -> None:
    """Where the key was retired and no other is to be had, records are refused with the reason."""
    with writing(place) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        other = place.open(read_only=False)
        elsewhere = KeyFolder(tmp_path / "elsewhere").signer("2026-01-01T00:00:00Z")
        append(other, [seal(KeyRotation("2026-01-31T12:10:00Z", elsewhere.public), place.keys().signer(""))])
        other.close()
        told = writer.submit(decided(gate)).receipt.exception(timeout=30)
    assert "was retired by a rotation" in str(told)


def test_the_log_is_signed_every_so_many_records_and_at_the_end(place: LogPlace, gate: PolicyGate) -> None:
    """Checkpoints come every `checkpoint_records`, and one at closing covers the rest; all are in the file too."""
    with writing(place, settings=replace(SYNC, checkpoint_records=2)) as writer:
        for _ in range(5):
            writer.submit(decided(gate)).receipt.result(timeout=30)
    with closing(place.open(read_only=True)) as store:
        sizes = [read_checkpoint(note).checkpoint.size for note in store.checkpoints()]
    assert sizes == [2, 4, 5]
    assert place.anchors is not None
    assert [read_checkpoint(note).checkpoint.size for note in read_notes(place.anchors)] == sizes


def test_an_idle_log_is_signed_when_its_time_has_come(place: LogPlace, gate: PolicyGate) -> None:
    """Records that no others follow are covered by a checkpoint after `checkpoint_s`."""
    with writing(place, settings=replace(SYNC, checkpoint_s=0.01)) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        with closing(place.open(read_only=True)) as store:
            until(lambda: list(store.checkpoints()))


def test_a_log_that_was_cut_is_not_written_to(tmp_path: Path) -> None:
    """A writer whose log does not fit the last anchored checkpoint refuses to start."""
    place = small_log(tmp_path / "a")
    other = small_log(tmp_path / "b", 3)
    assert place.anchors is not None
    assert other.anchors is not None
    other.anchors.write_bytes(place.anchors.read_bytes())
    with pytest.raises(StoreError, match="does not fit the checkpoint"), writing(other):
        pass


def test_a_closed_writer_takes_nothing(place: LogPlace, gate: PolicyGate) -> None:
    """Submitting to a closed writer is an error."""
    with writing(place) as writer:
        pass
    with pytest.raises(StoreError, match="closed"):
        writer.submit(decided(gate))


def test_an_anchor_file_holds_what_it_was_given(tmp_path: Path) -> None:
    """A file of several checkpoints is read back note by note, and one that is none is refused."""
    place = small_log(tmp_path)
    with writing(place):
        pass
    assert place.anchors is not None
    notes = read_notes(place.anchors)
    assert len(notes) == 2
    assert b"".join(notes) == place.anchors.read_bytes()
    assert AnchorFile(tmp_path / "none.txt")._last is None


class LosesTheAnswer(SqliteLog):
    """A store whose first batch is committed while the news of it is lost, as over a connection that breaks."""

    lost = 0

    @contextmanager
    def exclusive(self) -> Iterator[Any]:
        """Hold the log; the first to append is told that it failed."""
        size = self.frontier().size
        with super().exclusive() as held:
            yield held
        if self.frontier().size > size and not self.lost:
            self.lost += 1
            raise StoreError("the answer was lost")


def test_a_record_is_not_written_twice_where_only_the_answer_was_lost(tmp_path: Path, gate: PolicyGate) -> None:
    """An acknowledged record whose commit seemed to fail is found again, not appended again."""
    store = LosesTheAnswer(tmp_path / "log.db", origin="gateway.example/log")
    writer = LogWriter(store, None, settings=ASYNC)
    writer.start("c" * 64, "d" * 64)
    receipt = writer.submit(decided(gate)).receipt.result(timeout=30)
    writer.close()
    assert (store.lost, receipt.index, store.frontier().size) == (1, 0, 1)
    store.close()


def test_records_that_had_to_be_given_up_are_counted_at_closing(tmp_path: Path, gate: PolicyGate) -> None:
    """Where the store is full to the end, closing says how many acknowledged records were lost, and their futures fail."""
    place = small_log(tmp_path, 1)
    with pytest.raises(StoreError, match="a record could not be written"), writing(place, settings=ASYNC) as writer:  # noqa: PT012 — closing is what raises
        fill_disk(writer._store.db)
        pending = writer.submit(decided(gate, "x" * 90_000))
    assert isinstance(pending.receipt.exception(timeout=30), StoreError)


def test_a_checkpoint_that_cannot_be_anchored_is_told_at_closing(place: LogPlace, gate: PolicyGate) -> None:
    """Records are written where their checkpoint cannot be kept in the file, and the writer says so."""
    assert place.anchors is not None
    with pytest.raises(StoreError, match="cannot be kept"), writing(place) as writer:  # noqa: PT012 — closing is what raises
        place.anchors.mkdir()
        writer.submit(decided(gate)).receipt.result(timeout=30)
    with closing(place.open(read_only=True)) as store:
        assert store.frontier().size == 1


def test_a_session_that_others_continue_goes_on_after_their_records(place: LogPlace, gate: PolicyGate) -> None:
    """Two writers take turns in one session and one of their own: what each remembers is dropped once the other has written."""
    clock = ticking(0.001)
    with writing(place, clock=clock) as one, writing(place, clock=clock) as two:
        for turn in (one, one, two, one, two, two, two, one, one, one):
            pending = [turn.submit(decided(gate, name)) for name in ("shared", f"own-{turn is one}", "shared")]
            for each in pending:
                each.receipt.result(timeout=30)
    found = verified(place)
    with closing(place.open(read_only=True)) as reader:
        tail = reader.session_tail("shared")
    assert (found.records, found.faults) == (30, ())
    assert tail is not None
    assert tail.seq == 19


def test_a_rotation_in_a_batch_retires_the_key_that_signed_it(place: LogPlace, gate: PolicyGate) -> None:
    """Whoever puts its own rotation on record signs all that follows with the new key."""
    clock = ticking(0.001)
    with writing(place, clock=clock) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        at = clock()
        new = replace(place.keys().prepare_next(at).public, not_before=at)
        writer.submit(KeyRotation(at, new)).receipt.result(timeout=30)
        index = writer.submit(decided(gate)).receipt.result(timeout=30).index
    assert (opened_at(place, index).key_id, verified(place).faults) == (new.key_id, ())


def test_a_receipt_can_be_asked_for_at_any_time(place: LogPlace, gate: PolicyGate) -> None:
    """Asked before or after the record was settled, once or twice, a receipt says the same; what failed says why."""
    with writing(place) as writer:
        early, failed = writer.submit(decided(gate)), writer.submit(telling(gate))
        assert early.receipt is early.receipt
        late = writer.submit(decided(gate))
        writer.submit(decided(gate)).receipt.result(timeout=30)
        assert late.settled
        assert failed.settled
    assert [each.receipt.result(timeout=30).seq for each in (early, late)] == [0, 1]
    assert isinstance(failed.receipt.exception(timeout=30), UsageError)


def test_a_record_that_is_settled_already_is_acknowledged_at_once(place: LogPlace, gate: PolicyGate) -> None:
    """Whoever waits only after the record was written does not wait for the next one."""

    async def talk() -> None:
        with writing(place) as writer:
            first = writer.submit(decided(gate))
            writer.submit(decided(gate)).receipt.result(timeout=30)
            async with asyncio.timeout(30):
                await first.acknowledged()

    asyncio.run(talk())


def frontier_of(size: int) -> Frontier:
    """The state of a tree of so many leaves."""
    return MemoryTree(leaf_hash(bytes([number])) for number in range(size)).frontier


def test_what_was_left_counts_while_the_log_stands_there() -> None:
    """Tails and keys are known at the very state that was left, and at no other of the same or another size."""
    cache = WriterCache()
    cache.update({"a": TAIL, "b": None}, ["key"], before=Frontier(), after=frontier_of(2))
    assert dict(cache.tails(frontier_of(2))) == {"a": TAIL, "b": None}
    assert list(cache.keys(frontier_of(2))) == ["key"]
    for other in (frontier_of(3), Frontier(2, (b"x" * 32,)), Frontier()):
        assert dict(cache.tails(other)) == {}
        assert list(cache.keys(other)) == []


def test_a_record_of_another_makes_all_forgotten() -> None:
    """Where a batch met the log in another state than it was left in, only that batch's own tails are known after it."""
    cache = WriterCache()
    cache.update({"a": TAIL}, ["key"], before=Frontier(), after=frontier_of(2))
    assert cache.expected() == frontier_of(2)
    cache.update({"b": TAIL}, ["key"], before=frontier_of(3), after=frontier_of(4))
    assert dict(cache.tails(frontier_of(4))) == {"b": TAIL}
    assert cache.expected() is None
    cache.update({"c": TAIL}, ["key"], before=frontier_of(4), after=frontier_of(5))
    assert dict(cache.tails(frontier_of(5))) == {"b": TAIL, "c": TAIL}
    assert cache.expected() == frontier_of(5)


def test_no_more_is_remembered_than_the_bound() -> None:
    """What would be too much is forgotten, never the newest in favour of the older."""
    cache = WriterCache(most=2)
    cache.update({"a": TAIL, "b": TAIL}, [], before=Frontier(), after=frontier_of(1))
    cache.update({"c": TAIL}, [], before=frontier_of(1), after=frontier_of(2))
    assert dict(cache.tails(frontier_of(2))) == {"c": TAIL}
    cache.update(dict.fromkeys("defg", TAIL), [], before=frontier_of(2), after=frontier_of(3))
    assert dict(cache.tails(frontier_of(3))) == {}
