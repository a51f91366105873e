"""One connection to a real server: values, transactions, threads, encryption, and every fault in one line without the password."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.http.loopback_upstream import certificate
from tests.patience import until
from tests.postgres.conftest import ENCODED, PASSWORD

from demur.errors import DemurError, StoreError, UsageError
from demur.record.store.postgres import PostgresConnection

pytestmark = pytest.mark.heavy

Guarded = tuple[str, "Path"]
TEXTS = ["", "null", "NULL", "a,b", "{\"a\": 'b'}", "\\x00\\", "tab\tline\n", "é ü 漢 🙂", "$1 ? %s :name"]
TABLE = "CREATE TABLE kept (number BIGINT, level INTEGER, word TEXT, data BYTEA, yes BOOLEAN)"


@contextmanager
def linked(url: str, *, read_only: bool = False) -> Iterator[PostgresConnection]:
    link = PostgresConnection(url, read_only=read_only)
    try:
        yield link
    finally:
        link.close()


@contextmanager
def answering(*answers: bytes | None) -> Iterator[str]:
    """Yield `host:port` of something that is no PostgreSQL: it answers each message so, then ends; None says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        over = threading.Event()

        def serve() -> None:
            with listening.accept()[0] as connection:
                for answer in answers:
                    connection.recv(1024)
                    if answer is None:
                        over.wait(30)
                    else:
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def refused(url: str) -> str:
    """Return the one line that a failure to connect is told in, once it is seen to hold no password."""
    with pytest.raises(DemurError) as told:
        PostgresConnection(url)
    line = str(told.value)
    assert "\n" not in line
    assert not any(word in line for word in (PASSWORD, ENCODED, "e@c", "wrong-one"))
    return line


def test_values_come_back_as_they_were(database: str) -> None:
    """Numbers, texts of any kind, bytes, truth and nothing come back alike whether sent one by one, together or copied."""
    rows = [(2**62 + n, n, word, word.encode() + bytes(range(256)), n % 2 == 0) for n, word in enumerate(TEXTS)]
    rows.append((-1, -1, None, None, None))  # type: ignore[arg-type] # nothing at all
    flat = [row[:4] for row in rows]
    with linked(database) as link:
        link.ask(TABLE)
        link.insert("kept", rows)
        assert link.ask("SELECT * FROM kept") == rows
        for row in rows[:-1]:
            assert link.ask("SELECT level FROM kept WHERE word = ? AND data = ?", row[2], row[3]) == [(row[1],)]
        assert link.one("SELECT count(*) FROM kept WHERE word = ANY(?)", [t for t in TEXTS if t != "null"]) == (8,)
        link.ask("DELETE FROM kept")
        link.copy("kept (number, level, word, data)", flat, int4=(1,))
        assert link.ask("SELECT number, level, word, data FROM kept") == flat


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 137])
def test_any_number_of_rows_is_inserted(database: str, count: int) -> None:
    """However many rows are given, each is there once and in order."""
    with linked(database) as link:
        link.ask(TABLE)
        link.insert("kept (number, word)", [(n, str(n)) for n in range(count)])
        assert link.ask("SELECT number FROM kept") == [(n,) for n in range(count)]


def test_commits_wait_for_the_disk(server: str) -> None:
    """A server, and an address, that do not wait for the disk are overruled."""
    with linked(server.replace("DATABASE", "postgres") + "&options=-c%20synchronous_commit%3Doff") as link:
        assert link.one("SHOW synchronous_commit") == ("on",)


def test_a_transaction_is_all_or_nothing(database: str) -> None:
    """What fails inside undoes what was said before it, and the connection goes on."""
    with linked(database) as link:
        link.ask(TABLE)
        with pytest.raises(StoreError, match="division by zero"), link.transaction():  # noqa: PT012 — both are of the law
            link.ask("INSERT INTO kept (number) VALUES (?)", 1)
            link.ask("SELECT 1 / ?::int", 0)
        with link.transaction():
            link.ask("INSERT INTO kept (number) VALUES (?)", 2)
        assert link.ask("SELECT number FROM kept") == [(2,)]


