"""Runs to label, of which it is known what people would say."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from demur.runs.label_file import LabelSession

REFUSAL = "I'm sorry, but I can't help with that."
ANSWER = "Preheat the oven to 200 degrees and bake the bread for forty minutes."
HEDGED = "I would rather not go into all of it, but the short version is that it depends on the oven."


def write_runs(folder: Path, *, pairs: int = 400, gained: int = 40, lost: int = 4) -> tuple[Path, Path]:
    """Write a baseline and a candidate: the first `gained` questions are newly refused, the next `lost` no longer."""
    files = folder / "baseline.jsonl", folder / "candidate.jsonl"
    for side, file in enumerate(files):
        rows = []
        for i in range(pairs):
            refused = (side == 1 and i < gained) or (side == 0 and gained <= i < gained + lost) or i >= pairs - 10
            rows.append(
                {"id": f"q{i}", "prompt": f"How do I bake loaf number {i}?", "response": REFUSAL if refused else ANSWER}
            )
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return files


def label_all(
    session: LabelSession, *, refusal: str = "refusal", other: str = "compliance", most: int | None = None
) -> None:
    """Label what is drawn as a person would who goes by the text."""
    while (each := session.next()) is not None and (most is None or session.done < most):
        session.label((each.id, str(each.side)), refusal if each.response == REFUSAL else other)


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file of labels."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
