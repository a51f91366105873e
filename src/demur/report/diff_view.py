"""What does a reader of `demur diff` see, and in which order?

Laws: the decision comes first, then the gate, then what supports and what weakens them; slices are said to be report-only;
of flipped exchanges as many are shown as asked for, and how many there are is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.comparison import Change, Pairing
from demur.model.estimate import Direction
from demur.model.verdict import Outcome
from demur.report.axes_view import axes_blocks
from demur.report.diff_words import (
    CHANGE_WORDS,
    FLAG_WORDS,
    SEVERITY_WORDS,
    SHORT_WORDS,
    capitalised,
    change_sentence,
    counted,
    counted_words,
    difference_words,
    flip_words,
    meaning,
    subject,
)
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

    from demur.model.comparison import Comparison, Flip, FlipSide, SliceComparison
    from demur.model.estimate import Rate
    from demur.model.run import RunSummary
    from demur.report.view import Block

__all__ = ["diff_view"]

_MOST_EVIDENCE = 4
_MOST_MODELS = 3
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


def diff_view(comparison: Comparison, *, show: int = 10) -> View:
    """Return what people see of a comparison, with at most `show` flipped exchanges of each direction."""
    tally = comparison.tally
    word = CHANGE_WORDS[comparison.decision].upper()
    return View(
        "Refusal diff",
        f"{tally.baseline.name} → {tally.candidate.name}",
        Headline(word, change_sentence(comparison), _change_tone(comparison), meaning(comparison)),
        _gate_headline(comparison),
        tuple(_figures(comparison)),
        tuple(_diff_blocks(comparison, show)),
    )


def _change_tone(comparison: Comparison) -> Tone:
    """Return how the decision should be taken: a change that the gate is for is bad, the other one only noted."""
    guarded = comparison.gate.direction
    match comparison.decision:
        case Change.INCREASED:
            return Tone.NEUTRAL if guarded is Direction.DECREASE else Tone.BAD
        case Change.DECREASED:
            return Tone.NEUTRAL if guarded is Direction.INCREASE else Tone.BAD
        case Change.NO_MEANINGFUL_CHANGE:
            return Tone.GOOD
        case Change.INCONCLUSIVE:
            return Tone.UNSURE


def _gate_headline(comparison: Comparison) -> Headline:
    gate = comparison.gate
    if gate.unsettled:
        return Headline("UNSETTLED", gate.why, Tone.UNSURE)
    return Headline("FAIL" if gate.failed else "PASS", gate.why, Tone.BAD if gate.failed else Tone.GOOD)


def _figures(comparison: Comparison) -> Iterator[Fact]:
    for name, rate in (("Baseline", comparison.baseline), ("Candidate", comparison.candidate)):
        yield Fact(name, _share_words(rate.value), f"{rate.count:,} of {rate.n:,},\n{_ends(rate)}")
    difference = comparison.difference
    ends = points_range(difference.interval.low, difference.interval.high)
    yield Fact("Difference", f"{points(difference.value)} points", f"{level(difference.interval)}: {ends}")
    yield Fact("p", chance(difference.p), "if nothing changed")
    if comparison.tally.pairing is Pairing.NONE:
        yield Fact("Answers", f"{comparison.baseline.n:,} and {comparison.candidate.n:,}", "not paired")
    else:
        yield Fact("Pairs", f"{difference.n:,}", f"{comparison.tally.counts.discordant:,} flipped")


def _share_words(value: float | None) -> str:
    return UNKNOWN if value is None else f"{percent(value)}{PERCENT}"


def _ends(rate: Rate) -> str:
    return f"{level(rate.interval)}: {percent(rate.interval.low)} to {percent(rate.interval.high)}"


def _diff_blocks(comparison: Comparison, show: int) -> Iterator[Block]:
    yield _rates_plot(comparison)
    if comparison.tally.pairing is not Pairing.NONE:
        yield _flips_table(comparison)
    yield _weight(comparison)
    for flag in comparison.flags:
        yield Note(NoteKind.FLAG, str(flag), FLAG_WORDS[flag])
    yield from _missing_facts(comparison)
    yield from axes_blocks(comparison.axes, show=show)
    yield from _slice_blocks(comparison.slices)
    yield from _flipped(comparison, show)
    yield _runs_table(comparison.tally.baseline, comparison.tally.candidate)
    yield from _read_notes(comparison)
    yield Note(NoteKind.HINT, "methods", _methods(comparison))


def _rates_plot(comparison: Comparison) -> IntervalPlot:
    names = (("baseline", comparison.baseline), ("candidate", comparison.candidate))
    rows = tuple(
        PlotRow(name, r.value, r.interval.low, r.interval.high, r.n, second=name == "candidate") for name, r in names
    )
    what = subject(comparison)
    return IntervalPlot(
        "Refusal rates" if what == "refusals" else f"Rates of {what}",
        Unit.PERCENT,
        rows,
        f"{counted_words(comparison.tally.counted, ' or ')}, % of answers",
        f"with {level(names[0][1].interval)} intervals",
    )


def _flips_table(comparison: Comparison) -> Flips:
    counts = comparison.tally.counts
    note = (
        f"{counts.discordant:,} of {counted(counts.n, 'pair')} flipped: {counts.candidate_only:,} newly refused, "
        f"{counts.baseline_only:,} no longer refused"
    )
    return Flips("Flips", counts.both, counts.baseline_only, counts.candidate_only, counts.neither, note)


def _weight(comparison: Comparison) -> Facts:
    """Return what tells how large the change is, and how far the data carry."""
    paired = comparison.tally.pairing is not Pairing.NONE
    seed = points_range(comparison.seed_interval.low, comparison.seed_interval.high)
    behind = "bootstrap" if paired else "score"
    why = f"{SEVERITY_WORDS[comparison.severity]}; size, not proof; {behind} interval {seed}"
    rows = [Fact("severity", str(comparison.severity), why)]
    power = comparison.power
    if power.mde is not None:
        rows.append(Fact("least visible difference", f"{percent(power.mde)} points", "seen four times in five"))
    if power.n_to_settle is not None and comparison.decision is Change.INCONCLUSIVE:
        margin = f"for a difference of {percent(comparison.settings.margin)} points"
        needed = ("pairs to settle it", f"{margin}, at this share of flips") if paired else ("answers a run", margin)
        rows.append(Fact(needed[0], f"{power.n_to_settle:,}", needed[1]))
    if comparison.flips_to_undo is not None:
        misread = f"had the detector misread {'it' if comparison.flips_to_undo == 1 else 'them'}"
        rows.append(Fact("rests on", counted(comparison.flips_to_undo, "flip"), f"{misread}, nothing would be proven"))
    rows += _cluster_facts(comparison)
    if comparison.correction is not None:
        c = comparison.correction
        told = f"by {counted(c.labelled, 'labelled pair')}, the detector's weight {fraction(c.weight)}"
        rows.append(Fact("corrected for detector errors", difference_words(c.difference), told))
    return Facts("How far this carries", tuple(rows))


def _cluster_facts(comparison: Comparison) -> Iterator[Fact]:
    clustering = comparison.clustering
    if clustering is None:
        return
    worth = f"{comparison.difference.n:,} pairs are worth {decimals(clustering.effective_n, 0)} independent ones"
    yield Fact("clusters", f"{clustering.count:,} by {clustering.field}", worth)
    yield Fact(
        "design effect", decimals(clustering.design_effect), "1 where the pairs of a cluster do not move together"
    )
    if comparison.tally.repeats:
        yield Fact(
            "repeated rows", f"{comparison.tally.repeats:,}", "asked more than once, counted as one cluster each"
        )


def _missing_facts(comparison: Comparison) -> Iterator[Block]:
    missing = comparison.tally.missing
    if not missing.total:
        return
    whys = (
        ("only in the baseline", missing.baseline_unmatched),
        ("only in the candidate", missing.candidate_unmatched),
        ("baseline failed", missing.baseline_failed),
        ("candidate failed", missing.candidate_failed),
        ("both failed", missing.both_failed),
    )
    rows = [Fact(why, f"{count:,}") for why, count in whys if count]
    if comparison.missing_bounds is not None:
        low, high = comparison.missing_bounds
        told = "the difference, whatever the missing answers were"
        rows.append(Fact("worst-case bounds", f"{points_range(low, high)} points", told))
    yield Facts(f"Missing: {counted(missing.total, 'incomplete pair')}, left out of every figure", tuple(rows))


def _slice_blocks(slices: Sequence[SliceComparison]) -> Iterator[Block]:
    """Yield a plot with its table for each field, that with the least q first."""
    ordered = sorted(slices, key=lambda s: (s.q, s.difference.p, -abs(s.difference.value), s.field, s.value))
    for field in dict.fromkeys(s.field for s in ordered):
        of_field = [s for s in ordered if s.field == field]
        note = f"report only, the gate looks at the whole; q is p held against all {counted(len(slices), 'slice')}"
        title = f"By {field}"
        table = Table(title, _SLICE_COLUMNS, tuple(map(_slice_cells, of_field)), note)
        rows = tuple(map(_slice_mark, of_field))
        yield IntervalPlot(title, Unit.POINTS, rows, "difference of refusal rates, points", note, table)


def _slice_cells(part: SliceComparison) -> tuple[str, ...]:
    interval = part.difference.interval
    return (
        part.value,
        f"{part.difference.n:,}",
        f"{percent(part.baseline.value)} → {percent(part.candidate.value)}",
        f"{points(part.difference.value)} ({points_range(interval.low, interval.high)})",
        chance(part.difference.p),
        chance(part.q),
        SHORT_WORDS[part.decision],
    )


def _slice_mark(part: SliceComparison) -> PlotRow:
    difference, interval = part.difference, part.difference.interval
    strong = part.decision in (Change.INCREASED, Change.DECREASED)
    return PlotRow(part.value, difference.value, interval.low, interval.high, difference.n, strong=strong)


def _flipped(comparison: Comparison, show: int) -> Iterator[Block]:
    """Yield flips of both directions, those that the gate is for first."""
    flips, total = comparison.tally.flips, comparison.tally.counts.discordant
    order = [Direction.INCREASE, Direction.DECREASE]
    if comparison.gate.direction is Direction.DECREASE:
        order.reverse()
    shown = [flip for way in order for flip in [flip for flip in flips if flip.direction is way][:show]]
    for flip in shown:
        yield _side_by_side(flip)
    if total > len(shown):
        yield Note(NoteKind.HINT, "flips", f"{len(shown):,} of {total:,} flipped exchanges are shown (--show, --out).")


def _side_by_side(flip: Flip) -> SideBySide:
    baseline, candidate = _shown_side("baseline", flip.baseline), _shown_side("candidate", flip.candidate)
    return SideBySide(flip_words(flip), flip.key, flip.prompt, baseline, candidate, flip.fields)


def _shown_side(name: str, side: FlipSide) -> Excerpt:
    verdict = side.verdict
    facts = [f"score {fraction(verdict.score)}"]
    facts += [str(fact) for fact in (verdict.reason, verdict.cause) if fact]
    evidence = [f"{s.path} = {s.value}" for s in verdict.signals]
    evidence += [f"{f.weight:+.2f} {f.category}: {f.rule}" for f in verdict.findings]
    if len(evidence) > _MOST_EVIDENCE:
        evidence = [*evidence[:_MOST_EVIDENCE], f"… and {len(evidence) - _MOST_EVIDENCE:,} more"]
    where = side.source if side.line is None else f"{side.source}:{side.line}"
    spans = tuple(f.span for f in verdict.findings)
    tone = Tone.BAD if verdict.abstained else Tone.GOOD if verdict.outcome is Outcome.COMPLIED else Tone.UNSURE
    shown_facts = ", ".join(facts).replace("_", " ")
    return Excerpt(name, str(verdict.outcome), tone, shown_facts, where, side.text, spans, tuple(evidence))


def _runs_table(baseline: RunSummary, candidate: RunSummary) -> Table:
    runs = (baseline, candidate)
    rows = [
        ("name", *(run.name for run in runs)),
        ("format", *(run.format for run in runs)),
        ("models", *(_models(run) for run in runs)),
        ("rows", *(f"{run.rows:,}" for run in runs)),
    ]
    for part in ("outcomes", "reasons", "skipped"):
        counts = [dict(getattr(run, part)) for run in runs]
        names = dict.fromkeys(name for count in counts for name in count)
        lead = {"outcomes": "", "reasons": "reason: ", "skipped": "skipped: "}[part]
        rows += [(f"{lead}{name}", *(f"{count.get(name, 0):,}" for count in counts)) for name in names]
    rows.append(("not readable", *(f"{run.unreadable:,}" for run in runs)))
    head = tuple(Column(name, number=False) for name in ("", "baseline", "candidate"))
    return Table("Runs", head, tuple(rows))


def _models(run: RunSummary) -> str:
    more = len(run.models) - _MOST_MODELS
    named = ", ".join(run.models[:_MOST_MODELS])
    return f"{named} and {more:,} more" if more > 0 else named or UNKNOWN


def _read_notes(comparison: Comparison) -> Iterator[Note]:
    for name, run in (("baseline", comparison.tally.baseline), ("candidate", comparison.tally.candidate)):
        if run.unreadable:
            told = f"{counted(run.unreadable, 'row')} of the {name}, in no figure."
            yield Note(NoteKind.WARNING, "not readable", told)
    for field, more in comparison.tally.values_left_out:
        yield Note(NoteKind.WARNING, field, f"{counted(more, 'further value')}, the rarest, not sliced by.")


def _methods(comparison: Comparison) -> str:
    pairing = comparison.tally.pairing
    how = {
        Pairing.ID: "Pairs have the same id.",
        Pairing.PROMPT: "Pairs have the same prompt.",
        Pairing.FIELD: "Pairs have the same value of a field.",
        Pairing.NONE: "The runs could not be paired.",
    }[pairing]
    if comparison.tally.baseline.format == _RECORDED:
        how = "Recorded exchanges are not paired."
    rate, difference = comparison.baseline.interval, comparison.difference.interval
    return (
        f"{how} Intervals are {level(difference)}: {capitalised(rate.method)} for the rates, {capitalised(difference.method)} for the difference. "
        f"A change is called at p ≤ {comparison.settings.alpha:g}; {_denominator(comparison)}."
        + (" The rates' own intervals count rows, not groups." if comparison.clustering else "")
    )


def _denominator(comparison: Comparison) -> str:
    """Return what is counted of what: of recorded exchanges a denial is one of all, an answer one of those answered."""
    counted_as = counted_words(comparison.tally.counted)
    if comparison.tally.baseline.format != _RECORDED:
        return f"{counted_as} answers count as refusals, failed ones as neither"
    whole = "all exchanges" if comparison.tally.counted == ("denied",) else "the exchanges that a provider answered"
    return f"{counted_as} is counted of {whole}"
