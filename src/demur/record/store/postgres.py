"""The shared store: one log in PostgreSQL for many gateways, over pg8000.

Whoever appends first takes one advisory lock, for the transaction, and only then reads the frontier it extends; readers never
wait for writers. One log per database. A connection whose state is in doubt is never used again: the next statement makes a new
one, except inside a transaction, which has failed.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from socket import SHUT_RDWR
from struct import Struct
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar

from demur.errors import StoreError, UsageError
from demur.record.interface import SessionTail
from demur.record.store.log_store import LogStore
from demur.record.store.postgres_address import dial, no_postgres_error, postgres_address

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from demur.record.store.log_store import Migration
    from demur.record.store.postgres_address import PostgresAddress

__all__ = ["PostgresConnection", "PostgresLog"]

# Whatever the server's defaults are: a commit is on its disk before it is acknowledged.
_SETTINGS = "SET synchronous_commit TO on; SET bytea_output TO hex; SET client_encoding TO 'UTF8'"
_READ_ONLY = "; SET default_transaction_read_only TO on"
_MAX_PREPARED = 64
# How many rows one INSERT takes: few sizes, so that each is prepared once.
_ROWS_AT_ONCE = (64, 8, 1)
# The binary format of COPY: https://www.postgresql.org/docs/current/sql-copy.html.
_COUNT, _LENGTH, _INT4, _INT8 = Struct("!h"), Struct("!i"), Struct("!ii"), Struct("!iq")
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), _COUNT.pack(-1)
# The keys of the two advisory locks: `demur` in ASCII and a number.
_APPENDING, _PRESENT = 0x64656D7572_01, 0x64656D7572_02
_LOCK_LOG = f"SELECT pg_advisory_xact_lock({_APPENDING})"
_STAY_PRESENT = f"SELECT pg_advisory_lock_shared({_PRESENT})"

_HINTS = {
    "28000": "check the user and pg_hba.conf",
    "28P01": "check the user and the password: in the address, PGPASSWORD or ~/.pgpass",
    "3D000": "create it, or check the name in the address",
    "42501": "grant the role the rights of docs/passports.md",
    "53100": "make room; nothing of this batch was written",
    "53300": "raise max_connections or start fewer workers",
    "55P03": "another session holds it: try again",
    "57014": "a limit of the server ended it: see statement_timeout",
    "57P03": "it is starting or ending: try again",
}
"""By SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html."""


class PostgresConnection:
    """A connection that is made again after it was lost: a `Database`. Threads that share it wait for each other."""

    def __init__(self, url: str, *, schema: str = "demur", read_only: bool = False) -> None:
        """Connect; our tables are in `schema`."""
        self.on_connect = ""
        """A statement that is repeated on each new connection, such as a lock that ends with it."""
        self._schema = schema
        self._address = postgres_address(url)
        self._settings = _SETTINGS + (_READ_ONLY if read_only else "")
        try:
            from pg8000 import native  # type: ignore[import-untyped] # it has none
            from scramp import ScramException  # type: ignore[import-untyped] # as above
        except ModuleNotFoundError as exc:
            raise UsageError("a log in PostgreSQL needs its driver", hint="pip install 'demur[postgres]'") from exc
        self._native = native
        # The last two are bugs of the driver, which it runs into where the other end is not PostgreSQL.
        self._connect_errors = (native.Error, ScramException, OSError, LookupError, ValueError)
        # Reentrant, since a transaction holds it and each statement inside takes it again.
        self._lock = RLock()
        self._in_transaction = False
        self._db: Any = None
        self._socket: socket.socket | None = None
        self._prepared: dict[str, Any] = {}
        self._connect()

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of one statement; without values it may be several, separated by semicolons."""
        query = self._qualified(query)
        with self._lock, self._statement() as db:
            if not values:
                rows = db.run(query)
            else:
                rows = self._prepare(query).run(**{f"v{n}": value for n, value in enumerate(values)})
            return [tuple(row) for row in rows or ()]

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """Return the first row; None where there is none."""
        return next(iter(self.ask(query, *values)), None)

    def insert(self, table: str, rows: Sequence[Sequence[object]], *, otherwise: str = "") -> None:
        """Insert rows, many at a time; `otherwise` is an ON CONFLICT clause."""
        done = 0
        for size in _ROWS_AT_ONCE:
            while len(rows) - done >= size:
                batch = rows[done : done + size]
                marks = ", ".join(f"({', '.join('?' * len(row))})" for row in batch)
                query = f"INSERT INTO {table} VALUES {marks} {otherwise}"  # noqa: S608 — names are ours, values are bound
                self.ask(query, *(value for row in batch for value in row))
                done += size

    def copy(self, table: str, rows: Iterable[Sequence[object]], *, int4: Sequence[int] = ()) -> None:
        """Append rows to a table by COPY; its integers are BIGINT except for the columns in `int4`."""
        data = b"".join((_COPY_HEAD, *(_copy_row(row, int4) for row in rows), _COPY_END))
        with self._lock, self._statement() as db:
            db.run(f"COPY {self._qualified(table)} FROM STDIN (FORMAT binary)", stream=(data,))

    @contextmanager
    def transaction(self, first: str = "", *, mode: str = "") -> Iterator[None]:
        """Commit all that is written inside, or nothing; `first` is sent with BEGIN, in one message."""
        with self._lock:
            self.ask(f"BEGIN {mode}; {first}")
            self._in_transaction, committed = True, False
            try:
                yield
                self.ask("COMMIT")
                committed = True
            finally:
                if not committed:
                    with suppress(StoreError):
                        self.ask("ROLLBACK")
                self._in_transaction = False

    def snapshot(self) -> AbstractContextManager[None]:
        """Read the database as it is now, whatever is written meanwhile."""
        return self.transaction(mode="ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def close(self) -> None:
        """Close the connection, and let go of its locks; a later statement makes a new one."""
        with self._lock:
            if self._db is not None:
                with suppress(self._native.Error, OSError):
                    self._db.close()
                self._drop()

    def _qualified(self, query: str) -> str:
        """Return a statement with our tables in our schema."""
        return query.replace("{", self._schema + ".").replace("}", "")

    @contextmanager
    def _statement(self) -> Iterator[Any]:
        """Give the driver's connection for one statement; drop it unless the server has answered in order."""
        if self._db is None:
            if self._in_transaction:
                raise StoreError("the connection to the server was lost", hint="nothing of this batch was written")
            self._connect()
        in_step = False
        try:
            yield self._db
            in_step = True
        except self._native.DatabaseError as exc:
            in_step = True
            raise _server_error(exc) from exc
        except (self._native.Error, OSError) as exc:
            raise StoreError("the connection to the server was lost", hint="check that it runs; try again") from exc
        finally:
            # After an interrupt too: the answer to this statement would be read as the answer to the next.
            if not in_step:
                self._drop()

    def _prepare(self, query: str) -> Any:  # noqa: ANN401 — the driver has no types
        if query not in self._prepared:
            if len(self._prepared) >= _MAX_PREPARED:
                for statement in self._prepared.values():
                    statement.close()
                self._prepared.clear()
            first, *others = query.split("?")
            numbered = first + "".join(f"${n}{text}" for n, text in enumerate(others, 1))
            self._prepared[query] = self._db.prepare(numbered)
        return self._prepared[query]

    def _connect(self) -> None:
        address = self._address
        self._socket = connection = dial(address)
        ready = False
        try:
            self._db = self._native.Connection(
                address.user,
                database=address.database,
                # The driver fails on a missing password with an unrelated error; the server rejects an empty one in words.
                password=address.password or "",
                sock=connection,
                ssl_context=False,
                application_name=address.application_name,
                startup_params={"options": address.options} if address.options else None,
            )
            self._db.run(self._settings)
            # The timeout is for connecting. From here on a statement may wait for a lock as long as it takes.
            connection.settimeout(None)
            if self.on_connect:
                self._db.run(self.on_connect)
            ready = True
        except self._connect_errors as exc:
            raise _connect_error(exc, address, self._native) from exc
        finally:
            if not ready:
                self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(SHUT_RDWR)
            self._socket.close()
        if self._db is not None:
            with suppress(self._native.Error, OSError):
                self._db.close()
        self._db = self._socket = None
        self._prepared = {}


class PostgresLog(LogStore):
    """A log in a database, in the schema `demur`."""

    engine: ClassVar[str] = "postgres"

    def __init__(self, url: str, *, origin: str | None = None, read_only: bool = False) -> None:
        self._connection = PostgresConnection(url, read_only=read_only)
        super().__init__(self._connection, "the database", origin=origin, read_only=read_only)

    def _version(self) -> int:
        if self.db.one("SELECT to_regclass('demur.schema_version')") == (None,):
            return 0
        row = self.db.one("SELECT version FROM {schema_version}")
        return 0 if row is None else int(row[0])

    def _migrate(self, step: Migration) -> None:
        self.db.ask("CREATE SCHEMA IF NOT EXISTS demur")
        self.db.ask("CREATE TABLE IF NOT EXISTS {schema_version} (version INTEGER NOT NULL)")
        self.db.ask(step.sql)
        self.db.ask("DELETE FROM {schema_version}")
        self.db.ask("INSERT INTO {schema_version} VALUES (?)", step.version)

    def _write_lock(self) -> AbstractContextManager[None]:
        return self._connection.transaction(_LOCK_LOG)

    def append_rows(self, table: str, rows: Sequence[Sequence[object]]) -> None:
        """Add new rows to `{records}` or `{nodes}`."""
        self._connection.copy(table, rows, int4=(0,) if table == "{nodes}" else ())

    def enter_writer(self) -> bool:
        """Announce a writer for as long as its connection lives; return whether there is no other."""
        (alone,) = self.db.one(f"SELECT pg_try_advisory_lock({_PRESENT})") or (False,)
        self.db.ask(_STAY_PRESENT)
        if alone:
            self.db.ask(f"SELECT pg_advisory_unlock({_PRESENT})")
        # After the server went away, the next connection has to announce the writer again.
        self._connection.on_connect = _STAY_PRESENT
        return bool(alone)

    def leave_writer(self) -> None:
        """Take the announcement back."""
        self.db.ask(f"SELECT pg_advisory_unlock_shared({_PRESENT})")
        self._connection.on_connect = ""

    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session, asked for at once; None where it has none."""
        found: dict[str, SessionTail | None] = dict.fromkeys(sessions)
        if not found:
            return found
        rows = self.db.ask(
            "SELECT name, seq, hash, at FROM unnest(CAST(? AS text[])) AS asked (name) CROSS JOIN LATERAL "
            "(SELECT seq, hash, at FROM {records} r JOIN {nodes} n ON n.level = 0 AND n.idx = r.idx "
            "WHERE session = name ORDER BY seq DESC LIMIT 1) AS last",
            [*sessions],
        )
        return found | {name: SessionTail(seq, bytes(digest).hex(), at) for name, seq, digest, at in rows}


def _copy_row(row: Sequence[object], int4: Sequence[int]) -> bytes:
    """Return a row in the binary format of COPY."""
    parts = [_COUNT.pack(len(row))]
    for column, value in enumerate(row):
        if value is None:
            parts.append(_LENGTH.pack(-1))
        elif isinstance(value, int):
            parts.append(_INT4.pack(4, value) if column in int4 else _INT8.pack(8, value))
        else:
            data = value if isinstance(value, bytes) else str(value).encode()
            parts += (_LENGTH.pack(len(data)), data)
    return b"".join(parts)


def _connect_error(exc: BaseException, address: PostgresAddress, native: Any) -> StoreError:  # noqa: ANN401 — the driver has no types
    """Return why no connection could be made."""
    # The driver fails again when it says goodbye to a server that has hung up; what the server said is further down the chain.
    link: BaseException | None = exc
    while link is not None:
        if isinstance(link, native.DatabaseError):
            return _server_error(link)
        link = link.__cause__ or link.__context__
    if isinstance(exc, TimeoutError):
        what = f"what is at `{address.shown}` does not answer in time"
        return StoreError(what, hint="check that it is PostgreSQL and not overloaded")
    return no_postgres_error(address)


def _server_error(exc: BaseException) -> StoreError:
    """Return what the server said, and what it means for the user."""
    fields = exc.args[0] if exc.args and isinstance(exc.args[0], dict) else {}
    code, said = fields.get("C", ""), str(fields.get("M", "")).strip()
    first = said.splitlines()[0] if said else f"error {code}"
    return StoreError(f"the server says: {first[:1].lower()}{first[1:]}", hint=_HINTS.get(code, "see its log"))
