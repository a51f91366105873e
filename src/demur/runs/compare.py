"""What counts say: from the tally of one run to its rates, from that of two to a comparison.

Only the tally and the settings matter, so that every engine gives the same result. Nothing to compare is an error, never a pass.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from demur.errors import EmptyInputError
from demur.measure.clusters import clustered_difference
from demur.measure.decision import (
    change_of,
    conclusion_of,
    data_flags,
    false_discovery,
    gate_of,
    non_inferiority,
    rate_flags,
    rate_severity,
)
from demur.measure.labels import corrected_difference
from demur.measure.paired import (
    agreeing_interval,
    flips_to_undo,
    paired_bounds,
    paired_difference,
    percentile_interval,
    resampled_interval,
)
from demur.measure.plan import churn_of, clusters_of, min_clusters, power_of, smoothed_share
from demur.measure.pooling import pooled_differences
from demur.measure.rates import unpaired_bounds, unpaired_difference, wilson
from demur.measure.sequential import anytime_difference, sequential_gate
from demur.measure.watching import paired_evidence
from demur.model.comparison import (
    Change,
    Clustering,
    ClusterSum,
    Comparison,
    Decision,
    DiffSettings,
    GateMode,
    OutcomeGap,
    PairCounts,
    Pairing,
    Power,
    SliceComparison,
)
from demur.model.estimate import Difference, Flag, Interval
from demur.model.run import Group, GroupDifference, Scan
from demur.model.verdict import NOT_JUDGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demur.measure.clusters import ClusterEffect
    from demur.model.comparison import GateResult, Tally
    from demur.model.estimate import Evidence, PooledDifference, Rate
    from demur.model.labels import LabelCorrection
    from demur.model.run import ScanTally

__all__ = ["MAX_COMPARED", "REST", "compare_tally", "scan_tally"]

# A field of more values is nearer to a key than to a group.
MAX_COMPARED = 100
"""Values of a field compared with its rest: a field of more is nearer to a key than to a group."""
REST = "the rest"
MAX_PROMPTS_CHANGED = 0.01
"""The share of ids with another prompt above which two runs are not of the same questions."""


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
    judged = [(name, number) for name, number in outcomes if name in counted or name not in NOT_JUDGED]
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
_OF_ONE_LOOK = (Flag.UNDERPOWERED, Flag.FEW_DISCORDANT)


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
    counts = None if tally.pairing is Pairing.NONE else tally.counts
    people = None if settings.gate is GateMode.SEED else found.correction
    if people is not None:
        # People decide: theirs is the headline and the gate's difference. Shadow's gate knows its detector alone.
        difference, counts = people.difference, PairCounts(*people.expected)
        low, high = difference.interval.low, difference.interval.high
    # Severity and its interval are Shadow's throughout, so that a gate by severity decides as Shadow's does.
    severity = rate_severity(difference.value, low, high)
    change = change_of(difference, alpha=settings.alpha, margin=settings.margin)
    gate = gate_of(difference, severity, settings, decision=change, counts=counts)
    doubts = _doubts(tally, settings, change=change, gate=gate, clustering=found.clustering, people=people)
    if doubts:
        change = Change.INCONCLUSIVE
        gate = gate_of(difference, severity, settings, decision=change, counts=counts)
    if settings.sequential:
        gate = sequential_gate(difference, gate, settings)
    elif settings.prove_no_increase is not None:
        gate = non_inferiority(difference, settings, margin=settings.prove_no_increase)
    if people is not None and people.lacking is not None:
        # Labels that are too few decide nothing, neither a failure nor a pass.
        gate = replace(gate, failed=False, undecided=True, unsettled=gate.unsettled or settings.fail_inconclusive)
    return Comparison(
        tally=tally,
        settings=settings,
        baseline=found.rates[0],
        candidate=found.rates[1],
        difference=difference,
        seed_interval=found.seed_interval,
        severity=severity,
        flags=_flags(found, settings, low, high),
        decision=Decision(
            conclusion_of(change, settings.gate_on),
            change,
            "; ".join(doubt.sentence for doubt in doubts) or _reason(difference, change, settings),
        ),
        power=found.power,
        clustering=found.clustering,
        missing_bounds=found.missing_bounds,
        slices=_slices(tally, settings),
        correction=found.correction,
        gate=_within_limits(_doubted(gate, doubts), tally, settings),
        gaps=tuple(_gaps(tally, settings.alpha)),
        doubts=tuple(doubt.sentence for doubt in doubts),
        flips_to_undo=None
        if found.clustering or people or settings.sequential
        else flips_to_undo(tally.counts, alpha=settings.alpha / (settings.family.factor if settings.family else 1)),
    )


def _flags(found: _Findings, settings: DiffSettings, low: float, high: float) -> tuple[Flag, ...]:
    """Return what to bear in mind; what is said of power is for a test that looks once."""
    flags = rate_flags(found.least_n, low, high) + data_flags(
        found.rates,
        found.power,
        discordant=found.discordant,
        clustered=found.clustering is not None,
        calibrated=found.correction is not None and found.correction.lacking is None,
    )
    return tuple(flag for flag in flags if not (settings.sequential and flag in _OF_ONE_LOOK))


def _slices(tally: Tally, settings: DiffSettings) -> tuple[SliceComparison, ...]:
    """Return each slice compared, with its q among all of them."""
    differences = [_difference(cut.counts, cut.clusters, settings.alpha)[0] for cut in tally.slices]
    # Adjusted for multiple comparisons: of twenty slices one differs by chance at the 5 % level.
    discoveries = false_discovery([difference.p for difference in differences])
    pooled = _pooled_slices(tally, settings) if settings.pool_slices else [None] * len(differences)
    return tuple(
        SliceComparison(
            cut.field,
            cut.value,
            cut.counts,
            *_rates(cut.counts, settings.alpha),
            difference,
            q,
            change_of(difference, alpha=settings.alpha, margin=settings.margin, q=q),
            drawn,
        )
        for cut, difference, q, drawn in zip(tally.slices, differences, discoveries, pooled, strict=True)
    )


def _pooled_slices(tally: Tally, settings: DiffSettings) -> list[PooledDifference | None]:
    """Return each slice's pooled difference: pooled with the slices of its field, which share no pairs with it."""
    fields = dict.fromkeys(cut.field for cut in tally.slices)
    found = {
        field: iter(pooled_differences([cut for cut in tally.slices if cut.field == field], alpha=settings.alpha))
        for field in fields
    }
    return [next(found[cut.field]) for cut in tally.slices]


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Why nothing is concluded, and whether the gate could have come out otherwise."""

    sentence: str
    gate: bool


def _reason(difference: Difference, change: Change, settings: DiffSettings) -> str:
    """Return why this can be said, and no more."""
    low, high = (f"{100 * end:+.1f}" for end in (difference.interval.low, difference.interval.high))
    interval, margin = f"the interval is {low} to {high} points", f"±{100 * settings.margin:g} points"
    if change is Change.EQUIVALENT:
        return f"{interval}, all of it within {margin}"
    if change is Change.INCONCLUSIVE:
        return f"{interval}: it holds 0, and it reaches beyond {margin}"
    return f"{interval} and does not hold 0"


def _doubts(
    tally: Tally,
    settings: DiffSettings,
    *,
    change: Change,
    gate: GateResult,
    clustering: Clustering | None,
    people: LabelCorrection | None,
) -> tuple[_Doubt, ...]:
    """Return why nothing can be concluded although there are numbers."""
    if tally.pairing is Pairing.NONE:
        return ()
    missing, doubts = tally.missing, []
    if people is not None and people.lacking is not None:
        doubts.append(_Doubt(people.lacking, gate=False))
    if (
        clustering is not None
        and clustering.count < min_clusters(settings.alpha)
        and settings.gate is not GateMode.SEED
    ):
        # The least p-value that sign flips of G clusters can give is 2^-G, which is above 5 % up to G = 4.
        groups = f"{clustering.count:,} {'sessions' if clustering.field == 'session' else 'groups'}"
        doubts.append(_Doubt(f"{groups} cannot support a test at {100 * settings.alpha:g} %", gate=False))
    if tally.pairing is Pairing.ID and tally.prompts_changed > MAX_PROMPTS_CHANGED * missing.matched:
        found = f"{tally.prompts_changed:,} of {missing.matched:,} ids ask another prompt in the candidate"
        doubts.append(_Doubt(f"{found}, so the runs are not of the same questions", gate=True))
    if missing.matched < settings.min_paired * missing.smaller:
        found = f"{missing.matched:,} of {missing.smaller:,} rows of the smaller run have a counterpart in the other"
        doubts.append(
            _Doubt(f"only {found}, below the {100 * settings.min_paired:g} % that a comparison needs", gate=True)
        )
    for gap in _gaps(tally, settings.alpha):
        rise = gap.difference
        # Where many more responses are missing than before, the rest is another sample of questions than it was.
        if rise is not None and rise.p <= settings.alpha and rise.value >= settings.margin:
            doubts.append(_Doubt(f"{gap.outcome} responses rose by {100 * rise.value:.1f} points", gate=True))
    unjudged = missing.baseline_known_abstained + missing.baseline_known_answered + missing.candidate_known_abstained
    unjudged += missing.candidate_known_answered - missing.unmatched_baseline[1] - missing.unmatched_candidate[1]
    unjudged += missing.both_unjudged
    if unjudged:
        others = [_alternative(tally, unknown, settings, people) for unknown in missing.pairs_by_extremes]
        if any(other[0] is not change for other in others):
            names = " and ".join(str(gap.outcome) for gap in missing.gaps)
            what = f"{unjudged:,} pairs have a response without a verdict ({names})"
            doubts.append(
                _Doubt(f"{what}, and their verdicts could change the result", any(o[1] != gate.failed for o in others))
            )
    return tuple(doubts)


def _alternative(
    tally: Tally, unknown: PairCounts, settings: DiffSettings, people: LabelCorrection | None
) -> tuple[Change, bool]:
    """Return the decision, and whether the gate would fail, had the pairs without a verdict come out like this."""
    seen = tally.counts if people is None else PairCounts(*people.expected)
    counts = PairCounts(
        seen.both + unknown.both,
        seen.baseline_only + unknown.baseline_only,
        seen.candidate_only + unknown.candidate_only,
        seen.neither + unknown.neither,
    )
    # Each unknown pair is taken for a cluster of its own: which one it belongs to is not counted.
    lone = ((-1, unknown.baseline_only), (1, unknown.candidate_only), (0, unknown.both + unknown.neither))
    clusters = (*tally.clusters, *(ClusterSum(net, 1, n) for net, n in lone if n)) if tally.clusters else ()
    difference, _ = _tested(counts, clusters, settings)
    if people is not None:
        difference = _shifted(people.difference, unknown, settings.alpha)
        interval = difference.interval.low, difference.interval.high
        severity = rate_severity(difference.value, *interval)
        change = change_of(difference, alpha=settings.alpha, margin=settings.margin)
        return change, gate_of(difference, severity, settings, counts=counts).failed
    interval = percentile_interval(counts.baseline_only, counts.candidate_only, counts.n)
    severity = rate_severity(difference.value, *interval)
    return (
        change_of(difference, alpha=settings.alpha, margin=settings.margin),
        gate_of(difference, severity, settings, counts=counts).failed,
    )


def _shifted(difference: Difference, unknown: PairCounts, alpha: float) -> Difference:
    """Return a difference by labels had further pairs, of which nothing is known, come out like this."""
    n, net = difference.n + unknown.n, unknown.candidate_only - unknown.baseline_only
    value, low, high = (
        (difference.n * end + net) / n for end in (difference.value, difference.interval.low, difference.interval.high)
    )
    interval = replace(difference.interval, low=low, high=high)
    return Difference(value, interval, 1.0 if low <= 0 <= high else alpha, n)


def _doubted(gate: GateResult, doubts: Sequence[_Doubt]) -> GateResult:
    """Return the gate's result with what weakens it; a doubt never turns a failure into a pass, nor leaves a pass that it could undo."""
    if not doubts:
        return gate
    if gate.failed:
        return replace(gate, why="; ".join([gate.why, *(doubt.sentence for doubt in doubts)]))
    # Shadow's gate knows two answers, but it too is not passed on pairs that are not there.
    unsettled = gate.unsettled or any(doubt.gate for doubt in doubts)
    if not (unsettled or gate.undecided):
        return gate
    why = "; ".join([*(doubt.sentence for doubt in doubts), gate.why])
    return replace(gate, unsettled=unsettled, undecided=True, why=why)


