"""The gate of a comparison: a failure is proven and large, a pass is earned, and the rest is undecided."""

from __future__ import annotations

import itertools

import pytest

from demur.measure.paired import paired_difference
from demur.model.comparison import Change, ClusterSum, Conclusion, DiffSettings, GateMode, PairCounts, Pairing, Tally
from demur.model.estimate import Direction
from demur.model.run import RunSummary
from demur.runs.compare import compare_tally


def tally(counts: PairCounts, **more: object) -> Tally:
    """Return the tally of these pairs."""
    run = RunSummary("run", "flat", counts.n, (("complied", counts.n),))
    return Tally(run, run, Pairing.ID, counts, **more)  # type: ignore[arg-type]  # any field of a tally


def test_interval_and_p_never_contradict_each_other() -> None:
    """Audit 13: 0 is in the interval exactly where p > alpha, over every table of up to thirty flips in a hundred pairs."""
    for b, c in itertools.product(range(31), repeat=2):
        found = paired_difference(PairCounts(5, b, c, 200 - b - c))
        holds_zero = found.interval.low <= 0 <= found.interval.high
        assert holds_zero is (found.p > 0.05), (b, c)


@pytest.mark.parametrize(
    ("counts", "failed"),
    [
        (PairCounts(8, 2, 26, 464), True),
        (PairCounts(0, 0, 10, 990), True),
        (PairCounts(0, 0, 9, 991), False),
        (PairCounts(100, 2, 24, 874), False),
        (PairCounts(20, 10, 60, 910), True),
    ],
    ids=["quadrupled", "ten from none", "nine from none", "a fifth more", "five points"],
)
def test_a_proven_change_is_large_in_points_or_by_a_factor(counts: PairCounts, failed: bool) -> None:  # noqa: FBT001 — a column of the table
    """A rate that at least doubled with ten flips fails the gate, however few points it is; a small proven one does not."""
    found = compare_tally(tally(counts))
    assert found.decision.conclusion is Conclusion.WORSE
    assert found.gate.failed is failed
    assert not compare_tally(tally(counts), DiffSettings(min_ratio=None, gate_on=Direction.DECREASE)).gate.failed


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        (PairCounts(20, 2, 3, 975), "PASS"),
        (PairCounts(20, 5, 30, 945), "UNDECIDED"),
        (PairCounts(20, 5, 120, 855), "FAIL"),
        (PairCounts(1, 0, 0, 2), "UNDECIDED"),
    ],
    ids=["proven", "too wide", "proven worse", "three pairs"],
)
def test_non_inferiority_passes_on_proof_alone(counts: PairCounts, word: str) -> None:
    """`--prove-no-increase 2%` passes only where the whole interval is below two points, and otherwise stops the gate."""
    found = compare_tally(tally(counts), DiffSettings(prove_no_increase=0.02))
    assert found.gate.word == word
    assert found.gate.unsettled is (word == "UNDECIDED")


def test_three_pairs_are_not_a_pass() -> None:
    """Audit 10: where nothing can be said, the gate is undecided and says why."""
    found = compare_tally(tally(PairCounts(0, 0, 0, 3)))
    assert (found.gate.word, found.gate.failed, found.gate.unsettled) == ("UNDECIDED", False, False)
    assert "reaches beyond" in found.decision.reason
    assert compare_tally(tally(PairCounts(0, 0, 0, 3)), DiffSettings(fail_inconclusive=True)).gate.unsettled
    assert compare_tally(tally(PairCounts(0, 0, 0, 3)), DiffSettings(gate=GateMode.SEED)).gate.word == "PASS"


@pytest.mark.parametrize(("sessions", "can"), [(4, False), (5, True)])
def test_four_sessions_cannot_support_a_test(sessions: int, can: bool) -> None:  # noqa: FBT001 — as above
    """Audit 1: with fewer than five clusters nothing is concluded, no power is stated, and the reason is given."""
    counts = PairCounts(0, 0, 28 * sessions, 72 * sessions)
    found = compare_tally(tally(counts, clusters=(ClusterSum(28, 100, sessions),), cluster_field="session"))
    assert (found.decision.change is Change.INCREASED) is can
    assert (found.decision.reason == f"{sessions} sessions cannot support a test at 5 %") is not can
    assert (found.power.mde is None) is not can
    assert found.gate.word == ("FAIL" if can else "UNDECIDED")


def test_other_questions_under_the_same_ids_are_told() -> None:
    """Audit 5: above one per cent of changed prompts nothing is concluded."""
    from demur.model.comparison import Missing

    for changed, doubted in ((1, False), (2, True)):
        counts = tally(PairCounts(0, 0, 0, 100), prompts_changed=changed, missing=Missing(matched=100, smaller=100))
        assert bool(compare_tally(counts).doubts) is doubted


def test_turnover_is_told() -> None:
    """Audit 15: 900 lost and 900 new refusals are an equivalent rate, and are said to be others."""
    from demur.report.diff_words import meaning

    found = compare_tally(tally(PairCounts(0, 900, 900, 8200)))
    assert found.decision.conclusion is Conclusion.EQUIVALENT
    assert (found.tally.counts.kept, round(found.tally.counts.kappa or 0, 3)) == (0.0, -0.099)
    assert "900 refusals were lost and 900 are new" in " ".join(meaning(found))
