"""A scan's tally becomes rates and differences between groups."""

from __future__ import annotations

import pytest

from demur.errors import EmptyInputError
from demur.measure.rates import unpaired_difference
from demur.model.run import GroupTally, RunSummary, ScanTally
from demur.runs.compare import MAX_COMPARED, REST, scan_tally


def run(**outcomes: int) -> RunSummary:
    return RunSummary("run", "jsonl", sum(outcomes.values()), tuple(outcomes.items()))


def group(field: str, value: str, **outcomes: int) -> GroupTally:
    return GroupTally(field, value, tuple(outcomes.items()))


RUN = run(complied=80, refused=15, filtered=3, partial=1, empty=1, failed=20)


def test_rates_count_judged_rows() -> None:
    """Refused and filtered abstain; all but the failed are judged; the whole is the sum of the runs."""
    scan = scan_tally(ScanTally((RUN, run(complied=10, unsure=2, refused=8))))
    assert [(rate.count, rate.n) for rate in scan.runs] == [(18, 100), (8, 20)]
    assert (scan.rate.count, scan.rate.n) == (26, 120)
    assert scan.rate.interval.method == "wilson"


def test_two_values_are_compared_once() -> None:
    """A field of two values gives the first against the second."""
    groups = (group("model", "a", complied=90, refused=10), group("model", "b", complied=70, refused=30, failed=5))
    scan = scan_tally(ScanTally((RUN,), groups))
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
    found = scan_tally(ScanTally((RUN,), groups)).differences
    assert [(d.value, d.against) for d in found] == [("law", REST), ("health", REST), ("code", REST), ("a", "b")]
    assert found[0].difference == unpaired_difference((60, 100), (15, 200))
    assert found[3].q == 1.0
    assert all(d.q >= d.difference.p for d in found)


def test_what_cannot_be_compared_is_not() -> None:
    """A lone value, and one without a judged row, have a rate and no difference."""
    groups = (
        group("model", "a", refused=5),
        group("day", "2026-01-01", failed=5),
        group("day", "2026-01-02", refused=1),
    )
    scan = scan_tally(ScanTally((RUN,), groups))
    assert scan.differences == ()
    assert scan.groups[1].rate.value is None


def test_only_the_largest_values_are_compared() -> None:
    """Of a field with very many values the hundred largest are compared, in their order."""
    groups = tuple(group("user", str(i), complied=i + 1, refused=1) for i in range(MAX_COMPARED + 50))
    found = scan_tally(ScanTally((RUN,), groups)).differences
    assert [d.value for d in found] == [str(i) for i in range(50, MAX_COMPARED + 50)]


@pytest.mark.parametrize("runs", [(), (run(),)])
def test_no_rows_is_an_error(runs: tuple[RunSummary, ...]) -> None:
    """An empty scan is never a rate of 0."""
    with pytest.raises(EmptyInputError):
        scan_tally(ScanTally(runs))


def test_rows_that_all_failed_have_no_rate() -> None:
    """Where every row failed the rate is not known."""
    assert scan_tally(ScanTally((run(failed=5),))).rate.value is None
