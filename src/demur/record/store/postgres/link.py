"""How is PostgreSQL talked to? One connection, its statements and its faults; nobody else here knows the driver.

Laws: what is committed is on the server's disk, whatever the server's default; a fault is told as one error with what to do, and
never with the password; a connection whose state is in doubt is never used again, a new one is made for the next statement, and what was
inside a transaction is not; threads that share a link wait for each other, for a whole transaction; a server must answer the greeting in
time, and may let a statement wait for a lock as long as it takes.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from struct import Struct
from threading import RLock
from typing import TYPE_CHECKING, Any

from demur.errors import StoreError, UsageError
from demur.record.store.postgres.address import PostgresAddress, postgres_address
from demur.record.store.postgres.socket import dialled_server, stranger_there

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["PostgresLink"]

_SETTINGS = "SET synchronous_commit TO on; SET bytea_output TO hex; SET client_encoding TO 'UTF8'"
_ONLY_READS = "; SET default_transaction_read_only TO on"
_MOST_PREPARED = 64
_AT_ONCE = (64, 8, 1)
"""How many rows one INSERT takes: few sizes, so that each is prepared once."""
_COUNT, _LENGTH, _INT4, _INT8 = Struct("!h"), Struct("!i"), Struct("!ii"), Struct("!iq")
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), _COUNT.pack(-1)

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


class PostgresLink:
    """A connection that is made again after it was lost; the statements have `?` where a value goes."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        """Connect."""
        self.standing = ""
        """A statement that is said again on each new connection, such as a lock that ends with it."""
        self._address = postgres_address(url)
        self._settings = _SETTINGS + (_ONLY_READS if read_only else "")
        self._native, self._failures = _driver()
        self._turn = RLock()
        self._inside = False
        self._db: Any = None
        self._socket: socket.socket | None = None
        self._prepared: dict[str, Any] = {}
        self._open()

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of one statement; without values it may be several, separated by semicolons."""
        with self._turn, self._spoken() as db:
            if not values:
                rows = db.run(query)
            else:
                rows = self._ready(query).run(**{f"v{n}": value for n, value in enumerate(values)})
            return [tuple(row) for row in rows or ()]

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """Return the first row, None where there is none."""
        return next(iter(self.ask(query, *values)), None)

    def insert(self, into: str, rows: Sequence[Sequence[object]], *, otherwise: str = "") -> None:
        """Insert rows into a table, many at a time; `otherwise` says what to do about one that is there."""
        done = 0
        for size in _AT_ONCE:
            while len(rows) - done >= size:
                batch = rows[done : done + size]
                marks = ", ".join(f"({', '.join('?' * len(row))})" for row in batch)
                query = f"INSERT INTO {into} VALUES {marks} {otherwise}"  # noqa: S608 — names are ours, values go apart
                self.ask(query, *(value for row in batch for value in row))
                done += size

    def copy(self, into: str, rows: Iterable[Sequence[object]], *, short: Sequence[int] = ()) -> None:
        """Append rows to a table by COPY; its whole numbers are BIGINT but for those columns that are `short`, INTEGER."""
        data = b"".join((_COPY_HEAD, *(_copied(row, short) for row in rows), _COPY_END))
        with self._turn, self._spoken() as db:
            db.run(f"COPY {into} FROM STDIN (FORMAT binary)", stream=(data,))

    @contextmanager
    def transaction(self, first: str = "", *, mode: str = "") -> Iterator[None]:
        """Commit all that is said inside, or nothing; `first` is said with the beginning, in one message."""
        with self._turn:
            self.ask(f"BEGIN {mode}; {first}")
            self._inside, committed = True, False
            try:
                yield
                self.ask("COMMIT")
                committed = True
            finally:
                if not committed:
                    with suppress(StoreError):
                        self.ask("ROLLBACK")
                self._inside = False

    def close(self) -> None:
        """Let go of the connection, and of its locks; what is asked later makes a new one."""
        with self._turn:
            if self._db is not None:
                with suppress(self._native.Error, OSError):
                    self._db.close()
                self._drop()

    @contextmanager
    def _spoken(self) -> Iterator[Any]:
        """Give the connection for one exchange; after anything but an orderly answer it is dropped, for it is out of step."""
        if self._db is None:
            if self._inside:
                raise StoreError("the connection to the server was lost", hint="nothing of this batch was written")
            self._open()
        settled = False
        try:
            yield self._db
            settled = True
        except self._native.DatabaseError as exc:
            settled = True
            raise _server_failure(exc) from exc
        except (self._native.Error, OSError) as exc:
            raise StoreError("the connection to the server was lost", hint="check that it runs; try again") from exc
        finally:
            if not settled:
                self._drop()

    def _ready(self, query: str) -> Any:  # noqa: ANN401 — the driver has no types
        if query not in self._prepared:
            if len(self._prepared) >= _MOST_PREPARED:
                for statement in self._prepared.values():
                    statement.close()
                self._prepared.clear()
            first, *others = query.split("?")
            numbered = first + "".join(f"${n}{text}" for n, text in enumerate(others, 1))
            self._prepared[query] = self._db.prepare(numbered)
        return self._prepared[query]

    def _open(self) -> None:
        self._socket = connection = dialled_server(self._address)
        ready = False
        try:
            self._db = self._greeted(connection)
            self._db.run(self._settings)
            # From here on a statement may wait for a lock.
            connection.settimeout(None)
            if self.standing:
                self._db.run(self.standing)
            ready = True
        except self._failures as exc:
            raise _greeting_failure(exc, self._address, self._native) from exc
        finally:
            if not ready:
                self._drop()

    def _greeted(self, connection: socket.socket) -> Any:  # noqa: ANN401 — the driver has no types
        address = self._address
        return self._native.Connection(
            address.user,
            database=address.database,
            # The driver fails on a missing password with an error of its own code; the server refuses an empty one in words.
            password=address.password or "",
            sock=connection,
            ssl_context=False,
            application_name=address.application_name,
            startup_params={"options": address.options} if address.options else None,
        )

    def _drop(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        if self._db is not None:
            with suppress(self._native.Error, OSError):
                self._db.close()
        self._db = self._socket = None
        self._prepared = {}


def _driver() -> tuple[Any, tuple[type[Exception], ...]]:
    """Return the driver, and all that it raises in a greeting: on what is no server's answer it also stumbles."""
    try:
        from pg8000 import native  # type: ignore[import-untyped] # it has none
        from scramp import ScramException  # type: ignore[import-untyped] # as above
    except ModuleNotFoundError as exc:
        raise UsageError("a log in PostgreSQL needs its driver", hint="pip install 'demur[postgres]'") from exc
    return native, (native.Error, ScramException, OSError, LookupError, ValueError)


def _greeting_failure(exc: BaseException, address: PostgresAddress, native: Any) -> StoreError:  # noqa: ANN401 — the driver has no types
    """Return why nobody was let in: the driver's farewell to a server that has gone hides what the server said."""
    link: BaseException | None = exc
    while link is not None:
        if isinstance(link, native.DatabaseError):
            return _server_failure(link)
        link = link.__cause__ or link.__context__
    if isinstance(exc, TimeoutError):
        what = f"what is at `{address.shown}` does not answer in time"
        return StoreError(what, hint="check that it is PostgreSQL and not overloaded")
    return stranger_there(address)


def _server_failure(exc: BaseException) -> StoreError:
    """Return what the server said, and what it means for the user."""
    fields = exc.args[0] if exc.args and isinstance(exc.args[0], dict) else {}
    code, said = fields.get("C", ""), str(fields.get("M", "")).strip()
    first = said.splitlines()[0] if said else f"error {code}"
    return StoreError(f"the server says: {first[:1].lower()}{first[1:]}", hint=_HINTS.get(code, "see its log"))


def _copied(row: Sequence[object], short: Sequence[int]) -> bytes:
    """Return a row in the binary form of COPY."""
    parts = [_COUNT.pack(len(row))]
    for place, value in enumerate(row):
        if value is None:
            parts.append(_LENGTH.pack(-1))
        elif isinstance(value, int):
            parts.append(_INT4.pack(4, value) if place in short else _INT8.pack(8, value))
        else:
            data = value if isinstance(value, bytes) else str(value).encode()
            parts += (_LENGTH.pack(len(data)), data)
    return b"".join(parts)
