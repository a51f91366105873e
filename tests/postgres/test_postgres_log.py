"""The shared store, on a real server: one log for many gateways, and every fault seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.passport.test_command import asked, run
from tests.postgres.conftest import Server
from tests.record.logs import append, busy_log
from tests.record.store.passport_logs import ORIGIN, committed, decided, gate_in, opened_at, small_log, ticking, writing
from tests.record.store.store_laws import (
    LAWS,
    NAMES,
    check_erases_texts,
    check_finds_tails,
    check_many_writers,
    killed_after,
    sound,
    writer_process,
)

from demur.dashboard.reader import SqlQueries
from demur.errors import StoreError, UsageError
from demur.model.passport import Restart
from demur.record.seal import open_sealed
from demur.record.store.location import PostgresDisclosures, log_place
from demur.record.store.log_store import LogStore
from demur.record.store.postgres import PostgresConnection, PostgresLog

pytestmark = pytest.mark.heavy

OTHERS_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
Capture = pytest.CaptureFixture[str]


def execute(address: str, *statements: str) -> None:
    link = PostgresConnection(address)
    for statement in statements:
        link.ask(statement)
    link.close()


@pytest.mark.parametrize("law", LAWS)
def test_the_laws_of_every_store_hold(database: str, law: Callable[[LogStore], None]) -> None:
    """The shared store keeps what every store of a log keeps."""
    with closing(PostgresLog(database, origin=ORIGIN)) as store:
        law(store)


def test_sessions_of_any_name_are_asked_for_at_once(database: str) -> None:
    """Whatever their names, the tails asked for together are those asked for one by one."""
    with closing(PostgresLog(database, origin=ORIGIN)) as store:
        check_finds_tails(store, NAMES)


def test_a_log_keeps_its_name_and_version(database: str) -> None:
    """A database without a log, one of another name and one of a later version are refused with the reason."""
    with pytest.raises(StoreError, match="holds no log"):
        PostgresLog(database, read_only=True)
    PostgresLog(database, origin=ORIGIN).close()
    PostgresLog(database, origin=ORIGIN).close()
    with pytest.raises(UsageError, match="is called"):
        PostgresLog(database, origin="other.example/log")
    execute(database, "UPDATE demur.schema_version SET version = 99")
    with pytest.raises(StoreError, match="later Demur"):
        PostgresLog(database, origin=ORIGIN)


def test_many_open_an_empty_database_at_once(database: str) -> None:
    """Of several that open a new log at once, one makes the tables and all find them."""
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: PostgresLog(database, origin=ORIGIN), range(6)))
    assert {store.frontier().size for store in stores} == {0}
    for store in stores:
        store.close()


def test_many_gateways_write_one_log(database: str, tmp_path: Path) -> None:
    """Three processes with a key each, a session shared among them, make one sound log with every record of each."""
    check_many_writers([log_place(database, str(tmp_path / name)) for name in "xyz"])


def test_a_gateway_killed_in_the_middle_loses_nothing_acknowledged(database: str, tmp_path: Path) -> None:
    """After a kill the log is sound, holds all that was acknowledged, and the next start says that it was a crash."""
    place = log_place(database, str(tmp_path))
    with writer_process(place, "x", 100_000) as process:
        acknowledged = killed_after(process, 40)
    # The server lets go of a dead client's locks once it notices: waiting for one that excludes all others is noticing.
    execute(database, f"SELECT pg_advisory_lock({0x64656D7572_02})")
    assert sound(place) >= acknowledged
    with writing(place, clock=ticking(start="2099-01-01T00:00:00.000000Z")):
        pass
    last = opened_at(place, -1).entry
    assert isinstance(last, Restart)
    assert not last.clean


def test_a_writer_survives_a_lost_connection(database: str, tmp_path: Path) -> None:
    """A connection that the server ends is told to who waits, and the next record is written over a new one."""
    place = log_place(database, str(tmp_path))
    gate = gate_in(tmp_path / "policy")
    with writing(place) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        execute(database, f"{OTHERS_END} AND query NOT LIKE '%disclosures%'")
        assert isinstance(writer.submit(decided(gate)).receipt.exception(timeout=30), StoreError)
        writer.submit(decided(gate)).receipt.result(timeout=30)
    assert sound(place) == 2


def test_writers_go_on_after_the_server_was_ended_and_started(mortal: Server, tmp_path: Path) -> None:
    """A server that dies takes the record under way with it, which is said; once it is back, log and texts are written on."""
    address = mortal.url.replace("DATABASE", "postgres")
    place = log_place(address, str(tmp_path))
    gate = gate_in(tmp_path / "policy")
    texts = PostgresDisclosures(address, clock=ticking())
    question = SqlQueries(place)
    with writing(place) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        assert question.size == 1
        mortal.stop()
        for _ in range(2):
            assert isinstance(writer.submit(decided(gate)).receipt.exception(timeout=30), StoreError)
            with pytest.raises(StoreError):
                texts.put([committed("one", 1)])
            with pytest.raises(StoreError):
                assert question.size
        mortal.start()
        writer.submit(decided(gate)).receipt.result(timeout=30)
        texts.put([committed("one", 1)])
        assert question.size == 2
        # The lock that says that a writer is here was taken again.
        other = PostgresConnection(address)
        assert other.one(f"SELECT pg_try_advisory_lock({0x64656D7572_02})") == (False,)
        other.close()
    texts.close()
    question.close()
    assert sound(place) == 2


def test_a_transaction_that_loses_its_server_writes_nothing(database: str) -> None:
    """A connection that ends between two appends of one transaction leaves neither, and the next transaction starts anew."""
    made = busy_log(4)
    store = PostgresLog(database, origin=ORIGIN)
    with pytest.raises(StoreError, match="lost"), store.exclusive() as held:  # noqa: PT012 — both are of the law
        held.append([open_sealed(made.envelopes[0])])
        execute(database, OTHERS_END)
        held.append([open_sealed(made.envelopes[1])])
    assert store.frontier().size == 0
    assert append(store, made.envelopes) == range(4)
    store.close()


def test_a_log_that_is_only_read_cannot_be_written(database: str) -> None:
    """What was opened for reading is refused by the server itself where it writes."""
    PostgresLog(database, origin=ORIGIN).close()
    store = PostgresLog(database, read_only=True)
    with pytest.raises(StoreError, match="read-only"):
        append(store, busy_log(1).envelopes)
    store.close()


@pytest.fixture
def shared(database: str, tmp_path: Path) -> tuple[str, Path]:
    """A log of six exchanges of two sessions, its address and the folder of its keys."""
    small_log(tmp_path, database=database)
    return database, tmp_path


_MOVED = "UPDATE demur.records SET idx = {} WHERE idx = {}"
_STRAY = "INSERT INTO demur.records SELECT {}, payload, rest, kind, at, 'ghost', 0 FROM demur.records WHERE idx = 2"


@pytest.mark.parametrize(
    ("statements", "first_bad"),
    [
        ((), None),
        (("UPDATE demur.records SET payload = set_byte(payload, 100, 65) WHERE idx = 3",), 3),
        (("DELETE FROM demur.records WHERE idx = 2",), 2),
        ([_MOVED.format(to, at) for at, to in ((1, 99), (3, 1), (99, 3))], 1),
        (("DELETE FROM demur.records WHERE idx >= 4",), None),
        (("UPDATE demur.rollup SET n = n + 1",), None),
        ((_STRAY.format(-1),), None),
        ((_STRAY.format(2**63 - 1),), 6),
        (("INSERT INTO demur.nodes VALUES (0, 6, '')",), None),
        (("INSERT INTO demur.nodes VALUES (0, -1, '')",), None),
        (("INSERT INTO demur.retired_keys VALUES ('abc', 3)",), None),
        (("UPDATE demur.checkpoints SET size = 3",), None),
    ],
    ids=[
        *("sound", "changed byte", "deleted", "swapped", "truncated", "counts"),
        *("row before the first", "row at the end", "node", "node before the first", "retired key", "size"),
    ],
)
def test_faults_are_seen_through_the_command(
    capsys: Capture, shared: tuple[str, Path], statements: Sequence[str], first_bad: int | None
) -> None:
    """`demur passport verify` passes a sound log in a database and fails a changed one, naming the record."""
    address, folder = shared
    execute(address, *statements)
    code, found = asked(capsys, "verify", address, "--folder", folder, "--policy", folder / "policy")
    assert (code, found["ok"], found["first_bad"]) == (int(bool(statements)), not statements, first_bad)


def test_commands_work_on_a_database(capsys: Capture, shared: tuple[str, Path], tmp_path: Path) -> None:
    """Showing, proving, exporting, counting and rotating work on a database as on a file."""
    address, folder = shared
    there = (address, "--folder", folder)
    assert "hot (deny)" in run(capsys, "show", address, 2)[1]
    assert run(capsys, "prove", address, 2, "--folder", folder, "--out", tmp_path / "b.json")[0] == 0
    assert run(capsys, "verify", tmp_path / "b.json", "--keys", folder / "keys.json")[0] == 0
    assert run(capsys, "export", address, "--out", tmp_path / "e.jsonl")[0] == 0
    assert run(capsys, "verify", tmp_path / "e.jsonl", "--keys", folder / "keys.json")[0] == 0
    code, found = asked(capsys, "rates", address)
    assert (code, found["gateway_denied"]["count"], found["gateway_denied"]["n"]) == (0, 2, 6)
    assert run(capsys, "rotate", *there)[0] == 0
    assert run(capsys, "verify", *there)[0] == 0
    assert "needs a folder" in run(capsys, "rotate", address)[1]


def test_texts_are_kept_apart_and_erased(database: str) -> None:
    """The shared store keeps and erases texts as every store does."""
    with closing(PostgresDisclosures(database, clock=ticking())) as texts:
        check_erases_texts(texts)
