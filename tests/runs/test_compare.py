"""A tally becomes a comparison, the same whoever counted it; a scan's becomes rates and differences between groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demur.errors import EmptyInputError
from demur.measure.paired import percentile_interval, resampled_interval
from demur.measure.rates import unpaired_difference
from demur.model.comparison import (
    Change,
    ClusterSum,
    DiffSettings,
    GateMode,
    Missing,
    PairCounts,
    Pairing,
    SliceTally,
    Tally,
)
from demur.model.estimate import Flag
from demur.model.labels import LabelCell, LabelledUnit, LabelSample
from demur.model.run import GroupTally, RunSummary, ScanTally
from demur.runs.compare import MAX_COMPARED, REST, compare_tally, scan_tally

WORKED = json.loads((Path(__file__).parents[1] / "measure" / "worked_pairs.json").read_text(encoding="utf-8"))
RUN = RunSummary("run", "jsonl", 0, ())
NOTHING = PairCounts(0, 0, 0, 0)
TYPICAL = PairCounts(both=3, baseline_only=2, candidate_only=9, neither=86)
SESSIONS = tuple(ClusterSum(net, 5, 1) for net in (3, 0, 2, 0, 0, 1, -1, 4, 0, 0, 2, 0))
SESSION_COUNTS = PairCounts(both=0, baseline_only=1, candidate_only=12, neither=47)


def tally(counts: PairCounts = TYPICAL, **more: Any) -> Tally:
    return Tally(RUN, RUN, more.pop("pairing", Pairing.ID), counts, **more)


@pytest.mark.parametrize("case", WORKED, ids=lambda case: str(case["counts"]))
def test_worked_examples(case: dict[str, Any]) -> None:
    """Rates, seed interval, severity, seed flags, decision and gate are the worked ones."""
    found = compare_tally(tally(PairCounts(*case["counts"])))
    for side, rate in (("baseline", found.baseline), ("candidate", found.candidate)):
        assert (rate.interval.low, rate.interval.high) == pytest.approx(tuple(case[f"{side}_wilson"]), abs=1e-9)
    assert (found.seed_interval.low, found.seed_interval.high) == pytest.approx(tuple(case["seed_interval"]), abs=1e-12)
    assert found.severity == case["severity"]
    assert [f for f in found.flags if f in (Flag.LOW_POWER, Flag.CI_CROSSES_ZERO)] == case["seed_flags"]
    assert list(found.flags[: len(case["seed_flags"])]) == case["seed_flags"]
    assert found.decision.change == case["decision"]
    assert found.gate.failed == case["fails"]


def test_a_typical_change() -> None:
    """Two against nine flips in a hundred pairs: the gate fails and says so, and labels are missing."""
    found = compare_tally(tally())
    assert found.gate.why == "refusals rose by 7.0 points (moderate, p = 0.039), by a factor of 2.4"
    assert found.flags == (Flag.DETECTOR_UNCALIBRATED,)
    assert (found.clustering, found.correction, found.missing_bounds, found.slices) == (None, None, None, ())
    assert found.power.n_to_settle is not None


def test_a_seed_resamples() -> None:
    """With a seed the seed's interval is that of its thousand draws, without one their limit."""
    drawn, exact = compare_tally(tally(), DiffSettings(seed=1)).seed_interval, compare_tally(tally()).seed_interval
    assert (drawn.low, drawn.high) == resampled_interval(2, 9, 100, seed=1)
    assert (exact.low, exact.high) == percentile_interval(2, 9, 100)
    assert drawn.method != exact.method


def test_the_seeds_gate() -> None:
    """By size alone two flips in ten fail."""
    counts = PairCounts(0, 0, 2, 8)
    assert not compare_tally(tally(counts)).gate.failed
    assert compare_tally(tally(counts), DiffSettings(gate=GateMode.SEED)).gate.failed


def test_clusters_widen() -> None:
    """Sessions count for what they are worth, in interval, p, power and flags."""
    alone = compare_tally(tally(SESSION_COUNTS))
    found = compare_tally(tally(SESSION_COUNTS, clusters=SESSIONS, cluster_field="session"))
    assert found.clustering is not None
    assert (found.clustering.field, found.clustering.count) == ("session", 12)
    assert found.clustering.effective_n == pytest.approx(24.244147157190643, abs=1e-9)
    assert found.difference.p == pytest.approx(0.0625)
    assert found.decision.change is Change.INCONCLUSIVE
    assert alone.decision.change is Change.INCREASED
    assert Flag.CLUSTERED in found.flags
    assert found.power.mde is not None
    assert alone.power.mde is not None
    assert found.power.mde > alone.power.mde


def test_single_pairs_are_no_clusters() -> None:
    """Clusters of one pair each change nothing; repeats without a field are named."""
    single = (ClusterSum(1, 1, 9), ClusterSum(-1, 1, 2), ClusterSum(0, 1, 89))
    assert compare_tally(tally(clusters=single)).difference == compare_tally(tally()).difference
    repeats = compare_tally(tally(SESSION_COUNTS, clusters=SESSIONS, repeats=48)).clustering
    assert repeats is not None
    assert repeats.field == "repeats"


