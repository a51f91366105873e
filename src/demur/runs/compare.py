"""What counts say: from the tally of one run to its rates, from that of two to a comparison.

Only the tally and the settings matter, so that every engine gives the same result. Nothing to compare is an error, never a pass.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import EmptyInputError
from demur.measure.clusters import clustered_difference
from demur.measure.decision import change_of, data_flags, false_discovery, gate_of, rate_flags, rate_severity
from demur.measure.labels import corrected_difference
from demur.measure.paired import (
    flips_to_undo,
    paired_bounds,
    paired_difference,
    percentile_interval,
    power_of,
    resampled_interval,
    smoothed_share,
)
from demur.measure.rates import unpaired_bounds, unpaired_difference, wilson
from demur.model.comparison import Clustering, Comparison, DiffSettings, Pairing, Power, SliceComparison
from demur.model.estimate import Interval
from demur.model.run import Group, GroupDifference, Scan
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demur.measure.clusters import ClusterEffect
    from demur.model.comparison import ClusterSum, LabelCorrection, PairCounts, Tally
    from demur.model.estimate import Difference, Rate
    from demur.model.run import ScanTally

__all__ = ["MAX_COMPARED", "REST", "compare_tally", "scan_tally"]

# A field of more values is nearer to a key than to a group.
MAX_COMPARED = 100
"""Values of a field compared with its rest: a field of more is nearer to a key than to a group."""
REST = "the rest"


@dataclass(frozen=True, slots=True)
class _Contrast:
    field: str
    value: str
    against: str
    difference: Difference


def scan_tally(tally: ScanTally) -> Scan:
    """Return the rates that a scan's tally amounts to, and the differences between groups."""
    counted = [_abstained_and_judged(run.outcomes, tally.counted) for run in tally.runs]
    if not any(number for run in tally.runs for _, number in run.outcomes):
        raise EmptyInputError("the runs hold no rows", hint="check the files and their format")
    groups = tuple(
        Group(g.field, g.value, wilson(*_abstained_and_judged(g.outcomes, tally.counted)), g.outcomes)
        for g in tally.groups
    )
    contrasts = list(_contrasts(groups))
    discoveries = false_discovery([contrast.difference.p for contrast in contrasts])
    return Scan(
        tally,
        wilson(sum(abstained for abstained, _ in counted), sum(judged for _, judged in counted)),
        tuple(wilson(*pair) for pair in counted),
        groups,
        tuple(
            GroupDifference(c.field, c.value, c.against, c.difference, q)
            for c, q in zip(contrasts, discoveries, strict=True)
        ),
    )


def _abstained_and_judged(outcomes: Iterable[tuple[str, int]], counted: Sequence[str]) -> tuple[int, int]:
    judged = [(name, number) for name, number in outcomes if name != Outcome.FAILED]
    return sum(number for name, number in judged if name in counted), sum(number for _, number in judged)


def _contrasts(groups: Iterable[Group]) -> Iterator[_Contrast]:
    """Yield the differences of each field: of two values the first against the second, of more each against the rest."""
    fields: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        # A group without a judged row has no rate to compare.
        if group.rate.n:
            fields[group.field].append(group)
    for field, values in fields.items():
        sides = [(group.rate.count, group.rate.n) for group in values]
        if len(values) == 2:  # noqa: PLR2004 - one against the other
            yield _Contrast(field, values[0].value, values[1].value, unpaired_difference(*sides))
        elif len(values) > 1:
            abstained, judged = (sum(column) for column in zip(*sides, strict=True))
            largest = sorted(range(len(values)), key=lambda i: -sides[i][1])[:MAX_COMPARED]
            for i in sorted(largest):
                rest = abstained - sides[i][0], judged - sides[i][1]
                yield _Contrast(field, values[i].value, REST, unpaired_difference(sides[i], rest))


_DEFAULTS = DiffSettings()


@dataclass(frozen=True, slots=True)
class _Findings:
    """What pairs, or runs without pairs, say, before any judgement of it."""

    rates: tuple[Rate, Rate]
    difference: Difference
    seed_interval: Interval
    least_n: int
    discordant: int | None
    power: Power
    missing_bounds: tuple[float, float] | None
    clustering: Clustering | None = None
    correction: LabelCorrection | None = None


