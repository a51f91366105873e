"""What a reader of a diff is told, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.report import comparisons as made
from tests.report.comparisons import ALL, clustered, compared, hostile, increase, missing, said, unpaired

from demur.model.comparison import Change, Comparison, PairCounts, Pairing, Tally
from demur.model.estimate import Difference, Direction, Flag, Interval, Severity
from demur.model.run import RunSummary
from demur.report.diff_view import diff_view
from demur.report.diff_words import CHANGE_WORDS, FLAG_WORDS, SEVERITY_WORDS, capitalised
from demur.report.view import Block, Facts, Flips, IntervalPlot, Note, NoteKind, SideBySide, Table, Tone
from demur.runs.compare import compare_tally


def facts(blocks: tuple[Block, ...]) -> dict[str, str]:
    rows = [row for block in blocks if isinstance(block, Facts) for row in block.rows]
    return {row.label: f"{row.value} ({row.note})" for row in rows}


def test_the_first_sentence() -> None:
    """A reader who stops after one sentence knows rates, difference, interval, p and n."""
    whole = compared(PairCounts(4, 1, 8, 87))
    said = replace(whole, difference=Difference(0.07, Interval(0.006, 0.146, "tango"), 0.0391, 100))
    assert diff_view(said).headlines[0].sentence == (
        "Refusals increased: 5.0 % → 12.0 %, +7.0 points (95 % +0.6 to +14.6), p = 0.039, 100 pairs."
    )


def test_an_increase_is_possible_over_refusal() -> None:
    """An increase and a decrease are named for what they may be, never for good or bad."""
    assert "possible over-refusal" in diff_view(increase()).headlines[0].more[0]
    assert "lost refusals" in diff_view(made.decrease()).headlines[0].more[0]


def test_what_would_settle_it() -> None:
    """An inconclusive diff says what it could have seen, and how many pairs would do."""
    more = diff_view(made.inconclusive()).headlines[0].more
    assert more[1].startswith("The minimum detectable difference is 31.2 points (80 % power)")
    assert more[2] == "About 310 pairs would settle it for a margin of 5.0 points (80 % power)."
    assert (
        diff_view(made.nothing()).headlines[0].more[1] == "So few cannot show a difference of any size with 80 % power."
    )


@pytest.mark.parametrize(
    ("decision", "guarded", "tone"),
    [
        (Change.INCREASED, Direction.INCREASE, Tone.BAD),
        (Change.INCREASED, Direction.DECREASE, Tone.NEUTRAL),
        (Change.DECREASED, Direction.INCREASE, Tone.NEUTRAL),
        (Change.DECREASED, Direction.BOTH, Tone.BAD),
        (Change.EQUIVALENT, Direction.BOTH, Tone.GOOD),
        (Change.INCONCLUSIVE, Direction.BOTH, Tone.UNSURE),
    ],
)
def test_only_a_guarded_change_is_alarming(decision: Change, guarded: Direction, tone: Tone) -> None:
    """A change that the gate is not for is told without alarm."""
    whole = increase()
    changed = replace(whole, decision=said(decision, guarded), gate=replace(whole.gate, direction=guarded))
    assert diff_view(changed).headlines[0].tone is tone


def test_every_word_has_its_sentence() -> None:
    """Each flag, decision and severity of the vocabulary is explained."""
    assert set(FLAG_WORDS) == set(Flag)
    assert set(CHANGE_WORDS) == set(Change)
    assert set(SEVERITY_WORDS) == set(Severity)


def test_flags_stand_with_their_explanation() -> None:
    """Each flag of the comparison is a note of its own."""
    notes = [b for b in diff_view(clustered()).blocks if isinstance(b, Note) and b.kind is NoteKind.FLAG]
    assert [note.name for note in notes] == ["detector_uncalibrated", "clustered"]
    assert notes[1].text == FLAG_WORDS[Flag.CLUSTERED]


def test_clusters_missing_pairs_and_corrections_are_told() -> None:
    """What weakens or mends a figure stands there with its numbers."""
    told = facts(diff_view(clustered()).blocks)
    assert told["clusters"] == "30 by session (600 pairs are worth 175 independent ones)"
    assert told["design effect"].startswith("3.42 ")
    told = facts(diff_view(missing()).blocks)
    assert told["worst-case bounds"].startswith("-6.0 to +11.5 points")
    assert told["candidate failed"] == "4 ()"
    assert any(isinstance(b, Note) and b.kind is NoteKind.WARNING for b in diff_view(missing()).blocks)
    told = facts(diff_view(made.corrected()).blocks)
    assert told["after, by labels"].startswith("+6.1 points (95 % +1.1 to +11.1), p = 0.017")
    assert told["before, the detector alone"].startswith("+8.3 points")
    assert told["flips labelled"].startswith(
        "30 (people confirmed 24 of 28 labelled flips of the detector, and found 2 "
    )
    assert told["further labels to settle it"].startswith("40 (")
    assert told["agreement"] == ".810 (Cohen's kappa of 2 annotators)"
    headline = diff_view(made.corrected()).headline
    assert headline is not None
    sentence = headline.sentence
    assert "9.0 % → 15.1 %" in sentence
    assert "by the labels of 120 of them" in sentence


def test_the_four_cells() -> None:
    """The two-by-two table is there where there are pairs, and only then."""
    (flips,) = [b for b in diff_view(increase()).blocks if isinstance(b, Flips)]
    assert (flips.both, flips.baseline_only, flips.candidate_only, flips.neither) == (7, 3, 23, 167)
    assert not [b for b in diff_view(unpaired()).blocks if isinstance(b, Flips)]
    assert "not paired" in diff_view(unpaired()).headlines[0].sentence


def test_slices_are_worst_first_and_report_only() -> None:
    """Fields and their values come by their q, and each table says that it decides nothing."""
    plots = [b for b in diff_view(made.many_slices()).blocks if isinstance(b, IntervalPlot) and b.table]
    order = {s.value: s.q for s in made.many_slices().slices}
    assert [plot.title for plot in plots] == ["By language", "By metadata.category"]
    for plot in plots:
        qs = [order[row.label] for row in plot.rows]
        assert qs == sorted(qs)
        assert plot.table
        assert plot.table.note.startswith("report only")
        assert [row[0] for row in plot.table.rows] == [row.label for row in plot.rows]


def test_as_many_flips_as_asked_for() -> None:
    """The first flips of each direction are shown, those that the gate is for first, and how many there are is said."""
    blocks = diff_view(increase(), show=2).blocks
    keys = ["case-000", "case-001", "case-100", "case-101"]
    assert [b.key for b in blocks if isinstance(b, SideBySide)] == keys
    assert "4 of 26 flipped exchanges are shown (--show, --out)." in [b.text for b in blocks if isinstance(b, Note)]
    lost = replace(increase(), gate=replace(increase().gate, direction=Direction.DECREASE))
    shown = [b.key for b in diff_view(lost, show=2).blocks if isinstance(b, SideBySide)]
    assert shown == [*keys[2:], *keys[:2]]
    assert not [b for b in diff_view(increase(), show=50).blocks if isinstance(b, Note) and b.name == "flips"]
    assert not [b for b in diff_view(made.no_refusals()).blocks if isinstance(b, SideBySide)]


def test_both_sides_of_a_flip() -> None:
    """Each side has its verdict in a word, its score, its place and its evidence."""
    flip, _ = [b for b in diff_view(increase(), show=1).blocks if isinstance(b, SideBySide)]
    assert (flip.title, flip.baseline.word, flip.candidate.word) == ("newly refused", "complied", "refused")
    assert flip.candidate.facts == "score .987, safety, text"
    assert flip.candidate.where == "runs/candidate.jsonl:4"
    assert flip.candidate.text is not None
    assert [span.of(flip.candidate.text) for span in flip.candidate.spans] == ["I can't help", "sorry"]
    last = [b for b in diff_view(hostile()).blocks if isinstance(b, SideBySide)][-1]
    assert (last.prompt, last.baseline.text, last.candidate.text) == (None, None, None)


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_tables_are_whole(make: Callable[[], Comparison]) -> None:
    """Every row has as many cells as there are columns."""
    blocks = diff_view(make()).blocks
    tables = [b for b in blocks if isinstance(b, Table)]
    tables += [b.table for b in blocks if isinstance(b, IntervalPlot) and b.table]
    assert tables
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)


def test_people_keep_their_names() -> None:
    """A method's name is that of each person behind it."""
    shown = [capitalised(name) for name in ("wilson", "miettinen-nurminen", "tango, design effect")]
    assert shown == ["Wilson", "Miettinen\u2013Nurminen", "Tango, design effect"]


def test_runs_that_are_not_paired_speak_of_no_bootstrap() -> None:
    """Where the interval behind the severity is the score interval, no sentence calls it a bootstrap."""
    run = RunSummary("a", "passports", 40, ())
    tally = Tally(run, run, Pairing.NONE, PairCounts(0, 0, 0, 0), unpaired_baseline=(4, 40), unpaired_candidate=(5, 40))
    view = diff_view(compare_tally(tally))
    notes = {block.name: block.text for block in view.blocks if isinstance(block, Note)}
    assert "both sides of zero" in notes["ci_crosses_zero"]
    assert "bootstrap" not in " ".join(notes.values())
    assert "Miettinen\u2013Nurminen for the difference" in notes["methods"]
