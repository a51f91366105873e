"""Pairs one after another, in the order of the baseline's rows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.runs.run_files import Row, questions

import demur
from demur.errors import UsageError
from demur.measure.watching import paired_evidence
from demur.model.comparison import DiffSettings, GateMode

SETTINGS = DiffSettings(sequential=True)


def test_the_order_is_that_of_the_baseline() -> None:
    """Seven flips are proof at the seventh in the baseline's order, whatever the candidate's order."""
    base, candidate = questions(60, ()), questions(60, range(0, 70, 5))
    found = demur.compare(base, candidate[::-1], settings=SETTINGS)
    evidence = found.tally.evidence
    assert evidence is not None
    # Rows 0, 5, … 30 are refused: the seventh is row 31.
    assert (evidence.proven_at, evidence.pairs) == (31, 60)
    assert evidence.now == paired_evidence(0, 12)
    assert found.gate.word == "FAIL"
    assert found.difference.interval.method == "confidence sequence"


def test_a_run_that_is_not_finished_may_go_on() -> None:
    """A candidate of half the questions without a flip is undecided: neither a change nor its absence is proven."""
    found = demur.compare(questions(60, range(3)), questions(30, range(3)), settings=SETTINGS)
    assert (found.gate.word, found.gate.unsettled) == ("UNDECIDED", True)
    assert found.gate.why.startswith("go on")
    assert found.tally.evidence is not None
    assert found.tally.evidence.pairs == 30


def test_the_absence_of_a_change_is_proven_in_the_end() -> None:
    """Enough pairs without a flip exclude a rise as large as the margin."""
    found = demur.compare(questions(150, range(3)), questions(150, range(3)), settings=SETTINGS)
    assert (found.gate.word, found.decision.conclusion) == ("PASS", "equivalent")


def test_rows_without_a_verdict_are_not_passed_over() -> None:
    """Failed rows that could change the result leave it undecided."""
    candidate: list[Row] = questions(150, range(3))
    for row in candidate[100:]:
        row["response"] = ""
    found = demur.compare(questions(150, range(3)), candidate, settings=SETTINGS)
    assert found.doubts
    assert found.gate.word == "UNDECIDED"


def test_pairs_that_move_together_are_rejected() -> None:
    """Sessions and repeats are not independent pairs, and the error says what to do."""
    rows = [row | {"session_id": f"s{i // 5}"} for i, row in enumerate(questions(60, range(3)))]
    with pytest.raises(UsageError, match="needs independent pairs"):
        demur.compare(rows, rows, settings=SETTINGS)


@pytest.mark.parametrize(
    "asked",
    [
        {"settings": SETTINGS, "axes": ["safety", "length"]},
        {"settings": SETTINGS, "unpaired": True},
        {"settings": DiffSettings(sequential=True, gate=GateMode.SHADOW)},
    ],
    ids=["axes", "unpaired", "shadow"],
)
def test_what_is_for_one_look_is_rejected(asked: dict[str, Any]) -> None:
    """Further axes, runs without pairs and Shadow's gate have no test that holds at every look."""
    rows = questions(20, range(3))
    with pytest.raises(UsageError, match="cannot be looked at after every pair"):
        demur.compare(rows, rows, **asked)
