"""The dashboard's questions give the same answer as the records themselves, in bounded steps."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest
from tests.dashboard.dashboard_logs import filled_log, scene_of, session_of

from demur.dashboard.counts import PayloadRow, RecordCounts, row_of_payload
from demur.dashboard.reader import DashboardReader, period_of
from demur.dashboard.values import SessionFilter
from demur.record.store.location import LogPlace
from demur.report.charts import Step

EXCHANGES = 240
KINDS = [scene_of(number).kind for number in range(EXCHANGES)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> LogPlace:
    return filled_log(tmp_path_factory.mktemp("log"), EXCHANGES, texts=False)


@pytest.mark.heavy
@pytest.mark.parametrize("at_once", [1, 7, 100, 1000])
def test_counting_in_steps_comes_to_the_same(place: LogPlace, at_once: int) -> None:
    """However few records are read at a time, once all are read the counts are those of the log."""
    reader = DashboardReader(place, RecordCounts(at_once))
    steps = 1
    while not reader.is_caught_up():
        steps += 1
    assert steps == -(-EXCHANGES // at_once)
    assert dict(reader.counts.attacks("", "")) == {"injection": KINDS.count("attack"), "violence": KINDS.count("harm")}
    assert {rule.rule: rule.n for rule in reader.counts.rules("", "")} == {
        "no-attacks": KINDS.count("attack"),
        "watch-harm": KINDS.count("harm"),
    }
    assert sum(gap.n for gap in reader.counts.gaps("", "")) == KINDS.count("unscanned")


def test_the_latest_records_are_counted_first(place: LogPlace) -> None:
    """A first step reads the newest records, and says how many of how many."""
    reader = DashboardReader(place, RecordCounts(50))
    size = reader.catch_up()
    reach = reader.counts.reach(size)
    assert (reach.counted, reach.total, reach.whole) == (50, EXCHANGES, False)
    assert reader.counts.attacks("2026-01-20", "2026-01-20") == ()


def test_a_session_is_listed_once_at_its_newest_match(place: LogPlace) -> None:
    """Under a filter a session stands at its newest exchange that fits, whatever came after it."""
    page = DashboardReader(place).sessions(SessionFilter(cause="text_refusal"))
    sessions = [row.session for row, _ in page.rows]
    assert len(sessions) == len(set(sessions))
    assert {row.index for row, _ in page.rows} <= {n for n, kind in enumerate(KINDS) if kind == "refused"}
    for row, _ in page.rows:
        newer = range(row.index + 1, EXCHANGES)
        assert not any(KINDS[n] == "refused" and session_of(n) == row.session for n in newer)


@pytest.mark.parametrize(
    "asked",
    [
        SessionFilter(model="large-2026"),
        SessionFilter(decision="deny"),
        SessionFilter(decision="allow"),
        SessionFilter(cause="provider_filter"),
        SessionFilter(rule="watch-harm"),
        SessionFilter(gaps=True),
        SessionFilter(model="small-2026", cause="text_refusal", since="2026-01-22"),
        SessionFilter(rule='no "such" rule'),
    ],
)
def test_what_the_engine_sorts_out_would_not_have_fitted(place: LogPlace, asked: SessionFilter) -> None:
    """A filter finds the sessions that reading every record finds, whatever the engine looked for beforehand."""
    with DashboardReader(place).opened() as store:
        found = []
        for r in store.entries(0, EXCHANGES):
            payload = b64decode(json.loads(r.envelope)["payload"])
            found.append(row_of_payload(PayloadRow(r.index, payload, r.at, r.session or "", r.seq or 0)))
    fitting = {
        row.session
        for row in found
        if asked.model in ("", row.model)
        and asked.decision in ("", row.decision)
        and (not asked.cause or asked.cause in row.causes)
        and (not asked.rule or asked.rule in row.rules)
        and (not asked.gaps or row.gaps)
        and asked.since <= row.at
    }
    listed: list[str] = []
    before: str | None = ""
    while before is not None:
        page = DashboardReader(place).sessions(asked, before=before)
        listed += [row.session for row, _ in page.rows]
        before = page.following
    assert sorted(listed) == sorted(fitting)
    assert bool(fitting) is (asked.rule != 'no "such" rule')


def test_checkpoints_are_counted_without_being_read(place: LogPlace) -> None:
    """How many there are, and what the largest covers, is asked of the engine alone."""
    assert DashboardReader(place).checkpoints() == (1, EXCHANGES)


def test_nobody_waits_for_another_who_reads(place: LogPlace) -> None:
    """A reader who comes while another counts gets what is counted, at once, and reads nothing twice."""
    counts = RecordCounts(100)
    reader = DashboardReader(place, counts)
    reader.catch_up()
    inside: list[int] = []

    def read(_start: int, _stop: int) -> list[PayloadRow]:
        reader.catch_up()
        inside.append(counts.reach(EXCHANGES).counted)
        return []

    counts.follow(EXCHANGES, read)
    assert inside == [100]
    assert counts.reach(EXCHANGES).counted == 200


def test_a_time_is_found_by_its_place(place: LogPlace) -> None:
    """Sessions of a day are those whose exchanges are of that day."""
    page = DashboardReader(place).sessions(SessionFilter(since="2026-01-22", until="2026-01-22"))
    assert page.rows
    assert {row.at[:10] for row, _ in page.rows} == {"2026-01-22"}


def test_periods_end_with_the_log() -> None:
    """A range reaches back from the last hour on record, never before the first, in buckets that a chart has room for."""
    hours = ("2026-01-01T05", "2026-01-31T12")
    day = period_of(hours, range_="24h")
    assert (day.step, len(day.buckets), day.since, day.until) == (Step.HOUR, 24, "2026-01-30T13", "2026-01-31T12")
    assert (period_of(hours, range_="all").step, len(period_of(hours, range_="all").buckets)) == (Step.DAY, 31)
    assert period_of(("2020-01-01T00", "2026-01-31T12"), range_="all").step is Step.MONTH
    assert period_of(hours, since="2026-01-05", until="2026-01-06").buckets[0] == "2026-01-05T00"
    assert period_of((), range_="7d").buckets == ()


def test_an_overview_of_one_model_counts_it_alone(place: LogPlace) -> None:
    """Figures of one model are a part of those of all."""
    reader = DashboardReader(place)
    whole = reader.overview(lambda hours: period_of(hours, range_="all"))
    one = reader.overview(lambda hours: period_of(hours, range_="all"), model="large-2026")
    assert whole.all.exchanges == EXCHANGES
    assert one.all.exchanges == sum(scene_of(n).model == "large-2026" for n in range(EXCHANGES))
    assert [shares.name for shares in one.by_model] == ["large-2026"]
