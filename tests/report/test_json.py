"""The machine's form of a diff and of a scan follows its published schema, whatever stands in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from tests.report.axes_reports import hostile_axes, with_axes
from tests.report.comparisons import ALL, hostile, increase, missing, no_refusals, nothing
from tests.report.scans import ALL_SCANS, typical

from demur.model.comparison import Change, Comparison, GateMode, Pairing
from demur.model.estimate import Difference, Flag, Interval
from demur.model.run import Scan
from demur.report.json import DIFF_SCHEMA, SCAN_SCHEMA, comparison_object, scan_object


def schema(name: str) -> Any:
    return json.loads((files("demur.report") / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))


RULES, SCAN_RULES = schema("diff"), schema("scan")


def read(comparison: Comparison) -> Any:
    """Return the object as a reader of the JSON gets it; not-a-number is refused on the way."""
    return json.loads(json.dumps(comparison_object(comparison), allow_nan=False))


def test_the_schema_is_sound_and_named() -> None:
    """It is a valid schema, names the version that objects carry, and needs nothing from elsewhere."""
    Draft202012Validator.check_schema(RULES)
    assert RULES["properties"]["schema"] == {"const": DIFF_SCHEMA}
    assert "$id" not in RULES


@pytest.mark.parametrize("make", [*ALL, with_axes, hostile_axes], ids=lambda make: make.__name__)
def test_every_object_follows_the_schema(make: Callable[[], Comparison]) -> None:
    """Both ways of writing JSON give an object that is valid and the same."""
    comparison = make()
    value = read(comparison)
    Draft202012Validator(RULES).validate(value)
    assert json.loads(msgspec.json.encode(comparison_object(comparison))) == value


def test_the_schema_knows_every_word() -> None:
    """Flags, decisions, gates and pairings of the vocabulary are the schema's."""
    properties, defs = RULES["properties"], RULES["$defs"]
    assert set(properties["flags"]["items"]["enum"]) == set(Flag)
    assert set(defs["change"]["enum"]) == set(Change)
    assert set(properties["gate"]["properties"]["mode"]["enum"]) == set(GateMode)
    assert set(properties["pairing"]["enum"]) == set(Pairing)


def test_a_wrong_object_is_refused() -> None:
    """The schema is strict: a missing or an unknown field does not pass."""
    value = read(increase())
    checker = Draft202012Validator(RULES)
    assert not checker.is_valid(value | {"extra": 1})
    assert not checker.is_valid({k: v for k, v in value.items() if k != "difference"})


def test_the_figures_are_those_of_the_comparison() -> None:
    """Rates, difference, pairs and gate are carried over, every kept flip included."""
    value = read(increase())
    assert (value["schema"], value["decision"]["change"], value["gate"]["failed"]) == (
        "demur.diff/2",
        "increased",
        True,
    )
    assert value["pairs"] == {"n": 200, "both": 7, "baseline_only": 3, "candidate_only": 23, "neither": 167}
    assert (value["baseline"]["value"], value["candidate"]["count"]) == (0.05, 30)
    assert len(value["flips"]) == 26
    assert read(missing())["missing"]["bounds"] == [-0.06, 0.115]
    finding = value["flips"][0]["candidate"]["verdict"]["findings"][0]
    assert value["flips"][0]["candidate"]["text"][finding["start"] : finding["end"]] == "I can't help"


def test_not_knowing_is_null() -> None:
    """No pairs, no rate; what is not finite is null."""
    assert read(nothing())["baseline"]["value"] is None
    assert read(no_refusals())["baseline"]["value"] == 0
    assert read(hostile())["clustering"]["design_effect"] is None
    nan = float("nan")
    lost = replace(increase(), difference=Difference(nan, Interval(-float("inf"), nan, "x"), nan, 3))
    value = read(lost)["difference"]
    assert (value["value"], value["p"], value["interval"]["low"], value["interval"]["high"]) == (None,) * 4


@pytest.mark.parametrize("make", ALL_SCANS, ids=lambda make: make.__name__)
def test_every_scan_follows_the_schema(make: Callable[[], Scan]) -> None:
    """The object is valid, without a not-a-number anywhere."""
    Draft202012Validator.check_schema(SCAN_RULES)
    Draft202012Validator(SCAN_RULES).validate(json.loads(json.dumps(scan_object(make()), allow_nan=False)))


def test_the_figures_are_those_of_the_scan() -> None:
    """Rates, runs, groups and evidence are carried over in their order."""
    value = json.loads(json.dumps(scan_object(typical())))
    assert value["schema"] == SCAN_SCHEMA == SCAN_RULES["properties"]["schema"]["const"]
    assert (value["rate"]["count"], value["rate"]["n"]) == (110, 1612)
    runs = [(run["name"], run["rate"]["count"]) for run in value["runs"]]
    assert runs == [("logs/monday.jsonl", 100), ("logs/tuesday.jsonl", 10)]
    assert [group["value"] for group in value["groups"]][:2] == ["gpt-x", "gpt-y"]
    assert value["phrases"][0] == {"phrase": "i can't help", "category": "refusal", "count": 51}
    assert value["read_for_phrases"] == 100
