"""Figures, runs and verdicts for machines.

Laws: a figure is an object with its interval and n; null means not known or not finite, so NaN and infinity never reach JSON; no string
holds half of a surrogate pair, so that every reader can decode it.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.estimate import Difference, Interval, Rate
    from demur.model.run import RunSummary
    from demur.model.verdict import Verdict

__all__ = [
    "counts_object",
    "difference_object",
    "finite",
    "interval_object",
    "rate_object",
    "run_object",
    "safe_text",
    "verdict_object",
]


def finite(value: float | None) -> float | None:
    """Return the number, or None where it is none."""
    return value if value is not None and isfinite(value) else None


def safe_text(text: str) -> str:
    """Return a text that every reader of JSON can decode: halves of surrogate pairs become the replacement sign."""
    return text if text.isascii() else "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def interval_object(interval: Interval) -> dict[str, object]:
    """Return an interval with its level and method."""
    return {
        "low": finite(interval.low),
        "high": finite(interval.high),
        "level": finite(interval.level),
        "method": interval.method,
    }


def rate_object(rate: Rate) -> dict[str, object]:
    """Return a rate with its interval."""
    return {"value": finite(rate.value), "count": rate.count, "n": rate.n, "interval": interval_object(rate.interval)}


def difference_object(difference: Difference) -> dict[str, object]:
    """Return a difference with its interval, p and n."""
    return {
        "value": finite(difference.value),
        "interval": interval_object(difference.interval),
        "p": finite(difference.p),
        "n": difference.n,
    }


def counts_object(counts: tuple[tuple[str, int], ...]) -> dict[str, object]:
    """Return counts by name."""
    return {safe_text(name): count for name, count in counts}


def run_object(run: RunSummary) -> dict[str, object]:
    """Return what one run held."""
    return {
        "name": safe_text(run.name),
        "format": safe_text(run.format),
        "rows": run.rows,
        "outcomes": counts_object(run.outcomes),
        "reasons": counts_object(run.reasons),
        "causes": counts_object(run.causes),
        "models": [safe_text(model) for model in run.models],
        "skipped": counts_object(run.skipped),
        "unreadable": run.unreadable,
    }


def verdict_object(verdict: Verdict) -> dict[str, object]:
    """Return a verdict with its evidence; spans count code points of the text beside it."""
    return {
        "outcome": str(verdict.outcome),
        "score": finite(verdict.score),
        "reason": None if verdict.reason is None else str(verdict.reason),
        "cause": None if verdict.cause is None else str(verdict.cause),
        "findings": [
            {
                "rule": safe_text(f.rule),
                "category": safe_text(f.category),
                "weight": finite(f.weight),
                "start": f.span.start,
                "end": f.span.end,
            }
            for f in verdict.findings
        ],
        "signals": [
            {"kind": str(s.kind), "path": safe_text(s.path), "value": safe_text(s.value), "blocked": s.blocked}
            for s in verdict.signals
        ],
    }
