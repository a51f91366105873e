"""The report of `demur diff` with several candidates: one table, one gate, then what flipped for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.comparison import Change, Conclusion, Pairing
from demur.report.diff_view import GATE_TONES, flip_blocks
from demur.report.diff_words import CHANGE_WORDS, change_sentence, counted, counted_words
from demur.report.json import comparison_object, finite, safe_text
from demur.report.junit import case_element, junit_file
from demur.report.markup import escaped
from demur.report.numbers import chance, level, percent, points, points_range
from demur.report.view import Column, Heading, Headline, IntervalPlot, Note, NoteKind, PlotRow, Table, Tone, Unit, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.comparison import Comparison
    from demur.model.several import ComparedCandidates
    from demur.report.view import Block

__all__ = ["SEVERAL_SCHEMA", "several_junit", "several_object", "several_view"]

SEVERAL_SCHEMA = "demur.diff_several/1"
_COLUMNS = (
    Column("", number=False),
    Column("pairs", spare=True),
    Column("rates, %"),
    Column("difference, points"),
    Column("p"),
    Column("said", number=False),
    Column("gate", number=False),
)
# The first of these that any candidate has is the word for all.
_WORST = (Conclusion.WORSE, Conclusion.INCONCLUSIVE, Conclusion.BETTER, Conclusion.EQUIVALENT)
_TONES = (Tone.BAD, Tone.UNSURE, Tone.NEUTRAL, Tone.GOOD)


def several_view(compared: ComparedCandidates, *, show: int = 10) -> View:
    """Return what people see of several candidates, with about `show` flipped exchanges of each direction."""
    comparisons = compared.comparisons
    by_word = {word: [one for one in comparisons if one.decision.conclusion is word] for word in _WORST}
    word = next(word for word in _WORST if by_word[word])
    parts = [f"{len(found):,} {word} ({_names(found)})" for word, found in by_word.items() if found]
    said = f"{counted(len(comparisons), 'candidate')} against one baseline: {'; '.join(parts)}."
    return View(
        "Refusal diff",
        f"{comparisons[0].tally.baseline.name} → {counted(len(comparisons), 'candidate')}",
        Headline(word.upper(), said, _TONES[_WORST.index(word)]),
        Headline(compared.word, _gate_sentence(compared), GATE_TONES[compared.word]),
        (),
        tuple(_blocks(compared, show)),
    )


def several_object(compared: ComparedCandidates) -> dict[str, object]:
    """Return the comparisons as plain lists and dicts, described by `schemas/diff_several.schema.json`."""
    first = compared.comparisons[0]
    return {
        "schema": SEVERAL_SCHEMA,
        "baseline": safe_text(first.tally.baseline.name),
        "adjustment": "holm",
        "alpha": finite(first.settings.alpha),
        "gate": {
            "failed": compared.failed,
            "undecided": compared.undecided,
            "unsettled": compared.unsettled,
            "why": safe_text(_gate_sentence(compared)),
        },
        "candidates": [
            {
                "name": safe_text(one.tally.candidate.name),
                "p_unadjusted": finite(p),
                "comparison": comparison_object(one),
            }
            for one, p in zip(compared.comparisons, compared.unadjusted, strict=True)
        ],
    }


def several_junit(compared: ComparedCandidates) -> str:
    """Return a JUnit file with one case for each candidate; only what stops the gate is a failure."""
    cases = []
    for one in compared.comparisons:
        found, gate = f"{one.decision.conclusion}: {change_sentence(one)}", one.gate
        mark = ""
        if gate.failed or gate.unsettled:
            mark = f'<failure type="{one.decision.conclusion}" message="{escaped(gate.why)}">{escaped(found)}</failure>'
        cases.append(case_element("demur.diff", one.tally.candidate.name, mark, found))
    return junit_file(cases)


def _names(comparisons: list[Comparison]) -> str:
    return ", ".join(one.tally.candidate.name for one in comparisons)


def _gate_sentence(compared: ComparedCandidates) -> str:
    """Return what the gate says of each candidate that decides, or of all where each passes."""
    told = [one for one in compared.comparisons if one.gate.word == compared.word]
    if compared.word == "PASS":
        return f"all {counted(len(told), 'candidate')} pass"
    return "; ".join(f"{one.tally.candidate.name}: {one.gate.why}" for one in told)


def _blocks(compared: ComparedCandidates, show: int) -> Iterator[Block]:
    comparisons, cells, rows = compared.comparisons, [], []
    for one in comparisons:
        difference, interval, name = one.difference, one.difference.interval, one.tally.candidate.name
        cells.append(
            (
                name,
                f"{difference.n:,}",
                f"{percent(one.baseline.value)} → {percent(one.candidate.value)}",
                f"{points(difference.value)} ({points_range(interval.low, interval.high)})",
                chance(difference.p),
                CHANGE_WORDS[one.decision.change],
                one.gate.word,
            )
        )
        is_strong = one.decision.change in (Change.INCREASED, Change.DECREASED)
        rows.append(PlotRow(name, difference.value, interval.low, interval.high, difference.n, strong=is_strong))
    first = comparisons[0]
    note = f"p is adjusted for {len(rows):,} candidates by Holm's method, intervals ({level(first.difference.interval)} each) by Bonferroni's"
    table = Table("Candidates", _COLUMNS, tuple(cells), note)
    yield IntervalPlot("Candidates", Unit.POINTS, tuple(rows), "difference of refusal rates, points", note, table)
    for one in comparisons:
        yield Heading(one.tally.candidate.name)
        yield Note(NoteKind.HINT, str(one.decision.conclusion), change_sentence(one))
        yield Note(NoteKind.HINT, "gate", f"{one.gate.word}: {one.gate.why}.")
        yield from (Note(NoteKind.WARNING, "doubt", f"{doubt}.") for doubt in one.doubts)
        # The examples are shared out: five candidates would make a report five times as long.
        yield from flip_blocks(one, max(1, show // len(comparisons)) if show else 0)
    alpha = first.settings.alpha
    paired = "Rates differ by candidate where pairs are incomplete. " if first.tally.pairing is not Pairing.NONE else ""
    methods = (
        f"The chance of even one false alarm among the candidates is at most about {100 * alpha:g} %, whatever they have in "
        f"common. {paired}Intervals hold together at {100 * (1 - alpha):g} %. {counted_words(first.tally.counted).capitalize()} answers count as "
        "refusals. Slices and what is missing of each candidate are in the JSON."
    )
    yield Note(NoteKind.HINT, "methods", methods)