def test_a_fault_that_is_hidden_inside_a_transaction_is_told_at_its_end(database: str) -> None:
    """A transaction that the server has given up is not taken for a committed one."""
    with linked(database) as link:
        link.ask(TABLE)
        with pytest.raises(StoreError), link.transaction():  # noqa: PT012 — the end of the block is what raises
            link.ask("INSERT INTO kept (number) VALUES (?)", 1)
            with pytest.raises(StoreError):
                link.ask("SELECT no_such_column FROM kept WHERE number = ?", 1)
        assert link.ask("SELECT number FROM kept") == []


def test_a_value_that_cannot_be_sent_leaves_the_link_in_step(database: str) -> None:
    """After half a message the connection is made anew, so that no answer is taken for another's."""
    with linked(database) as link:
        assert link.ask("SELECT ?::text", "before") == [("before",)]
        with pytest.raises(UnicodeEncodeError):
            link.ask("SELECT ?::text", "\ud800")
        assert link.ask("SELECT ?::text", "after") == [("after",)]


def test_more_statements_than_are_kept_prepared(database: str) -> None:
    """The first and the last of many different statements are answered alike, and the server holds few of them."""
    with linked(database) as link:
        for _ in range(2):
            for number in range(100):
                assert link.ask(f"SELECT ?::int + {number}", 1) == [(number + 1,)]
        ((held,),) = link.ask("SELECT count(*) FROM pg_prepared_statements")
        assert held <= 64


def test_threads_share_a_link(database: str) -> None:
    """Threads on one connection wait for each other: no answer is another's, no transaction is joined."""
    with linked(database) as link:
        link.ask(TABLE)
        link.ask("INSERT INTO kept (number) VALUES (0)")

        def work(name: int) -> None:
            for turn in range(25):
                with link.transaction():
                    ((number,),) = link.ask("SELECT number FROM kept")
                    link.ask("UPDATE kept SET number = ?", number + 1)
                assert link.ask("SELECT ?::int, ?::int", name, turn) == [(name, turn)]

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert link.ask("SELECT number FROM kept") == [(100,)]


def test_a_statement_may_take_longer_than_the_greeting(server: str) -> None:
    """The time to connect in does not bind what is asked afterwards, such as a wait for a lock."""
    with linked(server.replace("DATABASE", "postgres") + "&connect_timeout=2") as link:
        assert link.ask("SELECT pg_sleep(2.2)") == [("",)]


def test_a_wait_for_a_lock_ends_with_its_holder(database: str) -> None:
    """Who waits for a lock gets it once the holder's transaction ends."""
    with linked(database) as holder, linked(database) as waiter, ThreadPoolExecutor(1) as pool:
        with holder.transaction("SELECT pg_advisory_xact_lock(7)"):
            waiting = pool.submit(waiter.ask, "SELECT pg_advisory_lock(?)", 7)
            blocked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            until(lambda: holder.one(blocked) == (1,))
            assert not waiting.done()
        assert waiting.result(timeout=30) == [("",)]


def test_a_limit_of_the_server_is_told(server: str) -> None:
    """A statement that the server's own limit ends is told with the name of the limit, and the connection goes on."""
    with linked(server.replace("DATABASE", "postgres") + "&options=-c%20statement_timeout%3D50") as link:
        with pytest.raises(StoreError, match="statement_timeout"):
            link.ask("SELECT pg_sleep(30)")
        assert link.ask("SELECT 1") == [(1,)]


def test_what_only_reads_cannot_write(database: str) -> None:
    """The server refuses to write for a link that was made for reading."""
    with linked(database, read_only=True) as link, pytest.raises(StoreError, match="read-only"):
        link.ask(TABLE)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the driver one line names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "pg8000", None)
    with pytest.raises(UsageError, match=r"pip install 'demur\[postgres\]'"):
        PostgresConnection("postgresql://demur@localhost/log")