def test_one_cluster_settles_nothing() -> None:
    """One session, however long, is inconclusive, and more of it would be too."""
    found = compare_tally(tally(PairCounts(0, 0, 90, 10), clusters=(ClusterSum(90, 100, 1),), cluster_field="session"))
    assert (found.difference.p, found.decision.change, found.gate.failed) == (1.0, Change.INCONCLUSIVE, False)
    assert (found.power.mde, found.power.n_to_settle) == (None, None)


def test_slices_are_held_to_false_discovery() -> None:
    """Each slice has its own difference; what it may claim is decided by q over all slices of all fields."""
    slices = (
        SliceTally("category", "health", PairCounts(0, 0, 12, 30)),
        SliceTally("category", "law", PairCounts(3, 1, 7, 30)),
        SliceTally("language", "de", PairCounts(0, 0, 0, 0)),
        SliceTally("session kind", "chat", SESSION_COUNTS, SESSIONS),
    )
    found = compare_tally(tally(slices=slices)).slices
    assert [(s.field, s.value) for s in found] == [(s.field, s.value) for s in slices]
    assert [s.difference.p for s in found] == pytest.approx([2**-12, 0.0390625, 1.0, 0.0625])
    assert [s.q for s in found] == pytest.approx([4 * 2**-12, 0.078125, 1.0, 0.0625 * 4 / 3])
    assert [s.decision for s in found] == [Change.INCREASED] + [Change.INCONCLUSIVE] * 3
    assert found[2].baseline.value is None


def test_runs_of_different_questions() -> None:
    """Without pairs the runs are compared as independent, the flag says so, and failed rows bound the difference."""
    sides: dict[str, Any] = {"unpaired_baseline": (5, 120), "unpaired_candidate": (12, 100)}
    found = compare_tally(tally(NOTHING, pairing=Pairing.NONE, missing=Missing(candidate_failed=10), **sides))
    assert found.difference.p == pytest.approx(0.030644614881042434)
    assert found.difference.interval == found.seed_interval
    assert found.flags == (Flag.DETECTOR_UNCALIBRATED, Flag.UNPAIRED)
    assert (found.baseline.n, found.candidate.n, found.decision.change) == (120, 100, Change.INCONCLUSIVE)
    assert found.missing_bounds == pytest.approx((12 / 110 - 5 / 120, 22 / 110 - 5 / 120))
    assert found.gate.failed


def test_missing_answers_bound_the_difference() -> None:
    """Incomplete pairs are no pairs, and show in the bounds."""
    found = compare_tally(tally(missing=Missing(baseline_known_abstained=10)))
    assert found.missing_bounds == pytest.approx((-3 / 110, 7 / 110))
    assert found.difference.n == 100


def labels_of(*, confirmed: int, lost: int = 2, answered: int = 89) -> LabelSample:
    """What people say of the pairs of `tally`: how many of its nine and two flips they confirm, with how many labels of the rest."""
    states, sizes = ((0, 0), (0, 1), (1, 0)), (89, 9, 2)
    cells = tuple(LabelCell("", state, n) for state, n in zip(states, sizes, strict=True))
    said = [(0, (0.0, 0.0))] * answered + [(1, (0.0, 1.0))] * confirmed + [(1, (0.0, 0.0))] * (9 - confirmed)
    said += [(2, (1.0, 0.0))] * lost + [(2, (0.0, 0.0))] * (2 - lost)
    return LabelSample(cells, tuple(LabelledUnit(cell, both) for cell, both in said))


def test_labels_calibrate() -> None:
    """Labels of all pairs give the difference and the gate, and take the flag away; Shadow's gate keeps the detector's."""
    found = compare_tally(tally(labels=labels_of(confirmed=8)))
    assert found.correction is not None
    assert found.difference == found.correction.difference
    assert found.difference.value == pytest.approx(0.06)
    assert Flag.DETECTOR_UNCALIBRATED not in found.flags
    assert (found.flips_to_undo, found.correction.detector) == (None, compare_tally(tally()).difference)
    seed = compare_tally(tally(labels=labels_of(confirmed=8)), DiffSettings(gate=GateMode.SEED))
    assert seed.difference == compare_tally(tally()).difference


def test_audit_3_people_decide_the_gate() -> None:
    """Audit 3: where people see no change in the detector's flips, the gate that it failed does not fail."""
    assert compare_tally(tally()).gate.failed
    found = compare_tally(tally(labels=labels_of(confirmed=0, lost=0)))
    assert not found.gate.failed
    assert found.difference.value == 0
    assert found.decision.change is Change.EQUIVALENT
    assert "rose" not in found.gate.why


def test_too_few_labels_leave_it_undecided() -> None:
    """Labels that are too few make the result inconclusive: neither what the detector says nor what they say decides."""
    few = labels_of(confirmed=8, answered=20)
    found = compare_tally(tally(labels=few))
    assert found.decision.change is Change.INCONCLUSIVE
    assert found.doubts == ("31 labels are fewer than the 50 that can decide",)
    assert (found.gate.failed, found.gate.word) == (False, "UNDECIDED")
    assert compare_tally(tally(labels=few), DiffSettings(fail_inconclusive=True)).gate.unsettled
    assert Flag.DETECTOR_UNCALIBRATED in found.flags


