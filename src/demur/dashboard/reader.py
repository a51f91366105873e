"""What the dashboard reads from a log: rates over time, rules, and sessions page by page.

Every method opens the log, reads a bounded number of entries however long the log is, and closes it again.

The dashboard's SQL, for SQLite and PostgreSQL alike, over a connection that only reads.

Pages follow each other by place in the log, never by an offset, so that a later page costs no more than the first.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from demur.dashboard.counts import PayloadRow, RecordCounts, row_of_payload
from demur.dashboard.values import Overview, PoliciesPage, SessionPage, SessionsPage, Shares
from demur.errors import EmptyInputError
from demur.model.claim import Effect
from demur.record.store.log_store import RateKey, stored_bytes
from demur.record.store.rates import rates_of
from demur.report.charts import DecisionBucket, Period, RatePoint, RateSeries, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from demur.dashboard.values import ExchangeRow, SessionFilter
    from demur.model.estimate import Rate
    from demur.record.store.location import LogPlace
    from demur.record.store.log_store import LogStore
    from demur.record.store.rates import GroupRates

__all__ = ["RANGES", "DashboardReader", "SqlQueries", "period_of"]

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


RANGES = {"24h": 24, "7d": 7 * 24, "30d": 30 * 24, "all": None}
_HOURS_SHOWN = 73
_DAYS_SHOWN = 190
_MODELS_SHOWN = 5
# Read between requests: some fifteen milliseconds, because a gateway may serve from the same process.
_BACKGROUND_RECORDS = 1_000
_NO_KEY = RateKey("", "", "", "", answered=False)
_PAGE = 50
_WINDOW, _MAX_WINDOW = 500, 10_000
_MAX_READ = 20_000
# With something to look for, the engine sorts most records out before one is decoded.
_MAX_SEARCHED = 30_000
_MAX_NAMED = 400


class DashboardReader:
    """Reads one log for the dashboard; may be used from several threads."""

    def __init__(self, place: LogPlace, counts: RecordCounts | None = None) -> None:
        self.place = place
        self.counts = counts or RecordCounts()

    @contextmanager
    def opened(self) -> Iterator[LogStore]:
        """Give the log, and close it afterwards."""
        with closing(self.place.open(read_only=True)) as store:
            yield store

    @contextmanager
    def _queries(self) -> Iterator[SqlQueries]:
        # Opening the log checks that it is one of ours and of this version; the queries alone would not.
        with self.opened(), closing(SqlQueries(self.place)) as queries:
            yield queries

    def by_day(self) -> tuple[tuple[str, ...], list[tuple[RateKey, int]]]:
        """Return the models on record, the busiest first, and the counts by day."""
        with self._queries() as queries:
            return queries.models(), queries.counts(chars=Step.DAY.chars)

    def catch_up(self, limit: int | None = None) -> int:
        """Count what the hourly counts do not hold, `limit` records at most; return how many records there are."""
        with self._queries() as queries:
            size = queries.size
            self.counts.follow(size, queries.stretch, limit=limit)
        return size

    def is_caught_up(self) -> bool:
        """Count a few more records, and return whether all were counted by then."""
        return self.counts.reach(self.catch_up(_BACKGROUND_RECORDS)).whole

    def checkpoints(self) -> tuple[int, int | None]:
        """Return how many checkpoints there are, and how many records the largest covers."""
        with self._queries() as queries:
            return queries.checkpoints()

    def overview(self, asked: Callable[[Sequence[str]], Period], *, model: str = "") -> Overview:
        """Return the first page for a period, and for one model where it is named."""
        with self._queries() as queries:
            period, models = asked(queries.hours()), queries.models()
            since, until = period.since, period.until
            counts = queries.counts(since, until, chars=period.step.chars) if period.buckets else []
        size = self.catch_up()
        counts = [(key, n) for key, n in counts if model in ("", key.model)]
        by_model = tuple(sorted(rates_of(counts, ["model"]), key=lambda group: (-group.exchanges, group.group)))
        (everything,) = rates_of(counts or [(_NO_KEY, 0)], [])
        groups = rates_of(counts, ["model", "hour"])

        def series(rate: Callable[[GroupRates], Rate]) -> tuple[RateSeries, ...]:
            points: dict[str, list[RatePoint]] = {group.group[0]: [] for group in by_model}
            for group in groups:
                points[group.group[0]].append(RatePoint(group.group[1], rate(group)))
            busiest = by_model[:_MODELS_SHOWN]
            return tuple(RateSeries(g.group[0], rate(g), tuple(points[g.group[0]])) for g in busiest)

        decisions: dict[str, Counter[str]] = {at: Counter() for at in period.buckets}
        for key, n in counts:
            if key.hour in decisions:
                decisions[key.hour][key.decision] += n
        return Overview(
            period,
            models,
            model,
            _shares("all models", everything),
            tuple(_shares(group.group[0], group) for group in by_model),
            series(lambda group: group.model_refused),
            series(lambda group: group.provider_filtered),
            series(lambda group: group.gateway_denied),
            tuple(DecisionBucket(at, effects) for at, effects in decisions.items()),
            self.counts.attacks(since, until, model=model),
            self.counts.gaps(since, until, model=model),
            self.counts.reach(size),
        )

    def policies(self, asked: Callable[[Sequence[str]], Period]) -> PoliciesPage:
        """Return which rules fired in a period."""
        with self._queries() as queries:
            period = asked(queries.hours())
        size = self.catch_up()
        since, until = period.since, period.until
        exchanges, errors = self.counts.exchanges(since, until)
        rules, policies = self.counts.rules(since, until), self.counts.policies(since, until)
        return PoliciesPage(period, exchanges, rules, errors, policies, self.counts.reach(size))

    def sessions(self, asked: SessionFilter, *, before: str = "") -> SessionsPage:
        """Return a page of sessions: by name where one is looked for, else the newest activity first."""
        size = self.catch_up()
        rules = tuple(sorted({row.rule for row in self.counts.rules("", "")}))
        with self._queries() as queries:
            models = queries.models()
            find = _sessions_by_name if asked.search else _sessions_by_activity
            page = find(queries, asked, before)
        return replace(page, models=models, rules=rules, total=size, first=not before)

    def session(self, name: str, *, before: int | None = None) -> SessionPage:
        """Return the exchanges of one session, newest first."""
        with self._queries() as queries:
            last = queries.last_of(name)
            start = before if before is not None else 0 if last is None else last + 1
            rows = [row_of_payload(row) for row in queries.of_session(name, start, limit=_PAGE + 1)]
        if not rows:
            raise EmptyInputError(f"no exchange of session `{name}`", hint="search for it by the beginning of its name")
        following = rows[_PAGE - 1].seq if len(rows) > _PAGE else None
        return SessionPage(name, tuple(rows[:_PAGE]), (last or 0) + 1, following)


def period_of(hours: Sequence[str], *, range_: str = "", since: str = "", until: str = "") -> Period:
    """Return the period that a reader asks for, in buckets that a chart has room for; a range ends with the last hour."""
    if not hours:
        return Period((), Step.HOUR, range_)
    # The end is the log's last hour, not the clock's, so that the same log gives the same page.
    begin, end = _hour_at(hours[0]), _hour_at(hours[-1])
    last = min(_hour_at(until, last=True), end) if until else end
    length = RANGES[range_ or "7d"]
    first = _hour_at(since) if since else begin if length is None else last - timedelta(hours=length - 1)
    first = max(first, begin)
    last = max(last, first)
    count = int((last - first).total_seconds() // 3600) + 1
    step = Step.HOUR if count <= _HOURS_SHOWN else Step.DAY if count <= 24 * _DAYS_SHOWN else Step.MONTH
    names = (f"{first + timedelta(hours=n):%Y-%m-%dT%H}"[: step.chars] for n in range(count))
    return Period(tuple(dict.fromkeys(names)), step, "" if since or until else range_ or "7d")


def _hour_at(text: str, *, last: bool = False) -> datetime:
    """Return the first hour of a day or an hour, or the last hour of a day."""
    return datetime.fromisoformat(f"{text}:00" if "T" in text else f"{text}T{'23' if last else '00'}:00")


def _shares(name: str, group: GroupRates) -> Shares:
    refused, filtered, denied = group.model_refused, group.provider_filtered, group.gateway_denied
    return Shares(name, group.exchanges, group.unanswered, group.unjudged, refused, filtered, denied)


# --- the list of sessions ---


def _fits(row: ExchangeRow, asked: SessionFilter) -> bool:
    return (
        asked.model in ("", row.model)
        and asked.decision in ("", row.decision)
        and (not asked.cause or asked.cause in row.causes)
        and (not asked.rule or asked.rule in row.rules)
        and (not asked.gaps or row.gaps > 0)
        and asked.since <= row.at
        and (not asked.until or row.at[: len(asked.until)] <= asked.until)
    )


def _sessions_by_activity(queries: SqlQueries, asked: SessionFilter, before: str) -> SessionsPage:
    """Return the sessions that were last active before a place in the log, each at its newest exchange that fits."""
    # Finding a place by its time takes clocks as running forwards, which `demur passport verify` checks.
    low = queries.place_of(asked.since) if asked.since else 0
    high = int(before) if before else queries.place_of(asked.until + "~") if asked.until else queries.size
    # Bytes that the statement of every exchange that fits must hold, so that the engine can sort out the others.
    words = [asked.model, asked.cause, asked.rule]
    # An exchange without a phase is allowed and does not say so.
    words += [asked.decision] if asked.decision != Effect.ALLOW.word else []
    # JSON would escape other names, so that their bytes are not in the statement.
    plain = (word for word in words if word and word.isprintable() and not {'"', "\\"} & set(word))
    needles = [*(f'"{word}"'.encode() for word in plain), *([b'"gaps":[{'] if asked.gaps else [])]
    end = max(low, high - (_MAX_SEARCHED if needles else _MAX_READ))
    rows: list[tuple[ExchangeRow, int]] = []
    stop, width, seen = high, _WINDOW, set[str]()
    while stop > end:
        start = max(end, stop - width)
        for passport in queries.newest(start, stop, holding=needles):
            row = row_of_payload(passport)
            if row.session in seen or not _fits(row, asked):
                continue
            seen.add(row.session)
            if (last := _last_unlisted(queries, row, asked)) is not None:
                rows.append((row, last + 1))
            if len(rows) == _PAGE:
                return _page_of(rows, asked, str(row.index) if row.index > low else None)
        stop, width = start, min(2 * width, _MAX_WINDOW if needles else _WINDOW)
    if stop <= low:
        return _page_of(rows, asked, None)
    return replace(_page_of(rows, asked, str(stop)), searched_to=queries.time_at(stop))


def _last_unlisted(queries: SqlQueries, row: ExchangeRow, asked: SessionFilter) -> int | None:
    """Return the number of a session's last exchange; None where a newer one that fits was listed before."""
    last = queries.last_of(row.session) or 0
    for newer in queries.of_session(row.session, last + 1, limit=min(last - row.seq, _WINDOW)):
        if newer.seq > row.seq and _fits(row_of_payload(newer), asked):
            return None
    return last


def _sessions_by_name(queries: SqlQueries, asked: SessionFilter, after: str) -> SessionsPage:
    """Return the sessions whose names begin as searched for, in the order of their names."""
    found = queries.named(asked.search, after=after, limit=_MAX_NAMED)
    rows: list[tuple[ExchangeRow, int]] = []
    for session, last in found:
        # Mostly the last exchange fits, so the others are not read before it.
        passports = (p for limit in (1, _WINDOW) for p in queries.of_session(session, last + 1, limit=limit))
        row = next((row for row in map(row_of_payload, passports) if _fits(row, asked)), None)
        rows += [] if row is None else [(row, last + 1)]
        if len(rows) == _PAGE:
            return _page_of(rows, asked, session)
    return _page_of(rows, asked, found[-1][0] if len(found) == _MAX_NAMED else None)


def _page_of(rows: Sequence[tuple[ExchangeRow, int]], asked: SessionFilter, following: str | None) -> SessionsPage:
    return SessionsPage(tuple(rows), asked, (), (), 0, following)