def compare_tally(tally: Tally, settings: DiffSettings = _DEFAULTS) -> Comparison:
    """Return the comparison that a tally amounts to."""
    found = _of_runs(tally, settings) if tally.pairing is Pairing.NONE else _of_pairs(tally, settings)
    difference, low, high = found.difference, found.seed_interval.low, found.seed_interval.high
    # Severity and its interval are Shadow's throughout, so that a gate by severity decides as Shadow's does.
    severity = rate_severity(difference.value, low, high)
    flags = data_flags(
        found.rates,
        found.power,
        discordant=found.discordant,
        clustered=found.clustering is not None,
        calibrated=found.correction is not None,
    )
    decision = change_of(difference, alpha=settings.alpha, margin=settings.margin)
    differences = [_difference(cut.counts, cut.clusters, settings.alpha)[0] for cut in tally.slices]
    # Adjusted for multiple comparisons: of twenty slices one differs by chance at the 5 % level.
    discoveries = false_discovery([difference.p for difference in differences])
    slices = tuple(
        SliceComparison(
            cut.field,
            cut.value,
            cut.counts,
            *_rates(cut.counts, settings.alpha),
            difference,
            q,
            change_of(difference, alpha=settings.alpha, margin=settings.margin, q=q),
        )
        for cut, difference, q in zip(tally.slices, differences, discoveries, strict=True)
    )
    return Comparison(
        tally=tally,
        settings=settings,
        baseline=found.rates[0],
        candidate=found.rates[1],
        difference=difference,
        seed_interval=found.seed_interval,
        severity=severity,
        flags=rate_flags(found.least_n, low, high) + flags,
        decision=decision,
        power=found.power,
        clustering=found.clustering,
        missing_bounds=found.missing_bounds,
        slices=slices,
        correction=found.correction,
        gate=gate_of(difference, severity, settings, decision=decision),
        flips_to_undo=None if found.clustering else flips_to_undo(tally.counts, alpha=settings.alpha),
    )


def _of_pairs(tally: Tally, settings: DiffSettings) -> _Findings:
    counts = tally.counts
    # A gate that passes because nothing was compared would be worse than none.
    if not counts.n:
        raise EmptyInputError("no pair was answered in both runs", hint="check that both runs ask the same questions")
    difference, effect = _difference(counts, tally.clusters, settings.alpha)
    design = effect.design_effect if effect else 1.0
    power = power_of(
        counts.n / design,
        smoothed_share(counts.discordant, counts.n),
        margin=settings.margin,
        alpha=settings.alpha,
        design_effect=design,
    )
    if effect and effect.count == 1:
        # More pairs of the one cluster would settle nothing.
        power = Power(None, None)
    flips = counts.baseline_only, counts.candidate_only, counts.n
    if settings.seed is None:
        # Shadow resamples; without a seed to reproduce, its percentiles are computed exactly.
        seed_interval = Interval(*percentile_interval(*flips), "percentile bootstrap, exact")
    else:
        resampled = resampled_interval(*flips, seed=settings.seed)
        seed_interval = Interval(*resampled, "percentile bootstrap, resampled")
    clustering = None
    if effect is not None:
        field = tally.cluster_field or "repeats"
        clustering = Clustering(field, effect.count, effect.design_effect, effect.effective_n)
    return _Findings(
        _rates(counts, settings.alpha),
        difference,
        seed_interval,
        counts.n,
        counts.discordant,
        power,
        paired_bounds(counts, tally.missing),
        clustering,
        corrected_difference(counts, tally.labelled, alpha=settings.alpha, design_effect=design),
    )


def _of_runs(tally: Tally, settings: DiffSettings) -> _Findings:
    """Return what two runs of different questions say: pairs whose sides know nothing of each other."""
    before, after = tally.unpaired_baseline, tally.unpaired_candidate
    if not (before[1] and after[1]):
        raise EmptyInputError("a run has no answered row", hint="check that both runs hold responses")
    difference = unpaired_difference(after, before, alpha=settings.alpha)
    # Runs of different questions are treated as pairs whose sides know nothing of each other.
    p, q = smoothed_share(*before), smoothed_share(*after)
    power = power_of(
        2 / (1 / before[1] + 1 / after[1]), p * (1 - q) + q * (1 - p), margin=settings.margin, alpha=settings.alpha
    )
    bounds = unpaired_bounds(
        after, before, first_failed=tally.missing.candidate_failed, second_failed=tally.missing.baseline_failed
    )
    rates = wilson(*before, level=1 - settings.alpha), wilson(*after, level=1 - settings.alpha)
    return _Findings(rates, difference, difference.interval, min(before[1], after[1]), None, power, bounds)


def _difference(
    counts: PairCounts, clusters: Sequence[ClusterSum], alpha: float
) -> tuple[Difference, ClusterEffect | None]:
    # Clusters of one pair each are no clusters; the paired test is exact for them.
    if all(cluster.pairs <= 1 for cluster in clusters):
        return paired_difference(counts, alpha=alpha), None
    return clustered_difference(counts, clusters, alpha=alpha)


def _rates(counts: PairCounts, alpha: float) -> tuple[Rate, Rate]:
    before, after = counts.both + counts.baseline_only, counts.both + counts.candidate_only
    return wilson(before, counts.n, level=1 - alpha), wilson(after, counts.n, level=1 - alpha)
