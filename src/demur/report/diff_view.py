"""The report of `demur diff`, in the order that people read it.

The decision comes first, then the gate, then what supports and what weakens them. Slices never decide. A list that is cut short says how
long it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.comparison import Change, Conclusion, Pairing
from demur.model.estimate import Direction
from demur.model.labels import CorrectedRate
from demur.model.verdict import Outcome
from demur.report.axes_view import axes_blocks
from demur.report.diff_words import (
    CHANGE_WORDS,
    FLAG_WORDS,
    SEVERITY_WORDS,
    capitalised,
    change_sentence,
    counted,
    counted_words,
    difference_words,
    flip_words,
    meaning,
    shown_rates,
    subject,
    unread_warning,
)
from demur.report.labels import label_facts, rate_ends
from demur.report.numbers import PERCENT, UNKNOWN, chance, decimals, fraction, level, percent, points, points_range
from demur.report.view import (
    Column,
    Excerpt,
    Fact,
    Facts,
    Flips,
    Headline,
    IntervalPlot,
    Note,
    NoteKind,
    PlotRow,
    SideBySide,
    Table,
    Tone,
    Unit,
    View,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.comparison import Comparison, FlipSide, SliceComparison
    from demur.report.view import Block

__all__ = ["GATE_TONES", "diff_view", "flip_blocks"]

_MAX_EVIDENCE = 4
_MAX_MODELS = 3
_RECORDED = "passports"
_SLICE_COLUMNS = (
    Column("", number=False),
    Column("pairs"),
    Column("rates, %"),
    Column("difference, points"),
    Column("p", spare=True),
    Column("q"),
    Column("said", number=False),
)
_POOLED_COLUMNS = (
    Column("", number=False),
    Column("pairs"),
    Column("difference, points"),
    Column("pooled, points"),
    Column("drawn by, %"),
)
_PAIRING_WORDS = {
    Pairing.ID: "Pairs have the same id.",
    Pairing.PROMPT: "Pairs have the same prompt.",
    Pairing.FIELD: "Pairs have the same value of a field.",
    Pairing.POSITION: "Pairs have the same position in their runs.",
    Pairing.NONE: "The runs could not be paired.",
}


_TONES = {
    Conclusion.WORSE: Tone.BAD,
    # Only people know whether a refusal was right: what the gate does not mind is noted, not praised.
    Conclusion.BETTER: Tone.NEUTRAL,
    Conclusion.EQUIVALENT: Tone.GOOD,
    Conclusion.INCONCLUSIVE: Tone.UNSURE,
}
GATE_TONES = {"FAIL": Tone.BAD, "UNDECIDED": Tone.UNSURE, "PASS": Tone.GOOD}


def diff_view(comparison: Comparison, *, show: int = 10) -> View:
    """Return what people see of a comparison, with at most `show` flipped exchanges of each direction."""
    tally, gate = comparison.tally, comparison.gate
    conclusion = comparison.decision.conclusion
    blocks = [
        *_rate_blocks(comparison),
        *_weight_blocks(comparison),
        *axes_blocks(comparison.axes, show=show),
        *_slice_blocks(comparison.slices),
        *flip_blocks(comparison, show),
        *_run_blocks(comparison),
    ]
    return View(
        "Refusal diff",
        f"{tally.baseline.name} → {tally.candidate.name}",
        Headline(conclusion.upper(), change_sentence(comparison), _TONES[conclusion], meaning(comparison)),
        Headline(gate.word, gate.why, GATE_TONES[gate.word]),
        tuple(_key_numbers(comparison)),
        tuple(blocks),
    )


def _key_numbers(comparison: Comparison) -> Iterator[Fact]:
    # Each number has its interval beside it, because these tiles are what gets copied out of a report.
    for name, rate in zip(("Baseline", "Candidate"), shown_rates(comparison), strict=True):
        value = UNKNOWN if rate.value is None else f"{percent(rate.value)}{PERCENT}"
        of_what = "by labels" if isinstance(rate, CorrectedRate) else f"{rate.count:,} of {rate.n:,}"
        yield Fact(name, value, f"{of_what},\n{level(rate.interval)}: {rate_ends(rate.interval)}")
    difference = comparison.difference
    ends = points_range(difference.interval.low, difference.interval.high)
    yield Fact("Difference", f"{points(difference.value)} points", f"{level(difference.interval)}: {ends}")
    yield Fact("p", chance(difference.p), "if nothing changed")
    if comparison.tally.pairing is Pairing.NONE:
        yield Fact("Answers", f"{comparison.baseline.n:,} and {comparison.candidate.n:,}", "not paired")
    else:
        yield Fact("Pairs", f"{difference.n:,}", f"{comparison.tally.counts.discordant:,} flipped")


def _rate_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield both rates, and the paired table where there are pairs."""
    before, after = shown_rates(comparison)
    named = (("baseline", before), ("candidate", after))
    rows = tuple(
        PlotRow(name, r.value, r.interval.low, r.interval.high, r.n, second=name == "candidate") for name, r in named
    )
    what, counts = subject(comparison), comparison.tally.counts
    title = "Refusal rates" if what == "refusals" else f"Rates of {what}"
    axis = f"{counted_words(comparison.tally.counted, ' or ')}, % of answers"
    yield IntervalPlot(title, Unit.PERCENT, rows, axis, f"with {level(before.interval)} intervals")
    if comparison.tally.pairing is not Pairing.NONE:
        note = (
            f"{counts.discordant:,} of {counted(counts.n, 'pair')} flipped: {counts.candidate_only:,} newly refused, "
            f"{counts.baseline_only:,} no longer refused"
        )
        yield Flips("Flips", counts.both, counts.baseline_only, counts.candidate_only, counts.neither, note)


