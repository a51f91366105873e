"""What does the dashboard ask of a log? Rates over time, sessions page by page, one exchange, and how the store is.

Laws: a log is opened to be read, for one question, and closed; no question reads more than a bounded number of records, however long
the log is; periods end with the log's last hour, so that the same log gives the same page. Finding a time by its place takes clocks
as running forwards, which `demur passport verify` checks.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from demur.dashboard.pages.values import (
    DecisionBucket,
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
from demur.dashboard.queries.counts import RecordCounts, row_of_payload
from demur.dashboard.queries.lists import PAGE, sessions_by_activity, sessions_by_name
from demur.dashboard.queries.question import LogQuestion
from demur.errors import EmptyInputError
from demur.record.store.entries import RateKey
from demur.record.store.rates import rates_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from demur.model.estimate import Rate
    from demur.record.store.location import LogPlace
    from demur.record.store.log_store import LogStore
    from demur.record.store.rates import GroupRates

__all__ = ["RANGES", "DashboardReader", "period_of"]

RANGES = {"24h": 24, "7d": 7 * 24, "30d": 30 * 24, "all": None}
_HOURS_SHOWN = 73
_DAYS_SHOWN = 190
_MODELS_SHOWN = 5
_A_LITTLE = 1_000
"""Records that are read at a time between requests: some fifteen milliseconds, for a gateway may serve from the same process."""
_NOTHING = RateKey("", "", "", "", answered=False)


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
    def _asking(self) -> Iterator[LogQuestion]:
        # The log itself says whether it is one of ours, and of this version.
        with self.opened(), closing(LogQuestion(self.place)) as question:
            yield question

    def by_day(self) -> tuple[tuple[str, ...], list[tuple[RateKey, int]]]:
        """Return the models on record, the busiest first, and the counts by day."""
        with self._asking() as question:
            return question.models(), question.counts(chars=Step.DAY.chars)

    def catch_up(self, most: int | None = None) -> int:
        """Read on what the hourly counts do not hold, so many records at most; return how many there are."""
        with self._asking() as question:
            size = question.size
            self.counts.follow(size, question.stretch, most=most)
        return size

    def is_caught_up(self) -> bool:
        """Read on a little, and return whether all records were read by then."""
        return self.counts.reach(self.catch_up(_A_LITTLE)).whole

    def checkpoints(self) -> tuple[int, int | None]:
        """Return how many checkpoints there are, and how many records the largest covers."""
        with self._asking() as question:
            return question.checkpoints()

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
            if asked.search:
                page = sessions_by_name(question, asked, after=before)
            else:
                page = sessions_by_activity(question, asked, before=before)
        return replace(page, models=models, rules=rules, total=size, first=not before)

    def session(self, name: str, *, before: int | None = None) -> SessionPage:
        """Return one session's exchanges, newest first."""
        with self._asking() as question:
            last = question.last_of(name)
            start = before if before is not None else 0 if last is None else last + 1
            rows = [row_of_payload(row) for row in question.of_session(name, start, most=PAGE + 1)]
        if not rows:
            raise EmptyInputError(f"no exchange of session `{name}`", hint="search for it by the beginning of its name")
        following = rows[PAGE - 1].seq if len(rows) > PAGE else None
        return SessionPage(name, tuple(rows[:PAGE]), (last or 0) + 1, following)


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
