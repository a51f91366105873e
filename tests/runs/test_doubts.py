"""A comparison concludes nothing from almost nothing: few pairs, and responses without a verdict, are said and stop the gate."""

from __future__ import annotations

from typing import Any

import pytest

from demur.errors import EmptyInputError, UsageError
from demur.model.comparison import Change, DiffSettings, Pairing
from demur.model.verdict import Outcome
from demur.runs.api import compare, scan

YES, NO = "Sure, here is the answer.", "I'm sorry, but I can't help with that."
WEIRD = [{"type": "weird", "value": 1}]


def rows(*groups: tuple[int, object], start: int = 0) -> list[dict[str, Any]]:
    """Return rows with consecutive ids: for each group so many with this response."""
    texts = [text for count, text in groups for _ in range(count)]
    return [
        {"id": f"q{start + i}", "prompt": f"question {start + i}", "response": text} for i, text in enumerate(texts)
    ]


def chat(row: dict[str, Any], content: object) -> dict[str, Any]:
    """Return the row as a provider's log, with this content."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    body = {"id": row["id"], "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return {
        "id": row["id"],
        "request": {"model": "m", "messages": [{"role": "user", "content": row["prompt"]}]},
        "response": body,
    }


@pytest.mark.parametrize(("shared", "settled"), [(1, False), (316, False), (320, False), (398, True), (400, True)])
def test_too_few_pairs_settle_nothing(shared: int, settled: bool) -> None:  # noqa: FBT001 — a column of the table
    """Too few rows with a counterpart, or others that could undo a pass: the result is inconclusive and the gate not passed."""
    before, after = rows((400, YES)), rows((shared, YES)) + rows((400 - shared, NO), start=1000)
    found = compare(before, after)
    assert (found.gate.unsettled, found.gate.failed) == (not settled, False)
    assert (found.decision.change is Change.INCONCLUSIVE) is not settled
    assert bool(found.doubts) is not settled
    missing = found.tally.missing
    assert (missing.matched, missing.smaller) == (shared, 400)
    assert missing.unmatched_candidate == (400 - shared, 400 - shared)


def test_unmatched_rows_can_be_allowed() -> None:
    """Whoever knows why so few rows pair says so, and gets the result of those."""
    found = compare(
        rows((100, YES)), rows((50, YES)) + rows((50, NO), start=1000), settings=DiffSettings(min_paired=0.0)
    )
    assert (found.decision.change, found.doubts, found.gate.unsettled) == (Change.INCONCLUSIVE, (), False)


def test_refusals_that_turned_empty_are_not_newly_answered() -> None:
    """They leave the denominator, have their own line, and the gate is not passed."""
    found = compare(rows((30, NO), (30, YES)), rows((30, ""), (30, YES)))
    assert (found.tally.counts.n, found.tally.counts.baseline_only) == (30, 0)
    assert (found.decision.change, found.gate.failed, found.gate.unsettled) == (Change.INCONCLUSIVE, False, True)
    (gap,) = found.gaps
    assert (gap.outcome, gap.baseline.count, gap.candidate.count) == (Outcome.EMPTY, 0, 30)
    assert gap.difference is not None
    assert gap.difference.p < 0.001


@pytest.mark.parametrize("text", ["", None], ids=["empty", "failed"])
def test_a_run_without_a_verdict_is_no_pass(text: str | None) -> None:
    """Fifty of fifty empty or failed responses are an error that says so."""
    with pytest.raises(EmptyInputError, match=r"no pair was judged in both runs .* 0 and 50"):
        compare(rows((50, YES)), rows((50, text)))


def test_unread_responses_are_counted_and_shown() -> None:
    """An unknown part type is `unread`: in no denominator, with its cause, its place and what stands there."""
    plain = rows((20, YES))
    found = scan([chat(row, WEIRD if i < 5 else YES) for i, row in enumerate(plain)])
    (run,) = found.tally.runs
    assert dict(run.outcomes) == {"complied": 15, "unread": 5}
    assert (found.rate.count, found.rate.n) == (0, 15)
    assert dict(run.causes)["unknown_part"] == 5
    assert {example.detail for example in run.unread} == {"a part of the unknown type `weird`"}


def test_unread_responses_that_could_change_the_result_settle_nothing() -> None:
    """A pass that the unread responses could turn into a failure is none."""
    plain = rows((400, YES))
    before = [chat(row, YES) for row in plain]
    few, many = ([chat(row, WEIRD if i < n else YES) for i, row in enumerate(plain)] for n in (2, 40))
    assert not compare(before, few).gate.unsettled
    found = compare(before, many)
    assert (found.decision.change, found.gate.unsettled) == (Change.INCONCLUSIVE, True)
    assert any("unread" in doubt for doubt in found.doubts)


def test_a_doubt_never_undoes_a_failure() -> None:
    """A proven increase fails the gate, however many other responses are unread."""
    before, after = rows((100, YES)), rows((40, NO), (50, YES), (10, ""))
    found = compare(before, after)
    assert found.gate.failed
    assert not found.gate.unsettled


@pytest.mark.parametrize(("limit", "failed"), [(0.04, True), (0.05, False)])
def test_a_limit_on_responses_without_a_verdict_fails_the_gate(limit: float, failed: bool) -> None:  # noqa: FBT001 — as above
    """More empty responses than allowed, in either run, fail the gate; exactly as many do not."""
    settings = DiffSettings(limits=((Outcome.EMPTY, limit),))
    found = compare(rows((5, ""), (95, YES)), rows((100, YES)), settings=settings)
    assert found.gate.failed is failed
    assert ("are empty, more than" in found.gate.why) is failed


def test_pairing_by_position() -> None:
    """As Shadow does: the first row with the first, whatever it asks; another number of rows is an error."""
    before, after = rows((10, YES)), rows((4, NO), (6, YES), start=500)
    found = compare(before, after, key="position")
    assert (found.tally.pairing, found.tally.counts.candidate_only, found.tally.counts.n) == (Pairing.POSITION, 4, 10)
    assert found.tally.prompts_changed == 10
    with pytest.raises(UsageError, match="different lengths cannot pair by position"):
        compare(before, after[:9], key="position")
