"""Several candidates against one baseline: one chance of a false alarm for all of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.run_files import json_lines, questions

import demur
from demur.errors import UsageError
from demur.measure.decision import holm
from demur.measure.paired import mcnemar_midp
from demur.model.comparison import Change, DiffSettings, Missing, PairCounts, Pairing, Tally
from demur.model.estimate import Family
from demur.model.run import RunSummary
from demur.runs.compare import compare_tally
from demur.runs.several import compare_tallies

ALPHA = 0.05
midp = cache(mcnemar_midp)


def tally(b: int, c: int, n: int, *, both: int = 5) -> Tally:
    run = RunSummary("run", "flat", n, (), (), (), (), ())
    counts = PairCounts(both, b, c, n - both - b - c)
    return Tally(run, run, Pairing.ID, counts, missing=Missing(matched=n, smaller=n))


@pytest.mark.heavy
@pytest.mark.parametrize("many", [3, 4, 5])
def test_family_wise_false_alarms(many: int) -> None:
    """Where no candidate differs, any of three to five is called changed in at most 5.5 % of 8,000 families with a shared baseline."""
    rng = np.random.default_rng(18)
    alarms = total = 0
    for n, rate in ((60, 0.3), (150, 0.1)):
        for _ in range(4000):
            # The same questions and the same baseline for all, so that the tests depend on each other.
            chance = np.clip(rng.beta(0.5, 0.5 * (1 - rate) / rate, n), 0.02, 0.98)
            baseline = rng.random(n) < chance
            runs = rng.random((many, n)) < chance
            p = [midp(int((baseline & ~run).sum()), int((~baseline & run).sum())) for run in runs]
            alarms += min(one for one in holm(p) if one is not None) <= ALPHA
            total += 1
    assert alarms / total <= 0.055


@pytest.mark.heavy
def test_decisions_are_those_of_the_adjusted_p() -> None:
    """A candidate is called changed exactly where Holm's p is at most alpha, and exactly there 0 is outside its interval."""
    kinds = [tally(3, 3, 200), tally(2, 14, 200), tally(3, 14, 200), tally(0, 6, 200), tally(1, 30, 200)]
    for family in itertools.combinations(kinds, 3):
        compared = compare_tallies(family, DiffSettings())
        adjusted = holm(compared.unadjusted)
        for one, p in zip(compared.comparisons, adjusted, strict=True):
            interval = one.difference.interval
            is_proven = p is not None and p <= ALPHA
            assert one.difference.p == pytest.approx(p)
            assert (one.decision.change in (Change.INCREASED, Change.DECREASED)) is is_proven
            assert (interval.low <= 0 <= interval.high) is not is_proven
            assert interval.level == pytest.approx(1 - ALPHA / 3)


def test_one_candidate_alone_is_compared_as_ever() -> None:
    """A family of one is not adjusted."""
    alone = tally(2, 14, 200)
    assert compare_tallies([alone], DiffSettings()).comparisons == (compare_tally(alone),)


def test_an_adjusted_candidate_is_wider_and_less_sure() -> None:
    """Beside others the same counts have a wider interval and a larger p, and equivalence is harder to prove."""
    alone = compare_tally(tally(3, 11, 200))
    among = compare_tally(tally(3, 11, 200), DiffSettings(family=Family(3, 3.0)))
    assert alone.decision.change is Change.INCREASED
    assert among.decision.change is Change.INCONCLUSIVE
    assert among.difference.p == pytest.approx(3 * alone.difference.p)
    assert among.difference.interval.high > alone.difference.interval.high
    assert among.gate.word == "UNDECIDED"


def test_the_gate_of_all() -> None:
    """One failure fails all; without one, an undecided candidate stops the gate only where that is asked for."""
    same, unclear, worse = tally(2, 2, 400), tally(2, 6, 60), tally(1, 60, 400)
    assert compare_tallies([same, same], DiffSettings()).word == "PASS"
    assert compare_tallies([same, unclear, worse], DiffSettings()).failed
    undecided = compare_tallies([same, unclear], DiffSettings())
    assert (undecided.word, undecided.unsettled) == ("UNDECIDED", False)
    assert compare_tallies([same, unclear], DiffSettings(fail_inconclusive=True)).unsettled


def test_runs_of_different_questions_are_adjusted_too() -> None:
    """Without pairs the p-values are adjusted all the same."""
    apart = replace(tally(0, 0, 5), pairing=Pairing.NONE, unpaired_baseline=(10, 200), unpaired_candidate=(25, 200))
    compared = compare_tallies([apart, apart], DiffSettings())
    assert compared.comparisons[0].difference.p == pytest.approx(2 * compared.unadjusted[0])


def test_files_and_rows(tmp_path: Path) -> None:
    """Paths and rows in memory are compared in the order in which they were named, each with a name of its own."""
    base, worse = questions(200, range(4)), questions(200, range(50))
    path = json_lines(tmp_path / "worse.jsonl", worse)
    found = demur.compare_all(base, [base, str(path)], by=["category"])
    assert [one.tally.candidate.name for one in found.comparisons] == ["candidate_1", str(path)]
    assert [one.gate.word for one in found.comparisons] == ["PASS", "FAIL"]
    assert [flip.direction for flip in found.comparisons[1].tally.flips] == ["increase"] * 20
    assert demur.compare(base, str(path)).tally.counts == found.comparisons[1].tally.counts


@pytest.mark.parametrize(
    ("candidates", "keywords", "what"),
    [
        ([], {}, "no candidate"),
        (["a.jsonl", "a.jsonl"], {}, "`a.jsonl` is named twice"),
        (["a.jsonl"], {"unpaired": True, "by": ["category"]}, "without pairs"),
    ],
    ids=["none", "twice", "unpaired"],
)
def test_bad_input(candidates: list[str], keywords: dict[str, Any], what: str) -> None:
    """What cannot be compared is said in one line, before a run is read."""
    with pytest.raises(UsageError, match=what):
        demur.compare_all("base.jsonl", candidates, **keywords)


def test_several_are_not_looked_at_after_every_pair() -> None:
    """Several candidates and a sequential comparison exclude each other."""
    with pytest.raises(UsageError, match="after every pair"):
        compare_tallies([tally(1, 1, 50)] * 2, DiffSettings(sequential=True))
