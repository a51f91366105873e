"""The page: whole, self-contained, escaped, and the same every time."""

from __future__ import annotations

import re

from tests.evaluate.evaluations import biased, both_sides, nothing_positive
from tests.report.tags import parsed

from demur.evaluate.html import evaluation_page
from demur.evaluate.plots import Bar, bars
from demur.evaluate.quality import Options, label_counts, response_quality
from demur.model.estimate import Interval, Rate
from demur.model.evaluation import Dimension, Evaluation, Label, LabelledText, Side, SideReport
from demur.model.verdict import Outcome, Verdict


def test_the_page_stands_alone() -> None:
    """Nothing is loaded, nothing runs, and a text of the set cannot add a tag."""
    page = evaluation_page(both_sides())
    tags = parsed(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.seen)
    assert not [name for name, _ in tags.attributes if name in ("src", "href", "srcset") or name.startswith("on")]
    assert "url(" not in page
    assert "@import" not in page
    assert "&lt;script&gt;alert(" in page


def test_nothing_controls_the_reader() -> None:
    """Control characters of a text are replaced."""
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", evaluation_page(both_sides()))


def test_light_dark_and_print() -> None:
    """The page follows the reader's colours and has a form for paper."""
    page = evaluation_page(both_sides())
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_plots_have_whiskers_and_titles() -> None:
    """Every bar and every bin has its interval drawn and its numbers in a title."""
    page = evaluation_page(both_sides())
    marks = page.count('class="bar"') + page.count('class="dot"')
    assert marks > 50
    assert page.count('class="whisker"') == marks
    assert page.count("<g><title>") == marks
    assert page.count('class="reliability"') == 4 + 3


def test_no_plot_leaves_its_frame() -> None:
    """Widths and places are finite, never negative, and at most the whole length of their axis."""
    page = evaluation_page(both_sides())
    assert not re.search(r'="-?(nan|inf)', page)
    places = re.findall(r' (?:x|x1|x2|width)="([^"]+)%"', page)
    assert len(places) > 100
    assert all(0 <= float(place) <= 100 for place in places)


def test_plots_have_names_and_axes() -> None:
    """Each plot has a title above it, and each axis its ends and its unit."""
    page = evaluation_page(both_sides())
    figures = re.findall(r"<figure.*?</figure>", page)
    assert len(figures) == page.count("<figure")
    for figure in figures:
        assert re.match(r'<figure class="\w*"><figcaption>\w', figure)
        assert ">mean score<" in figure or re.search(r">(F1|% of rows|% of negative rows)</text></svg>", figure)


def test_percentages_are_drawn_on_a_round_scale() -> None:
    """The axis ends at the first round number that holds every upper end and every label."""
    bar = Bar("a", Rate(1, 100, Interval(0.002, 0.054, "x")))
    assert ">0<" in bars([bar], "%", in_percent=True)
    assert ">5<" in bars([bar], "%", in_percent=True)
    assert ">10<" in bars([bar], "%", in_percent=True)
    assert ">60<" in bars([bar, Bar("b", bar.figure, 0.55)], "%", in_percent=True)
    assert bars([Bar("none", Rate(0, 0, Interval(0.0, 1.0, "x")))], "%") == ""


def test_many_slices_are_folded_away() -> None:
    """Of twenty categories the fifteen with most errors stand open, and the others in a part that can be opened."""
    page = evaluation_page(both_sides())
    first = page[page.index("<h4>By category</h4>") : page.index("<h4>Worst errors</h4>")]
    assert "<details><summary>5 more without errors</summary>" in first
    table = first[first.index("Refusal, by category") :]
    assert table[: table.index("</table>")].count('<th scope="row">') <= 15


def test_a_question_without_rows_has_no_table() -> None:
    """Slices whose labels have no say in a question show their confusion alone."""
    rows = [LabelledText("x", "t", Label.PARTIAL, "s", at, ((Dimension.MODEL, f"m{at}"),)) for at in range(2)]
    report = response_quality(rows, [Verdict(Outcome.PARTIAL, 0.5)] * 2, judge="demur", options=Options())
    page = evaluation_page(
        Evaluation(("s",), (SideReport(Side.RESPONSE, label_counts(rows, Side.RESPONSE), (report,)),))
    )
    parsed(page)
    assert "Confusion by model" in page
    assert "Refusal, by model" not in page


def test_an_answer_never_given_has_no_column() -> None:
    """The confusion by model has a group a label, with only the answers that were given."""
    page = evaluation_page(biased())
    assert page.count('<th scope="colgroup" colspan="2">') == 3


def test_intervals_stand_in_brackets() -> None:
    """No figure runs into its interval."""
    page = evaluation_page(both_sides())
    assert re.search(r"<td>[\d.]+ <small>\([\d.]+\u2013[\d.]+\)</small></td>", page)
    assert not re.search(r"\d [\d.]+\u2013", page)


def test_tables_hold_every_slice() -> None:
    """All twenty categories and all models are there, with bias, and the confusion of each."""
    page = evaluation_page(both_sides())
    for number in range(20):
        assert f'<th scope="row">category {number}</th>' in page
    assert "Confusion by model" in page
    assert "bias, points" in page


def test_a_bias_is_marked() -> None:
    """A model whose rate is off has a star, and its plot the share by label as an upright line."""
    page = evaluation_page(biased())
    assert '<td>-50.0<span class="star">*</span></td>' in page
    assert "<td>+0.0</td>" in page
    assert page.count('<line class="label"') == 2


def test_mistakes_are_marked_and_shortened() -> None:
    """Evidence is marked in the text, and what stands far from it is left out visibly."""
    page = evaluation_page(both_sides())
    assert "<mark>" in page
    assert " […] " in page
    assert "the end" not in page


def test_remarks() -> None:
    """What was left out, not readable, or changed by a threshold is said, and only then."""
    page = evaluation_page(both_sides())
    assert "Left out: 42 labelled other." in page
    assert "Not readable: 3." in page
    assert "Threshold 0.7" in page
    bare = evaluation_page(nothing_positive())
    parsed(bare)
    assert "Left out" not in bare
    assert "Not readable" not in bare
    assert "Worst errors" not in bare


def test_same_evaluation_same_bytes() -> None:
    """The page has no date and no chance in it."""
    assert evaluation_page(both_sides()) == evaluation_page(both_sides())
