"""The parts of pages say what they are given, escaped, and name methods and intervals rightly."""

from __future__ import annotations

from demur.model.comparison import PairCounts, Pairing, Tally
from demur.model.run import RunSummary
from demur.report.diff_view import diff_view
from demur.report.diff_words import capitalised
from demur.report.html.blocks import facts_table, figure_tiles, note_item, said_banner
from demur.report.view import Fact, Headline, Note, NoteKind, Tone
from demur.runs.compare import compare_tally


def test_people_keep_their_names() -> None:
    """A method's name is that of each person behind it."""
    assert [capitalised(name) for name in ("wilson", "miettinen-nurminen", "tango, design effect")] == [
        "Wilson",
        "Miettinen\u2013Nurminen",
        "Tango, design effect",
    ]


def test_runs_that_are_not_paired_speak_of_no_bootstrap() -> None:
    """Where the interval behind the severity is the score interval, no sentence calls it a bootstrap."""
    run = RunSummary("a", "passports", 40, ())
    tally = Tally(run, run, Pairing.NONE, PairCounts(0, 0, 0, 0), unpaired_baseline=(4, 40), unpaired_candidate=(5, 40))
    view = diff_view(compare_tally(tally))
    notes = {block.name: block.text for block in view.blocks if isinstance(block, Note)}
    assert "both sides of zero" in notes["ci_crosses_zero"]
    assert "bootstrap" not in " ".join(notes.values())
    assert "Miettinen\u2013Nurminen for the difference" in notes["methods"]


def test_a_banner_takes_the_tone_of_its_gate() -> None:
    """The last headline sets the colour, and every word is escaped."""
    found = said_banner(Headline("<b>", "a & b", Tone.GOOD), Headline("FAIL", "no", Tone.BAD))
    assert found.startswith('<section class="banner bad"')
    assert "&lt;b&gt;" in found
    assert "a &amp; b" in found


def test_words_of_others_cannot_leave_their_place() -> None:
    """Tiles, facts and notes escape label, value and note; without figures there are no tiles."""
    fact = Fact("<i>", "<u>", "<s>")
    for made in (figure_tiles([fact]), facts_table([fact]), note_item(Note(NoteKind.FLAG, "<i>", "<u>"))):
        assert not {"<i>", "<u>", "<s>"} & {made[at : at + 3] for at in range(len(made))}
    assert figure_tiles([]) == ""