@pytest.mark.parametrize(
    ("who", "told"),
    [
        ("demur:wrong-one", "password authentication failed"),
        ("demur", "password authentication failed"),
        (f"nobody:{ENCODED}", "password authentication failed"),
        (f"demur:{PASSWORD}", "cannot be read"),
    ],
    ids=["wrong", "none", "unknown user", "not encoded"],
)
def test_who_is_not_let_in_is_told_in_one_line(guarded: Guarded, tmp_path: Path, who: str, told: str) -> None:
    """A wrong password, none, an unknown user and one that breaks the address are told without a part of the password."""
    assert told in refused(f"postgresql://{who}@{guarded[0]}/postgres?passfile={tmp_path / 'none'}")


def test_a_database_that_is_not_there_is_told_in_one_line(guarded: Guarded) -> None:
    """The name that does not exist is said, and what to do."""
    told = refused(f"postgresql://demur:{ENCODED}@{guarded[0]}/nowhere")
    assert told == 'the server says: database "nowhere" does not exist; create it, or check the name in the address'


def test_a_server_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    """A port where nobody listens, a socket that is not there and a host without an address are told with where."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told = refused(f"postgresql://demur:{ENCODED}@127.0.0.1:{port}/log")
    assert told.startswith(f"the server cannot be reached at `127.0.0.1:{port}` (connection refused); ")
    assert "no such file" in refused(f"postgresql://demur:{ENCODED}@/log?host={tmp_path}")
    assert "cannot be reached" in refused(f"postgresql://demur:{ENCODED}@nowhere.invalid/log")


@pytest.mark.parametrize(
    ("answers", "parameters", "told"),
    [
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "", "is no PostgreSQL server"),
        ((b"",), "", "ended the connection"),
        ((b"N",), "?sslmode=require", "does not encrypt"),
        ((b"N", b"?what is this"), "", "no PostgreSQL server"),
        ((b"N", b""), "", "ended the connection"),
        ((b"N", None), "?connect_timeout=1", "does not answer in time"),
        ((None,), "?connect_timeout=1", "timed out"),
    ],
    ids=["http", "ends", "plain", "garbage", "ends later", "silent", "silent at once"],
)
def test_what_is_no_server_is_told_in_one_line(answers: tuple[bytes | None, ...], parameters: str, told: str) -> None:
    """What speaks otherwise, ends the connection, does not encrypt or says nothing is told as that, in time."""
    with answering(*answers) as where:
        assert told in refused(f"postgresql://demur:{ENCODED}@{where}/log{parameters}")


@pytest.mark.parametrize(
    ("mode", "encrypted"),
    [("disable", False), *((mode, True) for mode in ("allow", "prefer", "require", "verify-ca", "verify-full"))],
)
def test_each_sslmode_is_kept(guarded: Guarded, mode: str, *, encrypted: bool) -> None:
    """A password in the address lets in, and the connection is encrypted as the address asks."""
    where, root = guarded
    with linked(f"postgresql://demur:{ENCODED}@{where}/postgres?sslmode={mode}&sslrootcert={root}") as link:
        assert link.one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == (encrypted,)


@pytest.mark.parametrize(
    ("host", "parameters", "told"),
    [
        ("127.0.0.1", "sslmode=verify-full", "self-signed certificate"),
        ("localhost", "sslmode=verify-full&sslrootcert=ROOT", "hostname mismatch"),
        ("127.0.0.1", "sslmode=verify-ca", "needs an authority"),
        ("127.0.0.1", "sslmode=require&sslrootcert=OTHER", "self-signed certificate"),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=/no/such/file", "cannot be read"),
    ],
    ids=["not trusted", "other name", "no authority", "other authority", "no file"],
)
def test_a_server_that_is_not_trusted_is_refused(
    guarded: Guarded, tmp_path: Path, host: str, parameters: str, told: str
) -> None:
    """Where the certificate is to be checked, one of another authority or name gets no password."""
    port = guarded[0].partition(":")[2]
    filled = parameters.replace("ROOT", str(guarded[1])).replace("OTHER", certificate(tmp_path)[0])
    assert told in refused(f"postgresql://demur:{ENCODED}@{host}:{port}/postgres?{filled}")
