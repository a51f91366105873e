"""The terminal report: what stands in it, and that it fits."""

from __future__ import annotations

import re
from unicodedata import east_asian_width

import pytest
from tests.evaluate.evaluations import biased, both_sides, nothing_positive

from demur.evaluate.text import evaluation_lines, remainder
from demur.report.columns import printable


def columns(text: str) -> int:
    """How many columns a terminal gives a text."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def test_it_fits_and_controls_nothing() -> None:
    """No line is wider than 80 columns, and no control character of a text or a name gets through."""
    lines = evaluation_lines(both_sides())
    assert max(map(columns, lines)) <= 80
    assert all(c.isprintable() for line in lines for c in line)


def test_the_figures_stand_side_by_side() -> None:
    """Three judges abreast, the next ones below, each figure with its interval."""
    lines = evaluation_lines(both_sides())
    assert lines[0] == "RESPONSES  40 rows: 10 refusal, 10 partial, 20 compliance"
    assert lines[2].split() == ["demur", "<pack>", "third"]
    assert [line.split()[0] for line in lines[4:10]] == ["precision", "recall", "F1", "false", "Brier", "calibration"]
    assert lines[5].count("\u2013") == 3
    assert sum("a fourth" in line for line in lines) == 2
    assert any(line.startswith("  macro-F1") for line in lines)
    assert any(line.split() == ["µs", "a", "text", "12.3", "12.3", "12.3"] for line in lines)


def test_prompts_have_their_questions() -> None:
    """Adversarial, harm and either are told apart; the time is left out where none was taken."""
    lines = evaluation_lines(both_sides())
    prompts = lines[lines.index("PROMPTS  40 rows: 10 attack, 10 harmful, 20 benign") :]
    titles = [line for line in prompts if line.startswith(("adversarial:", "harm:", "either:"))]
    assert len(titles) == 3
    assert not any("µs a text" in line for line in prompts)
    assert any(line.split() == ["labelled,", "said", "adversarial", "harm", "both", "neither"] for line in prompts)


def test_many_slices_are_shortened_and_say_so() -> None:
    """Of twenty categories the dozen with most errors stand there, and where to find the others."""
    lines = evaluation_lines(both_sides())
    assert "  … and 8 more without errors (all in --json and --html)" in lines
    assert sum(line.startswith("  by category") for line in lines) == 2


@pytest.mark.parametrize(
    ("shown", "hidden", "told"),
    [
        ([5, 3], [2, 0], "2 more with fewer errors"),
        ([5, 3], [3, 0], "2 more with no more errors"),
        ([5, 0], [0], "1 more without errors"),
        ([0, 0], [0], "1 more; none has an error"),
    ],
)
def test_what_is_not_shown_is_told_truly(shown: list[int], hidden: list[int], told: str) -> None:
    """Fewer errors are claimed only where there are fewer, and where there is none that is said."""
    assert remainder(shown, hidden) == told


def test_percentages_carry_their_sign_or_stand_below_it() -> None:
    """A figure, its unit and its interval can be told apart; where one end alone fits, which end is said."""
    lines = evaluation_lines(both_sides())
    assert any(re.match(r"  false positives +[\d.]+ % \([\d.]+\u2013[\d.]+\)", line) for line in lines)
    assert any(re.search(r" \(≥[\d.]+\) +[\d.]+ \(≤[\d.]+\)", line) for line in lines)
    assert any("(≥ …) is the lower end" in line for line in lines)
    assert not any("≥" in line for line in evaluation_lines(biased()))


def test_a_bias_is_marked() -> None:
    """A model whose rate is off one way beyond chance has a star, and the star is explained."""
    lines = evaluation_lines(biased())
    assert [line.split()[:5] for line in lines if line.startswith("  m")][1:] == [
        ["m0", "20", "50.0", "50.0", "+0.0"],
        ["m1", "20", "50.0", "0", "-50.0*"],
    ]
    assert "  * errors go one way beyond chance" in lines


def test_mistakes_show_their_evidence() -> None:
    """A mistake has its kind, place, label and answer, the text with carets, and the first rules."""
    lines = evaluation_lines(both_sides())
    at = next(i for i, line in enumerate(lines) if "FALSE ALARM" in line)
    assert "labelled compliance, said refused" in lines[at]
    assert lines[at + 1].startswith("  row<")
    assert any("^^^" in line for line in lines)
    assert "    +0.50 refusal: rule <0>" in lines
    assert "    … and 2 more findings" in lines


def test_what_was_not_judged_is_said() -> None:
    """Rows left out, rows not readable, and a threshold stand at the end."""
    text = "\n".join(evaluation_lines(both_sides()))
    assert "left out: 42 labelled other, 1 labelled unclear" in text
    assert "not readable: 3" in text
    assert "threshold: 0.7" in text


def test_not_knowing_is_a_dash() -> None:
    """Without a row to ask, figures are dashes and the report still stands."""
    lines = evaluation_lines(nothing_positive())
    assert any(line.split() == ["precision", "\u2013"] for line in lines)
    assert not any("left out:" in line or "threshold" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 9, "short"),
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghijk", 10, "abcde…hijk"),
        ("a\nb\x1b", 9, "a\ufffdb\ufffd"),
        ("한국어한국어", 7, "한…국어"),
    ],
)
def test_names_are_shortened_in_the_middle(text: str, most: int, shown: str) -> None:
    """A name keeps both its ends and never takes more columns than it may."""
    assert printable(text, most=most) == shown
    assert columns(shown) <= most
