"""Laws that every store of a log keeps, and processes that write to one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from tests.record.logs import Log, append, busy_log
from tests.record.store.passport_logs import ORIGIN, committed

from demur.errors import UsageError
from demur.record.store.checks import StoreCheck
from demur.record.store.location import Disclosures, LogPlace
from demur.record.store.log_store import LogStore
from demur.record.tree import inclusion_proof, is_included, leaf_hash
from demur.record.verify import Evidence, Trust, verify

ROOT = Path(__file__).parents[3]
Child = subprocess.Popen[str]
NAMES = ["", "'; --", '"', "a", "a,b", "{a,b}", "NULL", "\\", "é", "\U0001f600", "A"]
WRITER = """
import sys
from pathlib import Path
from demur.record.store.location import log_place
from demur.record.store.sealing import utc_now
from demur.record.store.writer import Durability, WriterSettings
from tests.record.store.passport_logs import decided, gate_in, writing

address, folder, name, count, mode, unsynced = sys.argv[1:]
settings = WriterSettings(Durability(mode), interval_s=0.002, max_unsynced=int(unsynced), checkpoint_records=25)
gate = gate_in(Path(folder) / f"policy-{name}")
with writing(log_place(address, folder), settings=settings, clock=utc_now) as writer:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        session = f"{name}-{number % 3}" if number % 4 else "shared"
        submission = writer.submit(decided(gate, session))
        if submission.must_wait:
            submission.receipt.result()
        print(number, flush=True)
"""


@contextmanager
def writer_process(
    place: LogPlace, name: str, count: int, *, mode: str = "sync", unsynced: int = 1000
) -> Iterator[Child]:
    """A process that writes to the log once it is told to, and prints each entry that it acknowledges."""
    address = place.store if place.is_database else str(place.folder)
    with subprocess.Popen(  # noqa: S603 — our own interpreter
        [sys.executable, "-c", WRITER, address, str(place.folder), name, str(count), mode, str(unsynced)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(process: Child) -> None:
    """Let a process begin, once it is ready."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()


def killed_after(process: Child, entries: int) -> int:
    """Let a process write so many entries, kill it while it goes on, and return how many it acknowledged."""
    begin(process)
    assert process.stdout is not None
    for _ in range(entries):
        process.stdout.readline()
    process.kill()
    # The last line may be cut; what is whole was acknowledged.
    return entries + process.stdout.read().count("\n")


def check_many_writers(places: Sequence[LogPlace]) -> None:
    """Three processes, a session shared among them, make one sound log with every entry of each."""
    with ExitStack() as stack:
        named = zip(places, "xyz", strict=True)
        processes = [stack.enter_context(writer_process(place, name, 40)) for place, name in named]
        for process in processes:
            begin(process)
        for process in processes:
            assert process.stdout is not None
            assert len(process.stdout.read().splitlines()) == 40
            assert process.wait() == 0
    size = sound(*places)
    with closing(places[0].open(read_only=True)) as store:
        kinds = [entry.kind for entry in store.entries(0, size)]
        shared = store.session_tail("shared")
    # One that was slow to start may have found the log without a writer, and said so.
    assert (kinds.count("passport"), set(kinds) <= {"passport", "restart"}) == (120, True)
    assert shared is not None
    assert shared.seq == 29


def sound(*places: LogPlace) -> int:
    """Return the size of a log, having verified all of it with the keys of all its writers."""
    keys = tuple({key.key_id: key for place in places for key in place.keys().public()}.values())
    with closing(places[0].open(read_only=True)) as store, store.snapshot():
        check = StoreCheck(store)
        found = verify(check.envelopes(), Trust(ORIGIN, keys), Evidence(tuple(store.checkpoints())))
        check.close()
    assert (found.faults, check.faults) == ((), [])
    return found.records


def check_keeps_entries(store: LogStore) -> None:
    """What is appended is read back byte for byte, with the frontier, nodes, tails and proofs of the same tree."""
    made = busy_log(11)
    assert append(store, made.envelopes[:4]) == range(4)
    assert append(store, made.envelopes[4:]) == range(4, 11)
    assert list(store.read(2, 7)) == made.envelopes[2:7]
    assert store.frontier() == made.tree.frontier
    tail = store.session_tail("a")
    assert tail is not None
    assert (tail.seq, tail.leaf) == made.tails["a"]
    assert store.session_tail("nobody") is None
    entry = store.session_entry("a", 1)
    assert entry is not None
    assert entry.index == 2
    root, leaf = made.tree.frontier.root(), leaf_hash(made.envelopes[5])
    assert is_included(leaf, 5, size=11, root=root, proof=inclusion_proof(5, 11, store.node))


def check_finds_tails(store: LogStore, names: Sequence[str]) -> None:
    """Whatever their number and their names, the tails asked for together are those asked for one by one."""
    made = Log()
    for name in (*names, *names[::3]):
        made.exchange(name)
    append(store, made.envelopes)
    asked = [*names, "nobody"]
    found = store.session_tails(asked)
    assert list(found) == asked
    assert found == {name: store.session_tail(name) for name in asked}
    assert {name: (tail.seq, tail.leaf) for name, tail in found.items() if tail is not None} == made.tails
    assert store.session_tails([]) == {}


def check_keeps_most_signed_checkpoint(store: LogStore) -> None:
    """Of two checkpoints of one size the one that carries more signatures is kept."""
    note = busy_log(2).checkpoint()
    more = note + note.splitlines(keepends=True)[-1]
    for given in (note, more, note):
        store.add_checkpoint(2, given)
    assert list(store.checkpoints()) == [more]
    assert list(store.checkpoints(3)) == []


def check_rejects_whole_batch(store: LogStore) -> None:
    """A batch whose last passport continues no tail leaves the store as it was."""
    made = busy_log(4)
    with pytest.raises(UsageError, match="does not follow"):
        append(store, [*made.envelopes[:2], made.envelopes[0]])
    assert store.frontier().size == 0
    assert list(store.entries(0, 9)) == []


def check_erases_texts(texts: Disclosures) -> None:
    """A text is found by its digest until it is erased; what is older than a time can be found."""
    first, second = committed("one", 1), committed("two", 2)
    texts.put([first])
    texts.put([second, first])
    assert texts.get(first.digest) == first
    assert texts.kept_before("2026-01-31T12:00:02.000000Z") == (first.digest,)
    assert texts.erase([first.digest, first.digest, "unknown"]) == (first.digest,)
    assert (texts.get(first.digest), texts.get(second.digest)) == (None, second)


LAWS = [check_keeps_entries, check_keeps_most_signed_checkpoint, check_rejects_whole_batch]
