"""The dashboard's SQL, for SQLite and PostgreSQL alike, over a connection that only reads.

Pages follow each other by place in the log, never by an offset, so that a later page costs no more than the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.dashboard.counts import PayloadRow
from demur.record.store.log_store import RateKey, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.record.store.location import LogPlace

__all__ = ["SqlQueries"]

_PASSPORTS = "SELECT idx, payload, at, session, seq FROM {records} WHERE kind = 'passport' AND "
_STRETCH = _PASSPORTS + "idx >= ? AND idx < ?"
_OF_SESSION = _PASSPORTS + "session = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
_SIZE = "SELECT max(idx) FROM {records}"
_AT = "SELECT at FROM {records} WHERE idx >= ? ORDER BY idx LIMIT 1"
_TAIL = "SELECT max(seq) FROM {records} WHERE session = ?"
_CHECKPOINTS = "SELECT count(*), max(size) FROM {checkpoints}"
# One of the two alone is looked up in the index; both in one SELECT would read every hour.
_BOUNDS = "SELECT (SELECT min(hour) FROM {rollup}), (SELECT max(hour) FROM {rollup})"
_MODELS = "SELECT model, sum(n) FROM {rollup} GROUP BY model"
_COUNTS = (
    "SELECT substr(hour, 1, ?), model, decision, causes, answered, sum(n) FROM {rollup} "
    "WHERE hour >= ? AND hour <= ? GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"
)
_FIRST_HOUR, _LAST_HOUR = "0000-00-00T00", "9999-99-99T99"
_LIKE = (
    "SELECT session, max(seq) FROM {records} WHERE session > ? AND session >= ? AND session < ? "
    "GROUP BY session ORDER BY session LIMIT ?"
)
# PostgreSQL may sort names by a language's collation, so that a range of names is no prefix search there.
_LIKE_POSTGRES = (
    "SELECT session, max(seq) FROM {records} WHERE session > ? AND left(session, length(?)) = ? "
    "GROUP BY session ORDER BY session LIMIT ?"
)


class SqlQueries:
    """One read-only connection to the tables of a log, in either engine."""

    def __init__(self, place: LogPlace) -> None:
        self._place = place
        self._db = place.connect()

    def _passports(self, query: str, *values: object) -> Iterator[PayloadRow]:
        for index, payload, at, session, seq in self._db.ask(query, *values):
            yield PayloadRow(index, stored_bytes(payload), str(at), str(session), int(seq))

    def stretch(self, start: int, stop: int) -> Iterator[PayloadRow]:
        """Yield the passports from one place up to another."""
        return self._passports(_STRETCH + " ORDER BY idx", start, stop)

    def newest(self, start: int, stop: int, *, holding: Sequence[bytes] = ()) -> Iterator[PayloadRow]:
        """Yield the passports between two places whose statements hold all of these bytes, the newest first."""
        # The engine looks for the bytes, so that only statements that hold them are decoded here.
        holds = " AND position(? in payload) > 0" if self._place.is_database else " AND instr(payload, ?) > 0"
        return self._passports(_STRETCH + holds * len(holding) + " ORDER BY idx DESC", start, stop, *holding)

    def of_session(self, session: str, before: int, *, limit: int) -> Iterator[PayloadRow]:
        """Yield a session's passports with a number below this one, the newest first."""
        return self._passports(_OF_SESSION, session, before, limit)

    @property
    def size(self) -> int:
        """How many records there are."""
        ((last,),) = self._db.ask(_SIZE)
        return 0 if last is None else int(last) + 1

    def time_at(self, place: int) -> str | None:
        """Return the time of the first record from a place on; None where there is none."""
        row = self._db.ask(_AT, place)
        return str(row[0][0]) if row else None

    def place_of(self, at: str) -> int:
        """Return the first place whose record is not before this time."""
        low, high = 0, self.size
        while low < high:
            middle = (low + high) // 2
            found = self.time_at(middle)
            if found is not None and found < at:
                low = middle + 1
            else:
                high = middle
        return low

    def last_of(self, session: str) -> int | None:
        """Return the number of a session's last record; None where there is no such session."""
        ((last,),) = self._db.ask(_TAIL, session)
        return None if last is None else int(last)

    def named(self, prefix: str, *, after: str, limit: int) -> list[tuple[str, int]]:
        """Return the sessions whose names begin so, in their order, and the number of their last record."""
        if self._place.is_database:
            rows = self._db.ask(_LIKE_POSTGRES, after, prefix, prefix, limit)
        else:
            rows = self._db.ask(_LIKE, after, prefix, prefix + "\U0010ffff", limit)
        return [(str(session), int(last)) for session, last in rows]

    def checkpoints(self) -> tuple[int, int | None]:
        """Return how many checkpoints there are, and how many records the largest covers."""
        ((count, largest),) = self._db.ask(_CHECKPOINTS)
        return int(count), None if largest is None else int(largest)

    def hours(self) -> tuple[str, ...]:
        """Return the first and the last hour with an exchange; nothing where there is none."""
        ((first, last),) = self._db.ask(_BOUNDS)
        return () if first is None else (str(first), str(last))

    def models(self) -> tuple[str, ...]:
        """Return the models on record, the busiest first."""
        found = sorted(self._db.ask(_MODELS), key=lambda row: (-row[1], row[0]))
        return tuple(str(model) for model, _ in found)

    def counts(self, since: str = "", until: str = "", *, chars: int) -> list[tuple[RateKey, int]]:
        """Return the counts of a period, its first and last bucket included, with hours cut to so many characters."""
        # Bounds of an hour's length sort alike under every collation of a database.
        bounds = since + _FIRST_HOUR[len(since) :], until + _LAST_HOUR[len(until) :]
        rows = self._db.ask(_COUNTS, chars, *bounds)
        return [
            (RateKey(hour, model, effect, causes, bool(answered)), int(n))
            for hour, model, effect, causes, answered, n in rows
        ]

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()
