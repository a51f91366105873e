"""How fast is the detector? µs a text, beside the seed's naive loop in the same run.

    python benchmarks/detector.py [FILE.jsonl]

FILE has a `response` or `text` a line; without it the project's corpus is joined into texts of about 1 KB. Each figure is the
best of five runs over all texts, on one core.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import demur
from demur.detect.batch import judge_texts
from demur.detect.phrase_lists import Target, builtin_pack

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "responses.jsonl"
SIZE = 1024
RUNS = 5
PHRASES = [phrase for phrase, _ in builtin_pack("shadow").phrases(Target.RESPONSE)]


def texts_of(path: Path, *, language: str | None = "en") -> list[str]:
    """Return texts of 1 KB: those of the file that are long enough, cut; else its texts joined."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [
        row.get("response") or row.get("text") or "" for row in rows if language in (None, row.get("lang", language))
    ]
    long = [text[:SIZE] for text in found if len(text) >= SIZE]
    joined = "\n\n".join(found)
    return long or [joined[i : i + SIZE] for i in range(0, len(joined) - SIZE, SIZE)]


def micros(judge: Callable[[list[str]], object], texts: list[str]) -> float:
    """Return the best time a text of several runs."""
    judge(texts[:8])
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        judge(texts)
        best = min(best, time.perf_counter() - start)
    return best / len(texts) * 1e6


def naive(texts: list[str]) -> list[bool]:
    """Do what the seeds do: is any of eleven phrases in the lower-cased text?"""
    return [any(phrase in lower for phrase in PHRASES) for lower in (text.lower() for text in texts)]


def main() -> None:
    """Print the figures."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS
    texts = texts_of(path)
    texts *= max(1, 2000 // len(texts))
    floor = micros(naive, texts)
    print(f"{len(texts)} texts of {SIZE} characters from {path.name}")
    print(f"naive loop, 11 phrases   {floor:7.1f} µs a text   1.0×")
    for name, judge in (("batch", judge_texts), ("one by one", lambda many: [demur.check(text) for text in many])):
        took = micros(judge, texts)
        print(f"demur, {name:<17} {took:7.1f} µs a text   {took / floor:.1f}×")


if __name__ == "__main__":
    main()