def _within_limits(gate: GateResult, tally: Tally, settings: DiffSettings) -> GateResult:
    """Return the gate's result, failed where more rows of a run than allowed are not judged."""
    over = []
    for outcome, limit in settings.limits:
        for name, run in (("baseline", tally.baseline), ("candidate", tally.candidate)):
            count = dict(run.outcomes).get(outcome, 0)
            if run.rows and count / run.rows > limit:
                over.append(f"{count:,} of {run.rows:,} rows of the {name} are {outcome}, more than {100 * limit:g} %")
    return replace(gate, failed=True, unsettled=False, why="; ".join([*over, gate.why])) if over else gate


def _gaps(tally: Tally, alpha: float) -> Iterator[OutcomeGap]:
    """Yield how often each outcome that is not judged came, where it came at all."""
    if tally.pairing is not Pairing.NONE:
        for gap in tally.missing.gaps:
            yield OutcomeGap(gap.outcome, *_rates(gap.counts, alpha), paired_difference(gap.counts, alpha=alpha))
        return
    for outcome in NOT_JUDGED:
        counts = [(dict(run.outcomes).get(outcome, 0), run.rows) for run in (tally.baseline, tally.candidate)]
        if any(count for count, _ in counts):
            yield OutcomeGap(outcome, wilson(*counts[0], level=1 - alpha), wilson(*counts[1], level=1 - alpha), None)


