"""A rule over sessions sees the turns that each run had, those without a counterpart included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.axes.paired_exchanges import exchange, pair

import demur
from demur.axes.compare import AxesSettings, compare_axes
from demur.axes.rules.files import parse_rules
from demur.model.axes import AxisName, AxisResult
from demur.model.estimate import Severity

SESSIONS = 12
Row = dict[str, Any]


def run(turns: int, said: Callable[[int], str] = "Answer {}.".format, *, session: str = "s") -> list[Row]:
    """Sessions of so many turns."""
    return [
        {"id": f"{s}-{t}", "session_id": f"{session}{s}", "prompt": f"Q {s} {t}?", "response": said(t)}
        for s in range(SESSIONS)
        for t in range(turns)
    ]


def ruled(before: list[Row], after: list[Row], rule: str, **more: Any) -> AxisResult:
    settings = AxesSettings(axes=(AxisName.RULES,), rules=parse_rules(f"rules: [{{name: r, {rule}}}]"))
    compared = demur.compare(before, after, axes=settings, **more)
    assert compared.axes is not None
    [result] = compared.axes.report.results
    return result


@pytest.mark.heavy
def test_turns_that_only_the_candidate_has_are_counted() -> None:
    """More turns than allowed are seen though the baseline has none to pair them with, under either run's names."""
    for session in ("s", "renamed"):
        found = ruled(run(3), run(6, session=session), "max_turns: 4")
        assert (found.n, found.baseline, found.candidate, found.severity) == (SESSIONS, 0.0, 1.0, Severity.SEVERE)
        assert found.evidence[0].sentence == "candidate breaks `r` in 0-4: turn 5, where 4 are allowed"


def test_turns_that_only_the_baseline_has_are_its_own() -> None:
    """A session that ends early breaks what was said in the turn that is gone; the baseline, which said it, does not."""
    before = run(4, lambda turn: "Here is your receipt." if turn == 3 else "Go on.")
    found = ruled(before, run(3, lambda _: "Go on."), "must_include_text: receipt")
    assert (found.n, found.baseline, found.candidate) == (SESSIONS, 0.0, 1.0)
    assert found.evidence[0].sentence == "candidate breaks `r` in 0-2: nowhere says `receipt`"


def test_a_question_that_is_asked_again_leaves_the_turns_in_their_order() -> None:
    """Repeats pair in any order, and a session of the candidate still has its own turns as they came."""
    words = ("verify", "confirm", "pay")
    turns = [(s, word) for s in range(SESSIONS) for word in words]
    rows = [{"session_id": f"s{s}", "prompt": "continue", "response": f"{word} {s}"} for s, word in turns]
    louder = [{**row, "response": f"{row['response']}, surely!"} for row in rows]
    rule = """ltl: '!text("pay") W text("verify")'"""
    found = ruled(rows, louder, rule, key="prompt")
    assert (found.n, found.baseline, found.candidate) == (SESSIONS, 0.0, 0.0)
    turned = [row for s in range(SESSIONS) for row in louder[3 * s : 3 * s + 3][::-1]]
    assert ruled(rows, turned, rule, key="prompt").candidate == 1.0


def test_the_order_of_the_candidates_file_does_not_matter_where_questions_differ() -> None:
    """Turns that can be told apart come as the baseline has them."""
    rows = run(3, ("verify", "confirm", "pay").__getitem__)
    rule = """ltl: '!text("pay") W text("verify")'"""
    assert ruled(rows, rows[::-1], rule).candidate == 0.0


def test_a_failed_turn_without_a_counterpart_tears_its_session() -> None:
    """What one run alone asked, and did not get, leaves the session out."""
    extra = {"id": "x", "session_id": "s0", "prompt": "More?", "response": None}
    found = ruled(run(2), [*run(2), extra], "max_turns: 4")
    assert (found.n, found.missing) == (SESSIONS - 1, 1)


def test_failed_pairs_without_a_session_are_missing_from_rules_over_sessions() -> None:
    """A pair alone is a session of one, and counts as lost where it failed."""
    pairs = [pair(f"q{i}", "yes", exchange(None) if i < 3 else "yes") for i in range(8)]
    settings = AxesSettings(axes=(AxisName.RULES,), rules=parse_rules("rules: [{name: r, forbidden_text: nope}]"))
    [found] = compare_axes(pairs, settings).results
    assert (found.n, found.missing) == (5, 3)
