"""What does the dashboard ask of a log? Rates over time, sessions page by page, one exchange, and how the store is.

Laws: a log is opened to be read, for one question, and closed; no question reads more than a bounded number of records, however long
the log is, and pages follow each other by place, never by counting rows; periods end with the log's last hour, so that the same
log gives the same page. Finding a time by its place takes clocks as running forwards, which `demur passport verify` checks.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.adapters.dashboard_counts import PayloadRow, RecordCounts, row_of_payload
from demur.adapters.log_growth import RateKey, stored_bytes
from demur.adapters.passport_rates import rates_of
from demur.adapters.postgres_log import connect_postgres, postgres_failure
from demur.adapters.sqlite_files import connect_sqlite, sqlite_failure
from demur.errors import EmptyInputError
from demur.report.dashboard_values import (
    DecisionBucket,
    ExchangeRow,
    Overview,
    Period,
    PoliciesPage,
    RatePoint,
    RateSeries,
    SessionFilter,
    SessionPage,
    SessionsPage,
    Shares,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import psycopg

    from demur.adapters.log_growth import LogStore
    from demur.adapters.log_location import LogPlace
    from demur.adapters.passport_rates import GroupRates
    from demur.model.estimate import Rate

__all__ = ["RANGES", "DashboardReader", "period_of"]

RANGES = {"24h": 24, "7d": 7 * 24, "30d": 30 * 24, "all": None}
_PAGE = 50
_WINDOW = 500
_MOST_READ = 20_000
_HOURS_SHOWN = 73
_DAYS_SHOWN = 190
_MODELS_SHOWN = 5
_NOTHING = RateKey("", "", "", "", answered=False)
_PASSPORTS = "SELECT idx, payload, at, session, seq FROM {records} WHERE kind = 'passport' AND "
_NEWEST = _PASSPORTS + "idx >= ? AND idx < ? ORDER BY idx DESC LIMIT ?"
_STRETCH = _PASSPORTS + "idx >= ? AND idx < ? ORDER BY idx"
_OF_SESSION = _PASSPORTS + "session = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
_SIZE = "SELECT max(idx) FROM {records}"
_AT = "SELECT at FROM {records} WHERE idx >= ? ORDER BY idx LIMIT 1"
_TAIL = "SELECT max(seq) FROM {records} WHERE session = ?"
_BOUNDS = "SELECT min(hour), max(hour) FROM {rollup}"
_MODELS = "SELECT model, sum(n) FROM {rollup} GROUP BY model"
_COUNTS = (
    "SELECT substr(hour, 1, ?), model, decision, causes, answered, sum(n) FROM {rollup} "
    "WHERE substr(hour, 1, ?) >= ? AND substr(hour, 1, ?) <= ? GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"
)
_LIKE = (
    "SELECT session, max(seq) FROM {records} WHERE session > ? AND session >= ? AND session < ? "
    "GROUP BY session ORDER BY session LIMIT ?"
)
# A database sorts names by its language, so that a range is no prefix there.
_LIKE_POSTGRES = (
    "SELECT session, max(seq) FROM {records} WHERE session > ? AND left(session, length(?)) = ? "
    "GROUP BY session ORDER BY session LIMIT ?"
)


class _Question:
    """One read-only connection to a log's tables, in the words of either engine."""

    def __init__(self, place: LogPlace) -> None:
        self._place = place
        self._db: Any = (
            connect_postgres(place.store) if place.is_database else connect_sqlite(Path(place.store), read_only=True)
        )

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query, written with `?` and `{records}`."""
        database = self._place.is_database
        schema = "demur." if database else ""
        text = query.replace("{records}", f"{schema}records").replace("{rollup}", f"{schema}rollup")
        try:
            rows: list[tuple[Any, ...]] = self._db.execute(
                text.replace("?", "%s") if database else text, values
            ).fetchall()
        except sqlite3.Error as exc:
            raise sqlite_failure(exc, Path(self._place.store)) from exc
        except self._server_errors() as exc:
            raise postgres_failure(exc) from exc
        return rows

    def _server_errors(self) -> tuple[type[psycopg.Error], ...]:
        if not self._place.is_database:
            return ()
        import psycopg

        return (psycopg.Error,)

    def passports(self, query: str, *values: object) -> Iterator[PayloadRow]:
        """Yield the passports of a query."""
        for index, payload, at, session, seq in self.ask(query, *values):
            yield PayloadRow(index, stored_bytes(payload), str(at), str(session), int(seq))

    @property
    def size(self) -> int:
        """How many records there are."""
        ((last,),) = self.ask(_SIZE)
        return 0 if last is None else int(last) + 1

    def place_of(self, at: str) -> int:
        """Return the first place whose record is not before this time."""
        low, high = 0, self.size
        while low < high:
            middle = (low + high) // 2
            row = self.ask(_AT, middle)
            if row and str(row[0][0]) < at:
                low = middle + 1
            else:
                high = middle
        return low

    def hours(self) -> tuple[str, ...]:
        """Return the first and the last hour with an exchange; nothing where there is none."""
        ((first, last),) = self.ask(_BOUNDS)
        return () if first is None else (str(first), str(last))

    def models(self) -> tuple[str, ...]:
        """Return the models on record, the busiest first."""
        found = sorted(self.ask(_MODELS), key=lambda row: (-row[1], row[0]))
        return tuple(str(model) for model, _ in found)

    def counts(self, since: str = "", until: str = "", *, chars: int) -> list[tuple[RateKey, int]]:
        """Return the counts of a period, its first and last bucket included, with hours cut to so many characters."""
        bounds = (len(since), since, len(until), until) if until else (len(since), since, 0, "")
        rows = self.ask(_COUNTS, chars, *bounds)
        return [
            (RateKey(hour, model, effect, causes, bool(told)), int(n)) for hour, model, effect, causes, told, n in rows
        ]

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()


class DashboardReader:
    """Answers the dashboard's questions about one log; may be asked from several threads."""

    def __init__(self, place: LogPlace, counts: RecordCounts | None = None) -> None:
        self.place = place
        self.counts = counts or RecordCounts()

    @contextmanager
    def opened(self) -> Iterator[LogStore]:
        """Give the log, and close it afterwards."""
        with closing(self.place.open(read_only=True)) as store:
            yield store

    @contextmanager
    def _asking(self) -> Iterator[_Question]:
        # The log itself says whether it is one of ours, and of this version.
        with self.opened(), closing(_Question(self.place)) as question:
            yield question

    def by_day(self) -> tuple[tuple[str, ...], list[tuple[RateKey, int]]]:
        """Return the models on record, the busiest first, and the counts by day."""
        with self._asking() as question:
            return question.models(), question.counts(chars=Step.DAY.chars)

    def catch_up(self) -> int:
        """Read on what the hourly counts do not hold; return how many records there are."""
        with self._asking() as question:
            size = question.size
            self.counts.follow(size, lambda start, stop: question.passports(_STRETCH, start, stop))
        return size

    def is_caught_up(self) -> bool:
        """Read on, and return whether all records were read by then."""
        return self.counts.reach(self.catch_up()).whole

    def overview(self, asked: Callable[[Sequence[str]], Period], *, model: str = "") -> Overview:
        """Return the first page for a period, and for one model where it is named."""
        with self._asking() as question:
            period, models = asked(question.hours()), question.models()
            since, until = period.since, period.until
            counts = question.counts(since, until, chars=period.step.chars) if period.buckets else []
        size = self.catch_up()
        counts = [(key, n) for key, n in counts if model in ("", key.model)]
        by_model = tuple(sorted(rates_of(counts, ["model"]), key=lambda group: (-group.exchanges, group.group)))
        (everything,) = rates_of(counts or [(_NOTHING, 0)], [])
        groups = rates_of(counts, ["model", "hour"])
        shown = [group.group[0] for group in by_model[:_MODELS_SHOWN]]
        return Overview(
            period,
            models,
            model,
            _shares("all models", everything),
            tuple(_shares(group.group[0], group) for group in by_model),
            _series(shown, groups, by_model, lambda group: group.model_refused),
            _series(shown, groups, by_model, lambda group: group.provider_filtered),
            _series(shown, groups, by_model, lambda group: group.gateway_denied),
            _decisions(counts, period),
            self.counts.attacks(since, until, model=model),
            self.counts.gaps(since, until, model=model),
            self.counts.reach(size),
        )

    def policies(self, asked: Callable[[Sequence[str]], Period]) -> PoliciesPage:
        """Return which rules fired in a period."""
        with self._asking() as question:
            period = asked(question.hours())
        size = self.catch_up()
        since, until = period.since, period.until
        exchanges, errors = self.counts.exchanges(since, until)
        rules, policies = self.counts.rules(since, until), self.counts.policies(since, until)
        return PoliciesPage(period, exchanges, rules, errors, policies, self.counts.reach(size))

    def sessions(self, asked: SessionFilter, *, before: str = "") -> SessionsPage:
        """Return a page of sessions: by name where one is looked for, else the newest activity first."""
        size = self.catch_up()
        rules = tuple(sorted({row.rule for row in self.counts.rules("", "")}))
        with self._asking() as question:
            models = question.models()
            page = _by_name(question, asked, after=before, is_database=self.place.is_database) if asked.search else None
            page = page or _by_activity(question, asked, before=before)
        return replace(page, models=models, rules=rules, total=size, first=not before)

    def session(self, name: str, *, before: int | None = None) -> SessionPage:
        """Return one session's exchanges, newest first."""
        with self._asking() as question:
            ((last,),) = question.ask(_TAIL, name)
            start = before if before is not None else 0 if last is None else int(last) + 1
            rows = [row_of_payload(row) for row in question.passports(_OF_SESSION, name, start, _PAGE + 1)]
        if not rows:
            raise EmptyInputError(f"no exchange of session `{name}`", hint="search for it by the beginning of its name")
        following = rows[_PAGE - 1].seq if len(rows) > _PAGE else None
        return SessionPage(name, tuple(rows[:_PAGE]), int(last or 0) + 1, following)


