"""What counts say: from the tally of one run to its rates, from that of two to a comparison.

Only the tally and the settings matter, so that every engine gives the same result. Nothing to compare is an error, never a pass.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from demur.errors import EmptyInputError
from demur.measure.clusters import clustered_difference, min_clusters, rate_sums
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
from demur.measure.plan import churn_of, clusters_of, power_of, smoothed_share
from demur.measure.pooling import pooled_differences
from demur.measure.rates import clustered_rate, unpaired_bounds, unpaired_sessions, wilson
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
from demur.model.sessions import SessionSums
from demur.model.verdict import NOT_JUDGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demur.measure.clusters import ClusterEffect
    from demur.model.comparison import GateResult, Tally
    from demur.model.estimate import Evidence, PooledDifference, Rate, Severity
    from demur.model.labels import LabelCorrection
    from demur.model.run import GroupTally, ScanTally

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
        Group(g.field, g.value, _rate(_abstained_and_judged(g.outcomes, tally.counted), g.sums), g.outcomes)
        for g in tally.groups
    )
    contrasts = list(_contrasts(groups, tally.groups))
    discoveries = false_discovery([contrast.difference.p for contrast in contrasts])
    return Scan(
        tally,
        _rate((sum(abstained for abstained, _ in counted), sum(judged for _, judged in counted)), tally.sums),
        tuple(_rate(*each) for each in zip(counted, tally.run_sums or [None] * len(counted), strict=True)),
        groups,
        tuple(
            GroupDifference(c.field, c.value, c.against, c.difference, q)
            for c, q in zip(contrasts, discoveries, strict=True)
        ),
    )


def _abstained_and_judged(outcomes: Iterable[tuple[str, int]], counted: Sequence[str]) -> tuple[int, int]:
    judged = [(name, number) for name, number in outcomes if name in counted or name not in NOT_JUDGED]
    return sum(number for name, number in judged if name in counted), sum(number for _, number in judged)


def _rate(counted: tuple[int, int], sums: SessionSums | None, *, alpha: float = 0.05) -> Rate:
    """Return a rate whose interval counts sessions where rows come in them."""
    return wilson(*counted, level=1 - alpha) if sums is None else clustered_rate(sums, level=1 - alpha)


def _contrasts(groups: Sequence[Group], tallies: Sequence[GroupTally]) -> Iterator[_Contrast]:
    """Yield the differences of each field: of two values the first against the second, of more each against the rest."""
    fields: dict[str, list[tuple[Group, GroupTally]]] = defaultdict(list)
    for group, counted in zip(groups, tallies, strict=True):
        # A group without a judged row has no rate to compare.
        if group.rate.n:
            fields[group.field].append((group, counted))
    for field, found in fields.items():
        values = [group.value for group, _ in found]
        sides = [counted.sums or SessionSums.of_rows(group.rate.count, group.rate.n) for group, counted in found]
        if len(values) == 2:  # noqa: PLR2004 - one against the other
            yield _Contrast(field, values[0], values[1], unpaired_sessions(*sides))
        elif len(values) > 1:
            abstained, judged = sum(side.abstained for side in sides), sum(side.rows for side in sides)
            largest = sorted(range(len(values)), key=lambda i: -sides[i].rows)[:MAX_COMPARED]
            for i in sorted(largest):
                alone = SessionSums.of_rows(abstained - sides[i].abstained, judged - sides[i].rows)
                yield _Contrast(field, values[i], REST, unpaired_sessions(sides[i], found[i][1].rest or alone))


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
    asked = None if settings.gate is GateMode.SEED else found.correction
    # Labels that are too few decide nothing: the detector's figures stay, and the result is undecided.
    people = None if asked is None or asked.lacking is not None else asked
    if people is not None:
        # People decide: theirs is the headline and the gate's difference. Shadow's gate knows its detector alone.
        difference, counts = people.difference, PairCounts(*people.expected)
        low, high = difference.interval.low, difference.interval.high
    # Severity and its interval are Shadow's throughout, so that a gate by severity decides as Shadow's does.
    severity = rate_severity(difference.value, low, high)
    change = change_of(difference, alpha=settings.alpha, margin=settings.margin)
    gate = _gate(difference, severity, settings, change=change, counts=counts)
    doubts = _doubts(tally, settings, change=change, gate=gate, clustering=found.clustering, people=people)
    if asked is not None and asked.lacking is not None:
        doubts = (_Doubt(asked.lacking, gate=True), *doubts)
    if doubts:
        change = Change.INCONCLUSIVE
        gate = _gate(difference, severity, settings, change=change, counts=counts)
    if asked is not None and people is None:
        # Who asks people to decide gets no decision from too few of them: neither a failure nor a pass, and exit code 3.
        gate = replace(gate, failed=False, undecided=True, unsettled=True)
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


def _gate(
    difference: Difference, severity: Severity, settings: DiffSettings, *, change: Change, counts: PairCounts | None
) -> GateResult:
    """Return the result of the gate that was asked for: the usual one, one that may look often, or one that wants proof."""
    if settings.prove_no_increase is not None and not settings.sequential:
        return non_inferiority(difference, settings, margin=settings.prove_no_increase)
    gate = gate_of(difference, severity, settings, decision=change, counts=counts)
    return sequential_gate(difference, gate, settings) if settings.sequential else gate


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
            *_rates(cut.counts, settings.alpha, cut.clusters),
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
    doubts = [few] if (few := _few_clusters(tally, settings, clustering)) is not None else []
    missing = tally.missing
    if tally.pairing is not Pairing.NONE:
        # Shadow pairs by position whatever is asked, and its gate decides over such pairs.
        if settings.gate is not GateMode.SEED and tally.prompts_changed > MAX_PROMPTS_CHANGED * missing.matched:
            found = f"{tally.prompts_changed:,} of {missing.matched:,} pairs ask another prompt in the candidate"
            doubts.append(_Doubt(f"{found}, so the runs are not of the same questions", gate=True))
        if missing.matched < settings.min_paired * missing.smaller:
            found = (
                f"{missing.matched:,} of {missing.smaller:,} rows of the smaller run have a counterpart in the other"
            )
            least = f"{100 * settings.min_paired:g} %"
            doubts.append(_Doubt(f"only {found}, below the {least} that a comparison needs", gate=True))
    for gap in _gaps(tally, settings.alpha):
        rise = gap.difference
        # Where many more responses are missing than before, the rest is another sample of questions than it was.
        if rise is not None and rise.p <= settings.alpha and rise.value >= settings.margin:
            doubts.append(_Doubt(f"{gap.outcome} responses rose by {100 * rise.value:.1f} points", gate=True))
    return (*doubts, *_unknown_doubts(tally, settings, change=change, gate=gate, people=people))


def _unknown_doubts(
    tally: Tally, settings: DiffSettings, *, change: Change, gate: GateResult, people: LabelCorrection | None
) -> Iterator[_Doubt]:
    """Yield what is not known and could change the result: responses without a verdict, rows without a counterpart."""
    missing = tally.missing
    if tally.pairing is Pairing.NONE:
        unjudged = missing.baseline_failed + missing.candidate_failed
        others = _unpaired_alternatives(tally, settings) if unjudged else ()
        what = f"{unjudged:,} responses have no verdict"
    else:
        known = missing.baseline_known_abstained + missing.baseline_known_answered + missing.candidate_known_abstained
        known += missing.candidate_known_answered - missing.unmatched_baseline[1] - missing.unmatched_candidate[1]
        unjudged = known + missing.both_unjudged
        extremes = missing.pairs_by_extremes if unjudged else ()
        others = tuple(_alternative(tally, unknown, settings, people) for unknown in extremes)
        names = " and ".join(str(gap.outcome) for gap in missing.gaps)
        what = f"{unjudged:,} pairs have a response without a verdict ({names})"
    stops = any(_undoes(gate, other[1]) for other in others)
    if stops or any(other[0] is not change for other in others):
        yield _Doubt(f"{what}, and their verdicts could change the result", gate=stops)
    alone = missing.baseline_unmatched + missing.candidate_unmatched
    # Whoever allows rows without a counterpart knows why they are missing; Shadow's gate knows no others.
    if tally.pairing is Pairing.NONE or not alone or not settings.min_paired or settings.gate is GateMode.SEED:
        return
    # A sequential comparison says nothing of questions that have not been asked yet.
    if settings.sequential:
        return
    unmatched = [_alternative(tally, unknown, settings, people) for unknown in missing.unmatched_by_extremes]
    stops = any(_undoes(gate, other[1]) for other in unmatched)
    if stops or any(other[0] is not change for other in unmatched):
        what = f"{alone:,} rows have no counterpart in the other run"
        yield _Doubt(f"{what}, and one could change the result (--allow-unmatched leaves them out)", gate=stops)


def _undoes(gate: GateResult, other: str) -> bool:
    """Return whether another word of the gate's would take a pass back, or fail what did not fail."""
    return other != gate.word and not gate.failed and (gate.word == "PASS" or other == "FAIL")


