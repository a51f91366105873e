"""The machine's form of a scan follows its published schema, whatever stands in it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator
from tests.report.scans import ALL_SCANS, typical

from demur.report.scan_json import SCAN_SCHEMA, scan_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.model.run import Scan

RULES = json.loads((files("demur.report") / "schemas" / "scan.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("make", ALL_SCANS, ids=lambda make: make.__name__)
def test_every_object_follows_the_schema(make: Callable[[], Scan]) -> None:
    """The object is valid, without a not-a-number anywhere."""
    Draft202012Validator.check_schema(RULES)
    Draft202012Validator(RULES).validate(json.loads(json.dumps(scan_object(make()), allow_nan=False)))


def test_the_figures_are_those_of_the_scan() -> None:
    """Rates, runs, groups and evidence are carried over in their order."""
    value = json.loads(json.dumps(scan_object(typical())))
    assert value["schema"] == SCAN_SCHEMA == RULES["properties"]["schema"]["const"]
    assert (value["rate"]["count"], value["rate"]["n"]) == (110, 1612)
    assert [(run["name"], run["rate"]["count"]) for run in value["runs"]] == [
        ("logs/monday.jsonl", 100),
        ("logs/tuesday.jsonl", 10),
    ]
    assert [group["value"] for group in value["groups"]][:2] == ["gpt-x", "gpt-y"]
    assert value["phrases"][0] == {"phrase": "i can't help", "category": "refusal", "count": 51}
    assert value["read_for_phrases"] == 100
