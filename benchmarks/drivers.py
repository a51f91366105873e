"""What does a PostgreSQL driver cost the process that writes the log? Ours beside its rivals, in one run.

    python benchmarks/drivers.py postgresql://user@/database?host=/folder [--batches 200]

Each driver does what the log does: a transaction that takes the lock, appends 64 records of 2.4 KB by COPY, counts them by an upsert
and commits; then it reads all of them in pages of 256. The figure is the CPU of this process for each record, since the server's is the
same for all. Rivals that are not installed are left out: `pip install asyncpg 'psycopg[binary]'`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from demur.record.store.postgres import PostgresConnection
from demur.record.store.postgres_address import postgres_address

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 64
PAGE = 256
PAYLOAD = os.urandom(2400)
MAKE = "DROP TABLE IF EXISTS bench; CREATE TABLE bench (idx BIGINT PRIMARY KEY, payload BYTEA, session TEXT)"
MAKE_COUNTS = "DROP TABLE IF EXISTS bench_counts; CREATE TABLE bench_counts (hour BIGINT PRIMARY KEY, n BIGINT)"
LOCK = "SELECT pg_advisory_xact_lock(1)"


class Driver(Protocol):
    """What the log asks of a driver."""

    def append(self, rows: list[tuple[int, bytes, str]]) -> None:
        """Append a batch in one transaction."""

    def page(self, start: int) -> int:
        """Read a page; return how many rows it has."""

    def close(self) -> None:
        """Let go of the connection."""


class Ours:
    """pg8000 behind our connection."""

    def __init__(self, url: str) -> None:
        self._connection = PostgresConnection(url)
        self._connection.ask(MAKE)
        self._connection.ask(MAKE_COUNTS)

    def append(self, rows: list[tuple[int, bytes, str]]) -> None:
        """Append a batch in one transaction."""
        with self._connection.transaction(LOCK):
            self._connection.copy("bench", rows)
            self._connection.ask(
                "INSERT INTO bench_counts AS c VALUES (?, ?) ON CONFLICT (hour) DO UPDATE SET n = c.n + excluded.n",
                1,
                ROWS,
            )

    def page(self, start: int) -> int:
        """Read a page."""
        return len(
            self._connection.ask(
                "SELECT idx, payload, session FROM bench WHERE idx >= ? ORDER BY idx LIMIT ?", start, PAGE
            )
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


class Psycopg:
    """psycopg 3, the binary build."""

    def __init__(self, url: str) -> None:
        self._db: Any = import_module("psycopg").connect(url, autocommit=True)
        for made in f"{MAKE}; {MAKE_COUNTS}".split(";"):
            self._db.execute(made)

    def append(self, rows: list[tuple[int, bytes, str]]) -> None:
        """Append a batch in one transaction."""
        with self._db.transaction(), self._db.cursor() as cursor:
            cursor.execute(LOCK)
            with cursor.copy("COPY bench FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["int8", "bytea", "text"])
                for row in rows:
                    copy.write_row(row)
            cursor.execute(
                "INSERT INTO bench_counts AS c VALUES (%s, %s) ON CONFLICT (hour) DO UPDATE SET n = c.n + excluded.n",
                (1, ROWS),
            )

    def page(self, start: int) -> int:
        """Read a page."""
        query = "SELECT idx, payload, session FROM bench WHERE idx >= %s ORDER BY idx LIMIT %s"
        return len(self._db.execute(query, (start, PAGE), prepare=True, binary=True).fetchall())

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()


class Asyncpg:
    """asyncpg on an event loop of its own, as the writer's thread would have to run it."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        address = postgres_address(url)
        connect = import_module("asyncpg").connect
        self._db: Any = self._loop.run_until_complete(
            connect(host=address.host, port=address.port, user=address.user, database=address.database)
        )
        self._loop.run_until_complete(self._db.execute(f"{MAKE}; {MAKE_COUNTS}"))

    def append(self, rows: list[tuple[int, bytes, str]]) -> None:
        """Append a batch in one transaction."""
        self._loop.run_until_complete(self._append(rows))

    async def _append(self, rows: list[tuple[int, bytes, str]]) -> None:
        async with self._db.transaction():
            await self._db.execute(LOCK)
            await self._db.copy_records_to_table("bench", records=rows)
            await self._db.execute(
                "INSERT INTO bench_counts AS c VALUES ($1, $2) ON CONFLICT (hour) DO UPDATE SET n = c.n + excluded.n",
                1,
                ROWS,
            )

    def page(self, start: int) -> int:
        """Read a page."""
        query = "SELECT idx, payload, session FROM bench WHERE idx >= $1 ORDER BY idx LIMIT $2"
        return len(self._loop.run_until_complete(self._db.fetch(query, start, PAGE)))

    def close(self) -> None:
        """Let go of the connection."""
        self._loop.run_until_complete(self._db.close())
        self._loop.close()


def cpu_us(work: Callable[[], int]) -> tuple[float, float]:
    """Return the CPU and the wall time of a piece of work, in µs for each record that it says it handled."""
    wall, cpu = time.perf_counter(), time.process_time()
    records = work()
    return (time.process_time() - cpu) * 1e6 / records, (time.perf_counter() - wall) * 1e6 / records


def measured(driver: Driver, batches: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return what writing and reading a record costs."""

    def write() -> int:
        for batch in range(batches):
            driver.append([(batch * ROWS + n, PAYLOAD, f"session-{n}") for n in range(ROWS)])
        return batches * ROWS

    def read() -> int:
        done = 0
        while found := driver.page(done):
            done += found
        return done

    return cpu_us(write), cpu_us(read)


def main() -> None:
    """Print a line for each driver."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("url")
    asked.add_argument("--batches", type=int, default=200)
    asked.add_argument("--rounds", type=int, default=3)
    args = asked.parse_args()
    drivers: dict[str, Callable[[str], Driver]] = {"pg8000 (ours)": Ours, "psycopg": Psycopg, "asyncpg": Asyncpg}
    print("µs of CPU (wall) a record, the best of the rounds; the ratio is to ours")
    floor: tuple[float, float] | None = None
    for name, make in drivers.items():
        try:
            driver = make(args.url)
        except ModuleNotFoundError:
            print(f"{name:14}  not installed")
            continue
        rounds = []
        for _ in range(args.rounds):
            driver.close()
            driver = make(args.url)
            rounds.append(measured(driver, args.batches))
        driver.close()
        write, read = min(one[0] for one in rounds), min(one[1] for one in rounds)
        floor = floor or (write[0], read[0])
        print(
            f"{name:14}  write {write[0]:6.1f} ({write[1]:6.1f})  {write[0] / floor[0]:.2f} ×"
            f"   read {read[0]:6.1f} ({read[1]:6.1f})  {read[0] / floor[1]:.2f} ×"
        )


if __name__ == "__main__":
    main()