def _unpaired_alternatives(tally: Tally, settings: DiffSettings) -> tuple[tuple[Change, str], ...]:
    """Return the decision and the gate's word had the responses without a verdict been the worst, and the best."""
    (x1, n1), (x2, n2) = tally.unpaired_candidate, tally.unpaired_baseline
    more, fewer = tally.missing.candidate_failed, tally.missing.baseline_failed
    found = []
    for after, before in (((x1 + more, n1 + more), (x2, n2 + fewer)), ((x1, n1 + more), (x2 + fewer, n2 + fewer))):
        difference = unpaired_sessions(SessionSums.of_rows(*after), SessionSums.of_rows(*before), alpha=settings.alpha)
        severity = rate_severity(difference.value, difference.interval.low, difference.interval.high)
        change = change_of(difference, alpha=settings.alpha, margin=settings.margin)
        found.append((change, _gate(difference, severity, settings, change=change, counts=None).word))
    return tuple(found)


def _few_clusters(tally: Tally, settings: DiffSettings, clustering: Clustering | None) -> _Doubt | None:
    """Return the doubt that there are too few sessions for any test, where that is so."""
    if clustering is None or settings.gate is GateMode.SEED:
        return None
    counts, where = [clustering.count], ""
    if tally.unpaired_sums is not None:
        counts, where = [side.sessions for side in tally.unpaired_sums if side.is_grouped], " on a side"
    # The least p-value that sign flips of G clusters can give is 2^-G, which is above 5 % up to G = 4.
    if min(counts) >= min_clusters(settings.alpha):
        return None
    word = {"session": "session", "session of either run": "session", "question": "question"}.get(
        clustering.field, "group"
    )
    groups = f"{min(counts):,} {word}{'' if min(counts) == 1 else 's'}{where}"
    return _Doubt(f"{groups} cannot support a test at {100 * settings.alpha:g} %", gate=False)