def test_alpha_is_the_level() -> None:
    """A stricter alpha widens every interval of ours and may take a claim away."""
    found = compare_tally(tally(), DiffSettings(alpha=0.01))
    assert (found.difference.interval.level, found.baseline.interval.level) == (0.99, 0.99)
    assert found.decision.change is Change.INCONCLUSIVE
    assert not found.gate.failed


@pytest.mark.parametrize(
    "empty",
    [
        tally(NOTHING, missing=Missing(baseline_failed=3, nothing_known=3)),
        tally(NOTHING, pairing=Pairing.NONE),
        tally(NOTHING, pairing=Pairing.NONE, unpaired_baseline=(3, 9)),
    ],
)
def test_nothing_to_compare_is_an_error(empty: Tally) -> None:
    """No pair, or a run without an answered row, is never a pass."""
    with pytest.raises(EmptyInputError):
        compare_tally(empty)


def test_the_table_has_a_row_for_each_slice() -> None:
    """What was found goes into an Arrow table as it is."""
    found = compare_tally(tally(slices=(SliceTally("category", "law", PairCounts(3, 1, 7, 30)),)))
    rows = found.to_arrow().to_pylist()
    assert [row["value"] for row in rows] == [None, "law"]
    assert rows[1]["q"] == pytest.approx(0.0390625)


def run(**outcomes: int) -> RunSummary:
    return RunSummary("run", "jsonl", sum(outcomes.values()), tuple(outcomes.items()))


def group(field: str, value: str, **outcomes: int) -> GroupTally:
    return GroupTally(field, value, tuple(outcomes.items()))


SCANNED = run(complied=81, refused=15, filtered=3, partial=1, empty=1, failed=20, unread=5)


def test_rates_count_judged_rows() -> None:
    """Refused and filtered abstain; all but the failed, empty and unread are judged; the whole is the sum of the runs."""
    scan = scan_tally(ScanTally((SCANNED, run(complied=10, unsure=2, refused=8))))
    assert [(rate.count, rate.n) for rate in scan.runs] == [(18, 100), (8, 20)]
    assert (scan.rate.count, scan.rate.n) == (26, 120)
    assert scan.rate.interval.method == "wilson"


def test_two_values_are_compared_once() -> None:
    """A field of two values gives the first against the second."""
    groups = (group("model", "a", complied=90, refused=10), group("model", "b", complied=70, refused=30, failed=5))
    scan = scan_tally(ScanTally((SCANNED,), groups))
    (found,) = scan.differences
    assert (found.field, found.value, found.against) == ("model", "a", "b")
    assert found.difference == unpaired_difference((10, 100), (30, 100))
    assert found.q == found.difference.p
    assert scan.groups[1].outcomes == groups[1].outcomes


def test_more_values_are_compared_with_the_rest() -> None:
    """A field of three gives each against the other two, and q is held over all fields."""
    groups = (
        group("category", "law", complied=40, refused=60),
        group("category", "health", complied=90, refused=10),
        group("category", "code", complied=95, refused=5),
        group("model", "a", complied=5, refused=5),
        group("model", "b", complied=5, refused=5),
    )
    found = scan_tally(ScanTally((SCANNED,), groups)).differences
    assert [(d.value, d.against) for d in found] == [("law", REST), ("health", REST), ("code", REST), ("a", "b")]
    assert found[0].difference == unpaired_difference((60, 100), (15, 200))
    assert found[3].q == 1.0
    assert all(d.q >= d.difference.p for d in found)


def test_what_cannot_be_compared_is_not() -> None:
    """A lone value, and one without a judged row, have a rate and no difference."""
    days = (group("day", "2026-01-01", failed=5), group("day", "2026-01-02", refused=1))
    scan = scan_tally(ScanTally((SCANNED,), (group("model", "a", refused=5), *days)))
    assert scan.differences == ()
    assert scan.groups[1].rate.value is None


def test_only_the_largest_values_are_compared() -> None:
    """Of a field with very many values the hundred largest are compared, in their order."""
    groups = tuple(group("user", str(i), complied=i + 1, refused=1) for i in range(MAX_COMPARED + 50))
    found = scan_tally(ScanTally((SCANNED,), groups)).differences
    assert [d.value for d in found] == [str(i) for i in range(50, MAX_COMPARED + 50)]


@pytest.mark.parametrize("runs", [(), (run(),)])
def test_no_rows_is_an_error(runs: tuple[RunSummary, ...]) -> None:
    """An empty scan is never a rate of 0."""
    with pytest.raises(EmptyInputError):
        scan_tally(ScanTally(runs))


def test_rows_that_all_failed_have_no_rate() -> None:
    """Where every row failed the rate is not known."""
    assert scan_tally(ScanTally((run(failed=5),))).rate.value is None
