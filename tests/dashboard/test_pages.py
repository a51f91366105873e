"""The dashboard's pages as values: every word escaped, every rate with its interval, nothing invented where nothing is known."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.report.tags import parsed

from demur.dashboard.pages import Pages, link
from demur.dashboard.values import (
    ComparedSide,
    ComparePage,
    ExchangeRow,
    GapCount,
    HealthPage,
    Overview,
    PoliciesPage,
    Reach,
    SessionFilter,
    SessionPage,
    SessionsPage,
    Shares,
)
from demur.measure.rates import wilson
from demur.report.charts import DecisionBucket, Period, RatePoint, RateSeries, Step

HOSTILE = "\"><script>alert('1')</script>\u202e"
DAYS = Period(("2026-01-29", "2026-01-30", "2026-01-31"), Step.DAY, "7d")
ROW = ExchangeRow(3, "2026-01-31T12:00:00Z", "s-1", 0, "small", "allow")


def overview_of(name: str = "small") -> Overview:
    points = tuple(RatePoint(at, wilson(k, 20)) for at, k in zip(DAYS.buckets, (1, 2, 0), strict=True))
    line = RateSeries(name, wilson(3, 60), points)
    shares = Shares(name, 60, 0, 0, line.whole, line.whole, line.whole)
    decisions = tuple(DecisionBucket(at, {"allow": 10, "deny": number}) for number, at in enumerate(DAYS.buckets))
    rates, gaps = ((line,),) * 3, (GapCount(name, "request", name, 2),)
    return Overview(
        DAYS, (name, "other"), name, shares, (shares,), *rates, decisions, ((name, 3),), gaps, Reach(60, 60)
    )


def test_words_of_others_are_escaped_on_every_page() -> None:
    """A model, session, rule, category or key that is markup stays text, and every tag is closed."""
    row = ExchangeRow(3, "2026-01-31T12:00:00Z", HOSTILE, 0, HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), 1)
    asked = SessionFilter(search=HOSTILE, model=HOSTILE, rule=HOSTILE)
    side, reach, pages = ComparedSide(HOSTILE, HOSTILE, HOSTILE), Reach(1, 2, 3), Pages(can_leave=True)
    keys = ((HOSTILE, HOSTILE, HOSTILE),)
    for page in (
        pages.overview(overview_of(HOSTILE)),
        pages.sessions(SessionsPage(((row, 1),), asked, (HOSTILE,), (HOSTILE,), 1, HOSTILE)),
        pages.session(SessionPage(HOSTILE, (row,), 1, 0)),
        pages.compare(ComparePage(HOSTILE, side, side, (HOSTILE,), why=HOSTILE)),
        pages.policies(PoliciesPage(DAYS, 1, (), 1, ((HOSTILE, 1),), reach)),
        pages.health(HealthPage(HOSTILE, HOSTILE, 1, HOSTILE, HOSTILE, 1, 1, keys, HOSTILE, (), reach)),
        pages.error(400, HOSTILE, HOSTILE),
    ):
        assert "<script>" not in page
        assert "\u202e" not in page
        assert parsed(page).seen.count("script") == 1


def test_a_list_of_sessions_says_which_exchange_its_rows_show() -> None:
    """A row is the newest exchange, and nobody takes it for all of the session; a search says that it chose."""
    shown = SessionsPage(((ROW, 4),), SessionFilter(), ("small",), (), 4, None)
    assert "the newest exchange of its session; earlier ones may say otherwise" in Pages().sessions(shown)
    searched = replace(shown, asked=SessionFilter(decision="allow"))
    assert "a row shows the newest that fits" in Pages().sessions(searched)


def test_what_was_read_in_part_says_so() -> None:
    """Counts over a part of the records name the part, and unreadable records are told."""
    page = Pages().overview(replace(overview_of(), reach=Reach(50, 1000, 2)))
    assert "the latest 50 of 1,000 records" in page
    assert "2 records cannot be read" in page


@given(st.text(max_size=40))
def test_a_link_holds_any_text(text: str) -> None:
    """No text leaves its attribute or its field of the query."""
    made = link("/-/sessions", q=text or "x", model="", before=0)
    assert made.startswith("/-/sessions?q=")
    assert made.endswith("&before=0")
    assert not set('"<> \n') & set(made)


def test_a_page_has_one_first_heading_and_knows_where_it_is() -> None:
    """The title is the first heading, and the current page is marked in the navigation."""
    page = Pages("/-/").sessions(SessionsPage((), SessionFilter(), (), (), 0))
    assert page.count("<h1>") == 1
    assert 'href="/-/sessions" aria-current=page' in page


def test_the_way_out_is_shown_where_there_is_one() -> None:
    """Only a dashboard behind a token offers to log out."""
    assert "Log out" in Pages(can_leave=True).error(404, "x")
    assert "Log out" not in Pages().error(404, "x")


def test_a_choice_keeps_what_was_chosen() -> None:
    """Of each of the three choices the option in force is the selected one, alone."""
    page = Pages().sessions(SessionsPage(((ROW, 4),), SessionFilter(model="small"), ("large", "small"), (), 4))
    assert page.count(" selected>") == 3
    assert '<option value="small" selected>' in page