def _of_pairs(tally: Tally, settings: DiffSettings) -> _Findings:
    counts = tally.counts
    # A gate that passes because nothing was compared would be worse than none.
    if not counts.n:
        sides = ((gap.outcome, gap.counts) for gap in tally.missing.gaps)
        found = [
            (outcome, counts.both + counts.baseline_only, counts.both + counts.candidate_only)
            for outcome, counts in sides
        ]
        told = ", ".join(f"{outcome} {before:,} and {after:,}" for outcome, before, after in found)
        what = "no pair was judged in both runs" + (f" (baseline and candidate: {told})" if told else "")
        raise EmptyInputError(what, hint="check that both runs ask the same questions and hold responses")
    difference, effect = _tested(counts, tally.clusters, settings, evidence=tally.evidence)
    design = effect.design_effect if effect else 1.0
    power = power_of(
        counts.n,
        churn_of(counts, changed=difference.p <= settings.alpha),
        margin=settings.margin,
        alpha=settings.alpha,
        clusters=clusters_of(counts, tally.clusters),
    )
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
        _correction(tally, settings, difference, design),
    )


def _correction(
    tally: Tally, settings: DiffSettings, difference: Difference, design_effect: float
) -> LabelCorrection | None:
    """Return what people's labels say, beside the difference that the detector gives."""
    if tally.labels is None:
        return None
    found = corrected_difference(
        tally.labels, alpha=settings.alpha, margin=settings.margin, design_effect=design_effect
    )
    return replace(found, detector=difference)