def period_of(hours: Sequence[str], *, range_: str = "", since: str = "", until: str = "") -> Period:
    """Return the period that a reader asks for, in buckets that a chart has room for; a range ends with the last hour."""
    if not hours:
        return Period((), Step.HOUR, range_)
    end = _hour_at(hours[-1])
    last = min(_hour_at(until, last=True), end) if until else end
    length = RANGES[range_ or "7d"]
    first = _hour_at(since) if since else _hour_at(hours[0]) if length is None else last - timedelta(hours=length - 1)
    first = max(first, _hour_at(hours[0]))
    last = max(last, first)
    count = int((last - first).total_seconds() // 3600) + 1
    step = Step.HOUR if count <= _HOURS_SHOWN else Step.DAY if count <= 24 * _DAYS_SHOWN else Step.MONTH
    names = (f"{first + timedelta(hours=n):%Y-%m-%dT%H}"[: step.chars] for n in range(count))
    return Period(tuple(dict.fromkeys(names)), step, "" if since or until else range_ or "7d")


def _hour_at(text: str, *, last: bool = False) -> datetime:
    """Return the hour that a day or an hour begins with, or a day's last."""
    return datetime.fromisoformat(f"{text}:00" if "T" in text else f"{text}T{'23' if last else '00'}:00")


def _shares(name: str, group: GroupRates) -> Shares:
    return Shares(
        name, group.exchanges, group.unanswered, group.model_refused, group.provider_filtered, group.gateway_denied
    )


def _series(
    names: Sequence[str], groups: Sequence[GroupRates], whole: Sequence[GroupRates], rate: Callable[[GroupRates], Rate]
) -> tuple[RateSeries, ...]:
    total = {group.group[0]: rate(group) for group in whole}
    return tuple(
        RateSeries(
            name,
            total[name],
            tuple(RatePoint(group.group[1], rate(group)) for group in groups if group.group[0] == name),
        )
        for name in names
    )


def _decisions(counts: Sequence[tuple[RateKey, int]], period: Period) -> tuple[DecisionBucket, ...]:
    found: dict[str, Counter[str]] = {at: Counter() for at in period.buckets}
    for key, n in counts:
        if key.hour in found:
            found[key.hour][key.decision] += n
    return tuple(DecisionBucket(at, effects) for at, effects in found.items())


def _matches(row: ExchangeRow, asked: SessionFilter) -> bool:
    return (
        asked.model in ("", row.model)
        and asked.decision in ("", row.decision)
        and (not asked.cause or asked.cause in row.causes)
        and (not asked.rule or asked.rule in row.rules)
        and (not asked.gaps or row.gaps > 0)
        and asked.since <= row.at
        and (not asked.until or row.at[: len(asked.until)] <= asked.until)
    )


def _by_activity(question: _Question, asked: SessionFilter, *, before: str) -> SessionsPage:
    low = question.place_of(asked.since) if asked.since else 0
    high = int(before) if before else question.place_of(asked.until + "~") if asked.until else question.size
    rows: list[tuple[ExchangeRow, int]] = []
    stop, seen, read = high, set[str](), 0
    while stop > low and read < _MOST_READ:
        window = list(question.passports(_NEWEST, low, stop, _WINDOW))
        if not window:
            stop = low
        for passport in window:
            read, stop = read + 1, passport.place
            row = row_of_payload(passport)
            if row.session in seen or not _matches(row, asked):
                continue
            seen.add(row.session)
            if (last := _last_unlisted(question, row, asked)) is not None:
                rows.append((row, last + 1))
            if len(rows) == _PAGE:
                return _sessions_page(rows, asked, str(stop) if stop > low else None)
    unfinished = stop > low
    reached = str(question.ask(_AT, stop)[0][0]) if unfinished else None
    page = _sessions_page(rows, asked, str(stop) if unfinished else None)
    return replace(page, searched_to=reached)


def _last_unlisted(question: _Question, row: ExchangeRow, asked: SessionFilter) -> int | None:
    """Return the number of a session's last exchange; None where a newer one that matches was listed before."""
    ((last,),) = question.ask(_TAIL, row.session)
    for newer in question.passports(_OF_SESSION, row.session, int(last) + 1, min(int(last) - row.seq, _WINDOW)):
        if newer.seq > row.seq and _matches(row_of_payload(newer), asked):
            return None
    return int(last)


def _by_name(question: _Question, asked: SessionFilter, *, after: str, is_database: bool) -> SessionsPage:
    search = asked.search
    if is_database:
        found = question.ask(_LIKE_POSTGRES, after, search, search, _MOST_READ // _PAGE)
    else:
        found = question.ask(_LIKE, after, search, search + "\U0010ffff", _MOST_READ // _PAGE)
    rows: list[tuple[ExchangeRow, int]] = []
    for session, last in found:
        newest = (row_of_payload(row) for row in question.passports(_OF_SESSION, session, int(last) + 1, _WINDOW))
        row = next((row for row in newest if _matches(row, asked)), None)
        rows += [] if row is None else [(row, int(last) + 1)]
        if len(rows) == _PAGE:
            return _sessions_page(rows, asked, str(session))
    more = str(found[-1][0]) if len(found) == _MOST_READ // _PAGE else None
    return _sessions_page(rows, asked, more)


def _sessions_page(
    rows: Sequence[tuple[ExchangeRow, int]], asked: SessionFilter, following: str | None
) -> SessionsPage:
    return SessionsPage(tuple(rows), asked, (), (), 0, following)
