"""Scans to show: typical, empty, and with names that are out to break the format."""

from __future__ import annotations

from tests.report.comparisons import HOSTILE

from demur.measure.rates import wilson
from demur.model.estimate import Difference, Interval
from demur.model.run import Group, GroupDifference, GroupTally, PhraseCount, RunSummary, Scan, ScanTally


def _group(field: str, value: str, count: int, n: int) -> Group:
    return Group(field, value, wilson(count, n), (("complied", n - count), ("refused", count)))


def typical() -> Scan:
    """Two runs by model and day."""
    outcomes = (("complied", 1100), ("refused", 80), ("partial", 12), ("filtered", 20), ("failed", 6))
    why = (("safety", 60), ("capability", 40)), (("text", 80), ("provider_filter", 20))
    first = RunSummary("logs/monday.jsonl", "openai_chat", 1218, outcomes, *why, ("gpt-x", "gpt-y"))
    counted = (("complied", 390), ("refused", 10)), (("safety", 10),), (("text", 10),)
    second = RunSummary("logs/tuesday.jsonl", "otel", 400, *counted, ("gpt-x",), (("a tool span", 12),), 2)
    groups = [_group("model", "gpt-x", 30, 900), _group("model", "gpt-y", 80, 712)]
    groups += [_group("day", f"2026-01-{day:02}", 3 * day % 13, 100 + day) for day in range(1, 16)]
    tallies = tuple(GroupTally(group.field, group.value, group.outcomes) for group in groups)
    said = (("i can't help", 51), ("i'm sorry", 44), ("as an ai", 9))
    phrases = tuple(PhraseCount(text, "refusal", count) for text, count in said)
    by_model = Difference(0.079, Interval(0.056, 0.103, "score"), 1e-9, 1612)
    differing = GroupDifference("model", "gpt-y", "gpt-x", by_model, 1e-9)
    by_day = Difference(0.04, Interval(-0.01, 0.12, "score"), 0.2, 1612)
    days = GroupDifference("day", "2026-01-04", "the rest", by_day, 0.4)
    return Scan(
        ScanTally((first, second), tallies, phrases, 100),
        wilson(110, 1612),
        (wilson(100, 1212), wilson(10, 400)),
        tuple(groups),
        (differing, days),
    )


def empty() -> Scan:
    """Nothing could be judged."""
    return Scan(ScanTally((RunSummary("x", "plain", 0, ()),)), wilson(0, 0), (wilson(0, 0),), (), ())


def hostile_scan() -> Scan:
    """Every name is out to break the format."""
    runs = tuple(
        RunSummary(text, text, 3, ((text, 2), ("failed", 1)), ((text, 1),), ((text, 1),), HOSTILE, ((text, 1),), 1)
        for text in HOSTILE
    )
    groups = tuple(_group(HOSTILE[at % 2], text, 1, 3) for at, text in enumerate(HOSTILE))
    nan = float("nan")
    differing = tuple(
        GroupDifference(g.field, g.value, text, Difference(nan, Interval(nan, nan, "x"), nan, 3), nan)
        for g, text in zip(groups, HOSTILE, strict=True)
    )
    phrases = tuple(PhraseCount(text, text, 1) for text in HOSTILE)
    return Scan(ScanTally(runs, (), phrases, 3), wilson(9, 27), (wilson(1, 3),) * len(runs), groups, differing)


ALL_SCANS = (typical, empty, hostile_scan)
