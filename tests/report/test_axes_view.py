"""Axes beyond refusals are in every rendering, and none of their words can break one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from math import inf
from xml.etree import ElementTree as ET

import pytest
from tests.report.axes_reports import LATENCY, TRAJECTORY, with_axes
from tests.report.comparisons import increase
from tests.report.test_every_rendering import RENDERINGS

from demur.model.axes import AxisFlag, AxisName, AxisUnit
from demur.model.comparison import Comparison
from demur.model.estimate import Flag, Interval
from demur.report.axes_view import AXIS_FLAG_WORDS, axis_sentence
from demur.report.diff_view import diff_view
from demur.report.json import comparison_object
from demur.report.junit import junit
from demur.report.terminal import terminal_lines

RULES = json.loads((files("demur.report") / "schemas" / "diff.schema.json").read_text(encoding="utf-8"))


def cases(comparison: Comparison) -> dict[str, ET.Element]:
    found = ET.fromstring(junit(comparison).encode()).iter("testcase")  # noqa: S314 - our own output
    return {case.attrib["name"]: case for case in found if case.attrib["classname"] == "demur.diff.axis"}


@pytest.mark.parametrize("rendering", RENDERINGS)
def test_every_axis_is_in_every_rendering(rendering: str) -> None:
    """Each axis, its evidence, and the absent one with its reason are there; without axes nothing of it is."""
    text = " ".join(RENDERINGS[rendering](with_axes()).split())
    if rendering == "junit":
        text += " ".join(cases(with_axes()))
    for said in ("trajectory", "rules/disclaimer", "latency", "breaks `disclaimer` in q00", "no judge is configured"):
        assert said in text
    assert "trajectory" not in RENDERINGS[rendering](increase())


def test_a_reader_sees_figures_and_how_p_was_held() -> None:
    """The table has both sides, the difference, the held p and the size; its note says how p was held and who is gated."""
    text = "\n".join(terminal_lines(diff_view(with_axes(), show=2)))
    assert re.search(r"rules/disclaimer +0 → 75\.0 % +\+75\.0 \(\+50\.0 to \+87\.5\) +<0\.001 +severe", text)
    assert re.search(r"latency, ms +812 → 1,204 +×1\.48 \(×1\.12 to ×1\.79\)", text)
    assert "p held against all tested axes; the gate looks at safety" in text
    assert "judge  absent (no judge is configured" in text
    assert text.count("breaks `disclaimer` in q") == 6  # two pairs of each of the three axes that have any
    assert max(map(len, text.splitlines())) <= 80


def test_a_sample_is_said_to_be_one() -> None:
    """Where not all pairs were read, that and how many is said; elsewhere it is not."""
    sampled = " ".join("\n".join(terminal_lines(diff_view(with_axes(read=20)))).split())
    assert "axes are of a sample: 20 of 24 pairs, whole sessions drawn by the seed" in sampled
    assert "of a sample" not in "\n".join(terminal_lines(diff_view(with_axes())))


def test_a_sentence_has_what_is_known() -> None:
    """Size, sides and p are left out where there are none, never made up."""
    assert axis_sentence(LATENCY) == (
        "severe, 812 → 1,204 ms, ×1.48 (×1.12 to ×1.79), p < 0.001 (held < 0.001), 24 pairs"
    )
    assert axis_sentence(TRAJECTORY) == "severe, +75.0 (+50.0 to +87.5), 24 pairs"


@pytest.mark.parametrize(
    ("difference", "ends", "shown"),
    [
        (0.004, (-0.01, 0.02), "×1.004 (×0.990 to ×1.020)"),
        (4.9, (2.0, 6.25), "×5.9 (×3 to ×7.25)"),
        (inf, (0.5, inf), "×∞ (×1.5 to ×∞)"),
        (0.5, (-1.0, inf), "×1.5 (×0 to ×∞)"),
    ],
)
def test_a_relative_difference_is_a_factor(difference: float, ends: tuple[float, float], shown: str) -> None:
    """What is relative is shown as a factor, infinite ones too."""
    found = axis_sentence(replace(LATENCY, difference=difference, interval=Interval(*ends, "m")))
    assert shown in found


def test_what_cannot_be_decided_says_why() -> None:
    """The reason is a line of the axis."""
    shown = with_axes()
    assert shown.axes is not None
    doubt = replace(LATENCY, undecidable="4 sessions cannot support a test at 5 %")
    report = replace(shown.axes.report, results=(doubt,))
    text = "\n".join(terminal_lines(diff_view(replace(shown, axes=replace(shown.axes, report=report)))))
    assert re.search(r"undecidable +4 sessions cannot support a test at 5 %", text)


def test_every_flag_has_its_words() -> None:
    """No flag of an axis is without a sentence."""
    assert set(AXIS_FLAG_WORDS) == set(AxisFlag)


def test_the_schema_knows_every_word_of_the_axes() -> None:
    """Names, units and flags of the vocabulary are the schema's."""
    axis, axes = RULES["$defs"]["axis"]["properties"], RULES["$defs"]["axes"]["properties"]
    assert set(axis["axis"]["enum"]) == set(axes["gated"]["items"]["enum"]) == set(AxisName)
    assert set(axis["unit"]["enum"]) == set(AxisUnit)
    assert set(axis["flags"]["items"]["enum"]) == {*Flag, *AxisFlag}


def test_the_json_has_the_figures() -> None:
    """Difference, interval, both p, evidence, parts and gate are carried over."""
    value = comparison_object(with_axes(gated=(AxisName.SAFETY, AxisName.RULES)))["axes"]
    read = json.loads(json.dumps(value))
    assert len(read["results"]) == 4
    rule = next(result for result in read["results"] if result["name"] == "rules/disclaimer")
    assert (rule["difference"], rule["interval"]["low"], rule["p"], rule["p_adjusted"]) == (0.75, 0.5, 0.0002, 0.0008)
    assert (len(rule["evidence"]), rule["missing"], rule["gate"]["failed"]) == (18, 2, True)
    calls = next(result for result in read["results"] if result["axis"] == "trajectory")
    assert (calls["p"], calls["gate"], calls["parts"][0]["name"]) == (None, None, "trajectory/refund")
    assert read["absent"][0]["why"].startswith("no judge is configured")


def test_junit_fails_with_gated_axes_alone() -> None:
    """An axis that may fail the gate fails its case; one that may not is skipped with its figures, as is an absent one."""
    free, bound = cases(with_axes()), cases(with_axes(gated=(AxisName.SAFETY, AxisName.RULES)))
    assert [name for name, case in free.items() if case.find("failure") is not None] == []
    assert {name for name, case in free.items() if case.find("skipped") is not None} == {
        "trajectory", "rules/disclaimer", "latency", "judge",
    }  # fmt: skip
    assert [name for name, case in bound.items() if case.find("failure") is not None] == ["rules/disclaimer"]


def test_names_come_before_intervals_where_there_is_little_room() -> None:
    """Names that would be cut leave the interval to the axis's own lines."""
    shown = with_axes()
    assert shown.axes is not None
    long = [replace(r, name=f"{r.name}/of_the_law") for r in shown.axes.report.results]
    wide = replace(shown, axes=replace(shown.axes, report=replace(shown.axes.report, results=tuple(long))))
    text = "\n".join(terminal_lines(diff_view(wide)))
    assert re.search(r"^  rules/disclaimer/of_the_law +0 → 75\.0 % +\+75\.0 +<0\.001 +severe", text, re.MULTILINE)
    assert re.search(r"^  interval +\+50\.0 to \+87\.5$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80
