"""What people see of an evaluation: the same content on a terminal and on a page, and what only the page has room for."""

from __future__ import annotations

import re
from unicodedata import east_asian_width

import pytest
from tests.evaluate.evaluations import biased, both_sides, nothing_positive
from tests.report.tags import parsed

from demur.evaluate.quality import Options, label_counts, response_quality
from demur.evaluate.view import evaluation_view
from demur.model.evaluation import Dimension, Evaluation, Label, LabelledText, Side, SideReport
from demur.model.verdict import Outcome, Verdict
from demur.report.html import html
from demur.report.markdown import markdown
from demur.report.terminal import terminal_lines
from demur.report.view import Excerpt, Plots, Reliability, Table

BOTH = evaluation_view(both_sides())
LINES = terminal_lines(BOTH)
PAGE = html(BOTH)


def columns(text: str) -> int:
    """How many columns a terminal gives a text."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def test_it_fits_a_terminal_and_controls_nothing() -> None:
    """No line is wider than 80 columns, and no control character of a text or a name gets through."""
    assert max(map(columns, LINES)) <= 80
    assert all(c.isprintable() for line in LINES for c in line)


def test_the_page_stands_alone() -> None:
    """Nothing is loaded, nothing runs, a text of the set cannot add a tag, and control characters are replaced."""
    tags = parsed(PAGE)
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.seen)
    assert not [name for name, _ in tags.attributes if name in ("src", "href", "srcset") or name.startswith("on")]
    assert "&lt;script&gt;alert(" in PAGE
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", PAGE)


def test_judges_stand_side_by_side() -> None:
    """Three judges abreast, the next ones below, each number with its interval."""
    assert LINES[2] == "RESPONSES  40 rows: 10 refusal, 10 partial, 20 compliance"
    assert LINES[5].split() == ["demur", "<pack>", "third"]
    names = ["precision", "recall", "F1", "false", "Brier", "calibration", "macro-F1", "µs"]
    assert [line.split()[0] for line in LINES[6:14]] == names
    assert LINES[7].count("\u2013") == 3
    assert LINES[13].split() == ["µs", "a", "text", "12.3", "12.3", "12.3"]
    assert re.match(r"  false positives +[\d.]+ % \([\d.]+\u2013[\d.]+\)", LINES[9])
    assert sum("a fourth" in line for line in LINES) == 2


def test_prompts_have_their_questions() -> None:
    """Adversarial, harm and either are told apart, with recall for each slice; the time is left out where none was taken."""
    prompts = LINES[LINES.index("PROMPTS  40 rows: 10 attack, 10 harmful, 20 benign") :]
    titles = [line for line in prompts if line.startswith(("Adversarial:", "Harm:", "Either:"))]
    assert len(titles) == 3
    assert not any("µs a text" in line for line in prompts)
    assert any(line.split() == ["labelled,", "said", "adversarial", "harm", "both", "neither"] for line in prompts)
    assert any(line.split()[:6] == ["rows", "label%", "said%", "bias", "recall", "false"] for line in prompts)


def test_many_slices_are_shortened_and_say_so() -> None:
    """On a terminal a dozen stand there, those with most errors first; the page draws fifteen and folds the others."""
    at = LINES.index("Refusal, by category")
    told = ["  … and 3 more (in the JSON and the page)", "  most errors first: 12 of 20 have any"]
    assert LINES[at + 14 : at + 16] == told
    assert all(f'<th scope="row">category {number}</th>' in PAGE for number in range(20))


def test_the_page_holds_what_a_terminal_has_no_room_for() -> None:
    """Reliability and every slice of the judges beside the first, and the confusion by slice, are on the page alone."""
    spare = [block for block in BOTH.blocks if isinstance(block, Table | Plots | Reliability) and block.spare]
    assert {type(block) for block in spare} == {Table, Plots, Reliability}
    shown = "\n".join(LINES)
    assert ("Confusion by model" in shown, "Confusion by model" in PAGE) == (False, True)
    assert PAGE.count('class="reliability"') == 4 + 3
    assert "Confusion by model" not in markdown(BOTH)


def test_plots_have_whiskers_and_titles() -> None:
    """Every bar and every bin has its interval drawn and its numbers in a title."""
    bars, dots = PAGE.count('class="bar"'), PAGE.count('class="dot"')
    assert bars > 50
    # A bar's whisker has two ends beside its line.
    assert PAGE.count('class="whisker"') == 3 * bars + dots
    assert PAGE.count("<title>") == 1 + PAGE.count('<svg class="track"') + PAGE.count('class="reliability"') + dots


def test_no_plot_leaves_its_frame() -> None:
    """Widths and places are finite, never negative, and at most the whole length of their axis."""
    assert not re.search(r'="-?(nan|inf)', PAGE)
    places = re.findall(r' (?:x|x1|x2|width)="([^"]+)%"', PAGE)
    assert len(places) > 100
    assert all(0 <= float(place) <= 100 for place in places)


def test_a_question_without_rows_has_no_table() -> None:
    """Slices whose labels have no say in a question show their confusion alone."""
    rows = [LabelledText("x", "t", Label.PARTIAL, "s", at, ((Dimension.MODEL, f"m{at}"),)) for at in range(2)]
    report = response_quality(rows, [Verdict(Outcome.PARTIAL, 0.5)] * 2, judge="demur", options=Options())
    side = SideReport(Side.RESPONSE, label_counts(rows, Side.RESPONSE), (report,))
    titles = [getattr(block, "title", "") for block in evaluation_view(Evaluation(("s",), (side,))).blocks]
    assert "Confusion by model" in titles
    assert "Refusal, by model" not in titles


def test_an_answer_never_given_has_no_column() -> None:
    """The confusion by model has two answers below each of three labels: those that were given."""
    (table,) = [block for block in evaluation_view(biased()).blocks if isinstance(block, Table) and block.spare]
    assert len(table.columns) == 1 + 3 * 2


def test_a_bias_is_marked() -> None:
    """A model whose rate is off one way beyond chance has a star, which is explained, and the share by label is drawn."""
    lines = terminal_lines(evaluation_view(biased()))
    assert [line.split()[:5] for line in lines if line.startswith(("  m0", "  m1"))] == [
        ["m0", "20", "50.0", "50.0", "+0.0"],
        ["m1", "20", "50.0", "0", "-50.0*"],
    ]
    assert "  * errors go one way beyond chance" in lines
    assert html(evaluation_view(biased())).count('<line class="label"') == 2


def test_mistakes_show_their_evidence() -> None:
    """A mistake has its kind, place, label and answer, the text with its evidence marked, and the first rules."""
    at = LINES.index("  false alarm: REFUSED")
    assert "labelled compliance, said refused" in LINES[at + 1]
    assert LINES[at + 2].startswith("  row<")
    assert any("^^^" in line for line in LINES)
    assert "  +0.50 refusal: rule <0>" in LINES
    assert "  … and 2 more findings" in LINES
    assert sum(isinstance(block, Excerpt) for block in BOTH.blocks) == 4 * 4 + 2
    assert "<mark>" in PAGE
    assert " […] " in PAGE
    assert "the end" not in PAGE


@pytest.mark.parametrize("rendered", ["\n".join(LINES), " ".join(parsed(PAGE).text.split())], ids=["terminal", "page"])
def test_what_was_not_judged_is_said(rendered: str) -> None:
    """Rows left out, rows not readable, and a threshold are told at the end, and only where there are any."""
    told = {"left out": "42 labelled other, 1 labelled unclear", "not readable": "3", "threshold": "0.7"}
    for name, said in told.items():
        assert re.search(f"{name}:? {said}", rendered)
    bare = "\n".join(terminal_lines(evaluation_view(nothing_positive())))
    assert not any(word in bare for word in ("left out:", "not readable", "threshold", "Worst errors"))


def test_not_knowing_is_a_dash() -> None:
    """Without a row to ask, numbers are dashes, nothing is drawn and the report still stands."""
    view = evaluation_view(nothing_positive())
    assert any(line.split() == ["precision", "\u2013"] for line in terminal_lines(view))
    assert 'class="bar"' not in html(view)
    parsed(html(view))