def _alternative(
    tally: Tally, unknown: PairCounts, settings: DiffSettings, people: LabelCorrection | None
) -> tuple[Change, str]:
    """Return the decision, and what the gate would say, had the pairs without a verdict come out like this."""
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
    else:
        interval = percentile_interval(counts.baseline_only, counts.candidate_only, counts.n)
        severity = rate_severity(difference.value, *interval)
    change = change_of(difference, alpha=settings.alpha, margin=settings.margin)
    return change, _gate(difference, severity, settings, change=change, counts=counts).word


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
        alpha=_level(settings),
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
        _rates(counts, settings.alpha, tally.clusters),
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
    first, second = tally.unpaired_sums or (SessionSums.of_rows(*before), SessionSums.of_rows(*after))
    difference = _adjusted(unpaired_sessions(second, first, alpha=_level(settings)), settings)
    # Runs of different questions are treated as pairs whose sides know nothing of each other.
    p, q = smoothed_share(*before), smoothed_share(*after)
    worth = 2 / sum(side.design_effect / side.rows for side in (first, second))
    power = power_of(worth, p * (1 - q) + q * (1 - p), margin=settings.margin, alpha=settings.alpha)
    clustering = None
    if first.is_grouped or second.is_grouped:
        rows, alone = first.rows + second.rows, sum(side.rows / side.design_effect for side in (first, second))
        field = tally.cluster_field or "session"
        clustering = Clustering(field, first.sessions + second.sessions, rows / alone, alone)
    bounds = unpaired_bounds(
        after, before, first_failed=tally.missing.candidate_failed, second_failed=tally.missing.baseline_failed
    )
    rates = clustered_rate(first, level=1 - settings.alpha), clustered_rate(second, level=1 - settings.alpha)
    return _Findings(rates, difference, difference.interval, min(before[1], after[1]), None, power, bounds, clustering)


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


def _rates(counts: PairCounts, alpha: float, clusters: Sequence[ClusterSum] = ()) -> tuple[Rate, Rate]:
    """Return the rates of both runs, whose intervals count clusters where pairs come in them."""
    before, after = counts.both + counts.baseline_only, counts.both + counts.candidate_only
    sums = rate_sums(clusters) or (None, None)
    return _rate((before, counts.n), sums[0], alpha=alpha), _rate((after, counts.n), sums[1], alpha=alpha)
