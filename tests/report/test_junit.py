"""The file for CI systems: valid, and of one mind with the exit code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.comparisons import ALL, inconclusive, increase

from demur.model.comparison import Comparison
from demur.report.junit import junit


def read(comparison: Comparison) -> ET.Element:
    return ET.fromstring(junit(comparison).encode())  # noqa: S314 - our own output


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_it_fails_with_the_gate_alone(make: Callable[[], Comparison]) -> None:
    """The gate is the one test that can fail; slices are one test each, and the counts are right."""
    comparison = make()
    root = read(comparison)
    cases = root.findall("./testsuite/testcase")
    assert len(cases) == 1 + len(comparison.slices) == int(root.attrib["tests"])
    assert len(root.findall(".//failure")) == int(root.attrib["failures"]) == int(comparison.gate.failed)
    assert len(root.findall(".//skipped")) == int(root.attrib["skipped"])


def test_a_failure_says_why() -> None:
    """The message is the gate's reason, the text the finding with its figures."""
    (failure,) = read(increase()).findall(".//failure")
    assert failure.attrib == {"type": "worse", "message": increase().gate.why}
    assert (failure.text or "").startswith("worse: Refusals increased: 5.0 % → 15.0 %")
    assert not read(inconclusive()).findall(".//failure")


def test_a_changed_slice_is_seen_but_does_not_fail() -> None:
    """It is skipped, with its figures as the message."""
    (skipped,) = read(increase()).findall(".//skipped")
    assert skipped.attrib["message"].startswith("report only: increased: 3.4 % → 31.0 %, +27.6 points")


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_valid_whatever_the_text(text: str) -> None:
    """Any text in a reason or a slice's name leaves valid XML."""
    whole = increase()
    slices = tuple(replace(part, field=text, value=text) for part in whole.slices)
    read(replace(whole, gate=replace(whole.gate, why=text), slices=slices))
