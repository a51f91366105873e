"""The dashboard's pages as values: every word escaped, every figure with its doubt, nothing invented where nothing is known."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from demur.dashboard.pages.charts import decision_chart, interval_words, rate_chart, share_words, when
from demur.dashboard.pages.frame import PageFrame, href, panel, select
from demur.dashboard.pages.overview import overview_page
from demur.dashboard.pages.sessions import sessions_page
from demur.dashboard.pages.values import (
    DecisionBucket,
    ExchangeRow,
    GapCount,
    Overview,
    Period,
    RatePoint,
    RateSeries,
    Reach,
    SessionFilter,
    SessionsPage,
    Shares,
    Step,
)
from demur.measure.rates import wilson

HOSTILE = "\"><script>alert('1')</script>\u202e"
DAYS = Period(("2026-01-29", "2026-01-30", "2026-01-31"), Step.DAY, "7d")


def series_of(name: str = "small", counts: tuple[tuple[int, int], ...] = ((1, 20), (2, 30), (0, 10))) -> RateSeries:
    points = tuple(RatePoint(at, wilson(k, n)) for at, (k, n) in zip(DAYS.buckets, counts, strict=True))
    return RateSeries(name, wilson(sum(k for k, _ in counts), sum(n for _, n in counts)), points)


def overview_of(name: str = "small") -> Overview:
    line = series_of(name)
    shares = Shares(name, 60, 0, line.whole, line.whole, line.whole)
    decisions = tuple(DecisionBucket(at, {"allow": 10, "deny": number}) for number, at in enumerate(DAYS.buckets))
    gaps = (GapCount(name, "request", name, 2),)
    charts = (line,)
    return Overview(
        DAYS,
        (name, "other"),
        name,
        shares,
        (shares,),
        charts,
        charts,
        charts,
        decisions,
        ((name, 3),),
        gaps,
        Reach(60, 60),
    )


def test_words_of_others_are_escaped_on_every_page() -> None:
    """A model, session, rule or category that is markup stays text."""
    row = ExchangeRow(3, "2026-01-31T12:00:00Z", HOSTILE, 0, HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), 1)
    asked = SessionFilter(search=HOSTILE, model=HOSTILE, rule=HOSTILE)
    pages = (
        overview_page(PageFrame(), overview_of(HOSTILE)),
        sessions_page(PageFrame(), SessionsPage(((row, 1),), asked, (HOSTILE,), (HOSTILE,), 1, HOSTILE)),
        PageFrame().error(400, HOSTILE, HOSTILE),
    )
    for page in pages:
        assert "<script>" not in page
        assert "\u202e" not in page


def test_a_list_of_sessions_says_which_exchange_its_rows_show() -> None:
    """A row is the newest exchange, and nobody takes it for all of the session; a search says that it chose."""
    row = ExchangeRow(3, "2026-01-31T12:00:00Z", "s-1", 0, "small", "allow", (), (), 0)
    shown = SessionsPage(((row, 4),), SessionFilter(), ("small",), (), 4, None)
    assert "the newest exchange of its session; earlier ones may say otherwise" in sessions_page(PageFrame(), shown)
    searched = replace(shown, asked=SessionFilter(decision="allow"))
    assert "a row shows the newest that fits" in sessions_page(PageFrame(), searched)


def test_what_was_read_in_part_says_so() -> None:
    """Counts over a part of the records name the part, and unreadable records are told."""
    page = overview_page(PageFrame(), replace(overview_of(), reach=Reach(50, 1000, 2)))
    assert "the latest 50 of 1,000 records" in page
    assert "2 records cannot be read" in page


def test_a_chart_names_its_figures_in_a_sentence_and_a_table() -> None:
    """Whoever cannot see a chart hears the whole period's rate with its interval, and finds each bucket in a table."""
    chart = rate_chart((series_of(),), DAYS, name="Model refused")
    assert 'aria-label="Model refused over time, whole period: small 5.0 % (1.7 to 13.7 %)"' in chart
    assert chart.count('<th scope="row">') == 3


def test_a_bucket_without_data_is_a_gap_in_the_line() -> None:
    """Where nothing was counted no point is drawn, and the line is parted."""
    chart = rate_chart((series_of(counts=((1, 20), (0, 0), (2, 20))),), DAYS, name="x")
    assert chart.count("<circle") == 2
    assert 'class="band' not in chart


def test_every_interval_is_drawn() -> None:
    """A line of several buckets has one band, from the low ends to the high ends."""
    chart = rate_chart((series_of(), series_of("large")), DAYS, name="x")
    assert chart.count('class="band s0"') == chart.count('class="band s1"') == 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**6)), min_size=3, max_size=3))
def test_charts_stay_within_their_axes(counts: list[tuple[int, int]]) -> None:
    """Whatever the counts, every place of a chart lies between 0 and its height."""
    sound = tuple((min(k, n), n) for k, n in counts)
    chart = rate_chart((series_of(counts=sound),), DAYS, name="x")
    assert "nan" not in chart
    assert "-" not in "".join(part.partition('"')[0] for part in chart.split('cy="')[1:])


@given(st.lists(st.integers(0, 10**7), min_size=3, max_size=3))
def test_decisions_fill_at_most_the_height(counts: list[int]) -> None:
    """A column's parts add up to its share of the axis, which never is less than the largest column."""
    buckets = tuple(
        DecisionBucket(at, {"allow": n, "deny": n // 3}) for at, n in zip(DAYS.buckets, counts, strict=True)
    )
    heights = [
        float(part.partition('"')[0]) for part in decision_chart(buckets, DAYS).split('height="')[1:] if "." in part[:8]
    ]
    assert sum(heights) <= 3 * 192.1


def test_nothing_counted_is_a_dash() -> None:
    """A rate of nothing has no value and says that nothing was counted."""
    assert (share_words(wilson(0, 0)), interval_words(wilson(0, 0))) == ("–", "nothing counted")


def test_times_are_written_for_people() -> None:
    """Hours, days, months and times read as such; what is no time stays as it is."""
    assert when("2026-01-31T12") == "31 Jan 2026 12:00"
    assert when("2026-01-31T12:05:09") == "31 Jan 2026 12:05"
    assert when("2026-01-31") == "31 Jan 2026"
    assert when("2026-01") == "Jan 2026"
    assert when("never") == "never"


@given(st.text(max_size=40))
def test_a_link_holds_any_text(text: str) -> None:
    """No text leaves its attribute or its field of the query."""
    link = href("/-/sessions", {"q": text or "x", "model": ""})
    assert link.startswith("/-/sessions?q=")
    assert not set('"<>& \n') & set(link)


def test_a_page_has_one_first_heading_and_knows_where_it_is() -> None:
    """The title is the first heading, and the current page is marked in the navigation."""
    page = PageFrame("/-/").page("Health", [panel("Log", "x")], current="health")
    assert page.count("<h1>") == 1
    assert 'href="/-/health" aria-current=page' in page


def test_the_way_out_is_shown_where_there_is_one() -> None:
    """Only a dashboard behind a token offers to log out."""
    assert "Log out" in PageFrame(can_leave=True).page("x", [])
    assert "Log out" not in PageFrame().page("x", [])


def test_a_choice_keeps_what_was_chosen() -> None:
    """The option in force is the selected one, alone."""
    made = select("model", "Model", [("", "any"), ("a", "a")], chosen="a")
    assert made.count("selected") == 1
    assert '<option value="a" selected>' in made