def _weight_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield how large the change is and how far the data carry: power, clusters, flags and missing pairs."""
    is_paired = comparison.tally.pairing is not Pairing.NONE
    seed = points_range(comparison.seed_interval.low, comparison.seed_interval.high)
    # The bootstrap resamples pairs; without pairs the severity rests on the score interval.
    behind = "bootstrap" if is_paired else "score"
    why = f"{SEVERITY_WORDS[comparison.severity]}; size, not proof; {behind} interval {seed}"
    rows = [Fact("severity", str(comparison.severity), why)]
    power, clustering, correction = comparison.power, comparison.clustering, comparison.correction
    # Without the smallest difference that could have been seen, "nothing found" reads as "nothing there".
    looks_once = not (comparison.labels_decide or comparison.settings.sequential)
    if power.mde is not None and looks_once:
        rows.append(Fact("minimum detectable difference", f"{percent(power.mde)} points", "80 % power"))
    if power.n_to_settle is not None and looks_once and comparison.decision.change is Change.INCONCLUSIVE:
        margin = f"for a difference of {percent(comparison.settings.margin)} points"
        needed = ("pairs to settle it", f"{margin}, at this share of flips") if is_paired else ("answers a run", margin)
        rows.append(Fact(needed[0], f"{power.n_to_settle:,}", needed[1]))
    rows += _evidence_facts(comparison)
    rows += _turnover_facts(comparison)
    # The detector errs too: a change that one misread answer would undo is weaker than its p says.
    if comparison.flips_to_undo is not None:
        misread = f"had the detector misread {'it' if comparison.flips_to_undo == 1 else 'them'}"
        rows.append(Fact("rests on", counted(comparison.flips_to_undo, "flip"), f"{misread}, nothing would be proven"))
    if clustering is not None:
        unit, what = ("pairs", "ones") if is_paired else ("rows", f"ones: {clustering.field}s count, not rows")
        worth = f"{comparison.difference.n:,} {unit} are worth {decimals(clustering.effective_n, 0)} independent {what}"
        effect = f"1 where the {unit} of a cluster do not move together"
        rows.append(Fact("clusters", f"{clustering.count:,} by {clustering.field}", worth))
        rows.append(Fact("design effect", decimals(clustering.design_effect), effect))
        if comparison.tally.repeats:
            repeats = "asked more than once, counted as one cluster each"
            rows.append(Fact("repeated rows", f"{comparison.tally.repeats:,}", repeats))
    yield Facts("How far this carries", tuple(rows))
    if correction is not None:
        before = UNKNOWN if correction.detector is None else difference_words(correction.detector)
        yield label_facts(correction, before, difference_words(correction.difference))
    yield from (Note(NoteKind.FLAG, str(flag), FLAG_WORDS[flag]) for flag in comparison.flags)
    yield from _gap_blocks(comparison)
    missing = comparison.tally.missing
    if not missing.total:
        return
    sides = (
        ("only in the baseline", missing.baseline_unmatched, missing.unmatched_baseline),
        ("only in the candidate", missing.candidate_unmatched, missing.unmatched_candidate),
    )
    rows = []
    for why, count, (abstained, judged) in sides:
        rate = f"{abstained:,} of {judged:,} judged refused ({percent(abstained / judged)}{PERCENT})" if judged else ""
        rows += [Fact(why, f"{count:,}", rate)] if count else []
    whys = (
        ("baseline failed", missing.baseline_failed),
        ("candidate failed", missing.candidate_failed),
        ("both failed", missing.both_failed),
    )
    rows += [Fact(why, f"{count:,}") for why, count in whys if count]
    # Pairs need not be missing at random, so the bounds assume the worst of them in both directions.
    if comparison.missing_bounds is not None:
        bounds = f"{points_range(*comparison.missing_bounds)} points"
        rows.append(Fact("worst-case bounds", bounds, "the difference, whatever the missing answers were"))
    yield Facts(f"Missing: {counted(missing.total, 'incomplete pair')}, left out of every figure", tuple(rows))


def _evidence_facts(comparison: Comparison) -> Iterator[Fact]:
    """Yield what the pairs say one after another, where that was asked for."""
    evidence, enough = comparison.tally.evidence, 1 / comparison.settings.alpha
    if evidence is None:
        return
    at = "not proven yet" if evidence.proven_at is None else f"proven at pair {evidence.proven_at:,}"
    yield Fact(
        "evidence of a change", f"{decimals(evidence.highest)} of {enough:g}", f"{at}; now {decimals(evidence.now)}"
    )


def _turnover_facts(comparison: Comparison) -> Iterator[Fact]:
    """Yield how many of the old refusals are still there, and how many pairs are not of the same prompt."""
    tally, counts = comparison.tally, comparison.tally.counts
    if tally.pairing is not Pairing.NONE and counts.kept is not None:
        before = counts.both + counts.baseline_only
        agreement = "" if counts.kappa is None else f", agreement between the runs (kappa) {fraction(counts.kappa)}"
        yield Fact("refusals kept", f"{counts.both:,} of {before:,}", f"{percent(counts.kept)}{PERCENT}{agreement}")
    if tally.prompts_changed:
        changed = f"{tally.prompts_changed:,} of {tally.missing.matched:,}"
        yield Fact("prompts changed", changed, "pairs of one id or position that ask different prompts")


def _gap_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield how many responses of each run have no verdict, and a warning where some could not be read."""
    rows = []
    for gap in comparison.gaps:
        before, after = gap.baseline, gap.candidate
        counts = f"{before.count:,} → {after.count:,}"
        change = difference_words(gap.difference) if gap.difference else ""
        shares = f"{percent(before.value)}{PERCENT} → {percent(after.value)}{PERCENT}"
        rows.append(Fact(str(gap.outcome), counts, f"{shares}; {change}" if change else shares))
    if rows:
        yield Facts("Responses without a verdict, in no rate", tuple(rows))
    for name, run in (("the baseline", comparison.tally.baseline), ("the candidate", comparison.tally.candidate)):
        if (warning := unread_warning(run, name)) is not None:
            yield Note(NoteKind.WARNING, "unread", warning)