def _of_runs(tally: Tally, settings: DiffSettings) -> _Findings:
    """Return what two runs of different questions say: pairs whose sides know nothing of each other."""
    before, after = tally.unpaired_baseline, tally.unpaired_candidate
    if not (before[1] and after[1]):
        raise EmptyInputError("a run has no answered row", hint="check that both runs hold responses")
    difference = _adjusted(unpaired_difference(after, before, alpha=_level(settings)), settings)
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


def _level(settings: DiffSettings) -> float:
    """Return the alpha of one interval: its share, where several candidates have one (Bonferroni)."""
    return settings.alpha if settings.family is None else settings.alpha / settings.family.count


def _adjusted(difference: Difference, settings: DiffSettings) -> Difference:
    """Return a difference with its p-value adjusted for the other candidates, and the interval in agreement with it."""
    if settings.family is None:
        return difference
    p = min(1.0, difference.p * settings.family.factor)
    # Holm's method proves at least what Bonferroni's intervals do; where it proves more, the interval ends just short of 0.
    ends = difference.interval.low, difference.interval.high
    low, high = agreeing_interval(ends, p=p, alpha=settings.alpha, delta=difference.value)
    return replace(difference, p=p, interval=replace(difference.interval, low=low, high=high))


def _tested(
    counts: PairCounts, clusters: Sequence[ClusterSum], settings: DiffSettings, *, evidence: Evidence | None = None
) -> tuple[Difference, ClusterEffect | None]:
    """Return the difference as it is asked for: at one look or at any, alone or among several candidates."""
    if settings.sequential:
        highest = evidence.highest if evidence else paired_evidence(counts.baseline_only, counts.candidate_only)
        return anytime_difference(counts, highest, alpha=settings.alpha), None
    difference, effect = _difference(counts, clusters, _level(settings))
    return _adjusted(difference, settings), effect


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
