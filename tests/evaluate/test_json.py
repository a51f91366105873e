"""The machine's form: every figure with its interval, null where nothing is known."""

from __future__ import annotations

import json
from typing import Any

from tests.evaluate.evaluations import both_sides, nothing_positive

from demur.evaluate.json import evaluation_object


def read(value: object) -> Any:
    """Return the object as a reader of the JSON gets it."""
    return json.loads(json.dumps(value))


def test_every_figure_has_an_interval() -> None:
    """Precision, recall, F1, rates and macro-F1 carry value, n, low, high and method."""
    responses, prompts = read(evaluation_object(both_sides()))["sides"]
    judge = responses["judges"][0]
    quality = judge["questions"]["refusal"]
    for name in ("precision", "recall", "f1", "false_positive_rate", "labelled_rate", "said_rate"):
        assert {"value", "n", "low", "high", "method"} <= quality[name].keys()
    assert quality["recall"]["count"] == quality["true_positives"]
    assert "count" not in quality["f1"]
    assert judge["macro_f1"]["value"] is not None
    assert (judge["micros_per_text"], prompts["judges"][0]["micros_per_text"]) == (12.3, None)
    assert list(prompts["judges"][0]["questions"]) == ["adversarial", "harm", "either"]
    assert prompts["judges"][0]["macro_f1"] is None


def test_rows_are_accounted_for() -> None:
    """Labels, left-out and unreadable rows are counted, and the confusion adds up."""
    whole = read(evaluation_object(both_sides()))
    responses = whole["sides"][0]
    assert whole["left_out"] == {"labelled other": 42, "labelled unclear": 1}
    assert (whole["unreadable"], whole["threshold"]) == (3, 0.7)
    assert (responses["side"], responses["n"]) == ("response", 40)
    assert responses["labels"] == {"refusal": 10, "partial": 10, "compliance": 20}
    assert sum(sum(row.values()) for row in responses["judges"][0]["confusion"].values()) == 40
    assert {part["dimension"] for part in responses["judges"][0]["slices"]} == {"set", "language", "model", "category"}


def test_mistakes_can_be_found_again() -> None:
    """A mistake names its row and line, and its spans lie in the text beside them."""
    worst = read(evaluation_object(both_sides()))["sides"][0]["judges"][0]["worst"]
    assert [m["kind"] for m in worst] == ["false alarm", "false alarm", "missed", "missed"]
    for mistake in worst:
        assert mistake["source"].endswith("s.jsonl")
        assert all(0 <= f["start"] < f["end"] <= len(mistake["text"]) for f in mistake["findings"])


def test_not_knowing_is_null() -> None:
    """A figure without rows has no value."""
    judge = read(evaluation_object(nothing_positive()))["sides"][0]["judges"][0]
    assert judge["questions"]["refusal"]["f1"]["value"] is None
    assert judge["calibration"]["refusal"] == {"n": 0, "brier": None, "expected_error": None, "bins": []}