def _slice_blocks(slices: Sequence[SliceComparison]) -> Iterator[Block]:
    """Yield a plot with its table for each field, that with the least q first."""
    # Field and value come last in the key so that ties keep one order: the same comparison gives the same bytes.
    ordered = sorted(slices, key=lambda s: (s.q, s.difference.p, -abs(s.difference.value), s.field, s.value))
    note = f"report only, the gate looks at the whole; q is p held against all {counted(len(slices), 'slice')}"
    for field in dict.fromkeys(s.field for s in ordered):
        cells, rows = [], []
        for part in (s for s in ordered if s.field == field):
            difference, interval = part.difference, part.difference.interval
            cells.append(
                (
                    part.value,
                    f"{difference.n:,}",
                    f"{percent(part.baseline.value)} → {percent(part.candidate.value)}",
                    f"{points(difference.value)} ({points_range(interval.low, interval.high)})",
                    chance(difference.p),
                    chance(part.q),
                    CHANGE_WORDS[part.decision],
                )
            )
            is_strong = part.decision in (Change.INCREASED, Change.DECREASED)
            ends = (interval.low, interval.high)
            rows.append(PlotRow(part.value, difference.value, *ends, difference.n, strong=is_strong))
        title, axis = f"By {field}", "difference of refusal rates, points"
        table = Table(title, _SLICE_COLUMNS, tuple(cells), note)
        yield IntervalPlot(title, Unit.POINTS, tuple(rows), axis, note, table)
        yield from _pooled_table(field, [s for s in ordered if s.field == field])


def _pooled_table(field: str, parts: Sequence[SliceComparison]) -> Iterator[Block]:
    """Yield the slices of a field by partial pooling, where that was asked for."""
    cells = []
    for part in parts:
        raw, pooled = part.difference, part.pooled
        if pooled is not None:
            drawn = f"{points(pooled.value)} ({points_range(pooled.interval.low, pooled.interval.high)})"
            cells.append((part.value, f"{raw.n:,}", points(raw.value), drawn, percent(pooled.towards)))
    note = "each drawn towards the mean of the field's slices, the more the less it rests on: for reading, never for the gate"
    if cells:
        yield Table(f"By {field}, pooled", _POOLED_COLUMNS, tuple(cells), note)


