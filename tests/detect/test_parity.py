"""The seed's own recorded answers, where the reference folder stands beside the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demur import is_abstention, safety_axis

CASES = Path(__file__).parents[3] / "shared" / "reference" / "shadow_parity_cases.json"


@pytest.mark.skipif(not CASES.exists(), reason="the reference folder is not part of the project")
def test_every_recorded_classification_is_reproduced() -> None:
    """`is_abstention` answers as shadow-diff 3.2.5 did on every recorded payload."""
    cases: list[dict[str, Any]] = json.loads(CASES.read_text(encoding="utf-8"))["classification_cases"]
    assert [is_abstention(c["payload"]) for c in cases] == [c["shadow_is_abstention"] for c in cases]


def records(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shaped = [(run["count"], run["response"]) for run in runs]
    return [
        {"content": [{"type": "text", "text": r["text"]}], "stop_reason": r["stop_reason"]}
        for n, r in shaped
        for _ in range(n)
    ]


@pytest.mark.skipif(not CASES.exists(), reason="the reference folder is not part of the project")
def test_every_recorded_axis_is_reproduced() -> None:
    """Rates, difference, severity and flags to the letter; interval ends within one lattice step; extra turns are cut off."""
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    assert cases
    for case in cases:
        pairs = list(zip(records(case["baseline"]), records(case["candidate"]), strict=False))
        expected, axis = case["expected"], safety_axis(pairs, patterns=case.get("patterns"))
        name, step = case["name"], 1 / max(len(pairs), 1) + 1e-9
        assert axis.baseline_rate == pytest.approx(expected["baseline_rate"], abs=1e-12), name
        assert axis.delta == pytest.approx(expected["delta"], abs=1e-12), name
        assert (axis.severity, axis.n, list(axis.flags)) == (expected["severity"], expected["n"], expected["flags"]), (
            name
        )
        assert axis.ci95_low == pytest.approx(expected["ci95_low"], abs=step), name
        assert axis.ci95_high == pytest.approx(expected["ci95_high"], abs=step), name
