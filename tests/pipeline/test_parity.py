"""The seed's own recorded answers, where the reference folder stands beside the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demur import is_abstention

CASES = Path(__file__).parents[3] / "shared" / "reference" / "shadow_parity_cases.json"


@pytest.mark.skipif(not CASES.exists(), reason="the reference folder is not part of the project")
def test_every_recorded_classification_is_reproduced() -> None:
    """`is_abstention` answers as shadow-diff 3.2.5 did on every recorded payload."""
    cases: list[dict[str, Any]] = json.loads(CASES.read_text(encoding="utf-8"))["classification_cases"]
    assert [is_abstention(c["payload"]) for c in cases] == [c["shadow_is_abstention"] for c in cases]