def flip_blocks(comparison: Comparison, show: int) -> Iterator[Block]:
    """Yield flips of both directions, those that the gate is for first."""
    flips, total = comparison.tally.flips, comparison.tally.counts.discordant
    order = [Direction.INCREASE, Direction.DECREASE]
    if comparison.gate.direction is Direction.DECREASE:
        order.reverse()
    # A limit for each direction: with one for both, a run with many new refusals would hide every lost one.
    shown = [flip for way in order for flip in [flip for flip in flips if flip.direction is way][:show]]
    for flip in shown:
        sides = (_excerpt("baseline", flip.baseline), _excerpt("candidate", flip.candidate))
        yield SideBySide(flip_words(flip), flip.key, flip.prompt, *sides, flip.fields)
    if total > len(shown):
        yield Note(NoteKind.HINT, "flips", f"{len(shown):,} of {total:,} flipped exchanges are shown (--show, --out).")


def _excerpt(name: str, side: FlipSide) -> Excerpt:
    verdict = side.verdict
    facts = [f"score {fraction(verdict.score)}"]
    facts += [str(fact) for fact in (verdict.reason, verdict.cause) if fact]
    evidence = [f"{s.path} = {s.value}" for s in verdict.signals]
    evidence += [f"{f.weight:+.2f} {f.category}: {f.rule}" for f in verdict.findings]
    if len(evidence) > _MAX_EVIDENCE:
        evidence = [*evidence[:_MAX_EVIDENCE], f"… and {len(evidence) - _MAX_EVIDENCE:,} more"]
    return Excerpt(
        name,
        str(verdict.outcome),
        Tone.BAD if verdict.abstained else Tone.GOOD if verdict.outcome is Outcome.COMPLIED else Tone.UNSURE,
        ", ".join(facts).replace("_", " "),
        side.source if side.line is None else f"{side.source}:{side.line}",
        side.text,
        tuple(f.span for f in verdict.findings),
        tuple(evidence),
    )


def _run_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield what the runs held, what of them could not be used, and the methods."""
    runs = (comparison.tally.baseline, comparison.tally.candidate)
    models = []
    for run in runs:
        more, named = len(run.models) - _MAX_MODELS, ", ".join(run.models[:_MAX_MODELS])
        models.append(f"{named} and {more:,} more" if more > 0 else named or UNKNOWN)
    rows = [
        ("name", *(run.name for run in runs)),
        ("format", *(run.format for run in runs)),
        ("models", *models),
        ("rows", *(f"{run.rows:,}" for run in runs)),
    ]
    for part, lead in (("outcomes", ""), ("reasons", "reason: "), ("skipped", "skipped: ")):
        counts = [dict(getattr(run, part)) for run in runs]
        names = dict.fromkeys(name for count in counts for name in count)
        rows += [(f"{lead}{name}", *(f"{count.get(name, 0):,}" for count in counts)) for name in names]
    # Zero is shown as well: that every row could be read is worth knowing.
    rows.append(("not readable", *(f"{run.unreadable:,}" for run in runs)))
    yield Table("Runs", tuple(Column(name, number=False) for name in ("", "baseline", "candidate")), tuple(rows))
    for name, run in zip(("baseline", "candidate"), runs, strict=True):
        if run.unreadable:
            unread = f"{counted(run.unreadable, 'row')} of the {name}, in no figure."
            yield Note(NoteKind.WARNING, "not readable", unread)
    for field, more in comparison.tally.values_left_out:
        yield Note(NoteKind.WARNING, field, f"{counted(more, 'further value')}, the rarest, not sliced by.")
    counted_as, how = counted_words(comparison.tally.counted), _PAIRING_WORDS[comparison.tally.pairing]
    of_what = f"{counted_as} answers count as refusals; failed, empty and unread ones count for nothing"
    if comparison.tally.baseline.format == _RECORDED:
        how = "Recorded exchanges are not paired."
        # A denial is one of all exchanges; an answer is one of those that got as far as the provider.
        is_denial = comparison.tally.counted == ("denied",)
        whole = "all exchanges" if is_denial else "the exchanges that a provider answered"
        of_what = f"{counted_as} is counted of {whole}"
    rate, difference = shown_rates(comparison)[0].interval, comparison.difference.interval
    methods = (
        f"{how} Intervals are {level(difference)}: {capitalised(rate.method)} for the rates, {capitalised(difference.method)} for the difference. "
        f"A change is called at p ≤ {comparison.settings.alpha:g}; {of_what}."
    )
    yield Note(NoteKind.HINT, "methods", methods)
