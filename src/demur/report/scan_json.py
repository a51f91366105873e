"""A scan for machines: one JSON object, as `schemas/scan.schema.json` describes it.

Laws: the object says which schema it follows; runs, groups and differences stand in the order of the scan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.report.json_values import counts_object, difference_object, finite, rate_object, run_object, safe_text

if TYPE_CHECKING:
    from demur.model.run import Group, GroupDifference, Scan

__all__ = ["SCAN_SCHEMA", "scan_object"]

SCAN_SCHEMA = "demur.scan/1"


def scan_object(scan: Scan) -> dict[str, object]:
    """Return the scan as plain lists and dicts."""
    runs = zip(scan.tally.runs, scan.runs, strict=True)
    return {
        "schema": SCAN_SCHEMA,
        "rate": rate_object(scan.rate),
        "runs": [run_object(run) | {"rate": rate_object(rate)} for run, rate in runs],
        "groups": [_group_object(group) for group in scan.groups],
        "differences": [_group_difference(difference) for difference in scan.differences],
        "phrases": [
            {"phrase": safe_text(p.phrase), "category": safe_text(p.category), "count": p.count}
            for p in scan.tally.phrases
        ],
        "read_for_phrases": scan.tally.read_for_phrases,
    }


def _group_object(group: Group) -> dict[str, object]:
    return {
        "field": safe_text(group.field),
        "value": safe_text(group.value),
        "rate": rate_object(group.rate),
        "outcomes": counts_object(group.outcomes),
    }


def _group_difference(part: GroupDifference) -> dict[str, object]:
    return {
        "field": safe_text(part.field),
        "value": safe_text(part.value),
        "against": safe_text(part.against),
        "difference": difference_object(part.difference),
        "q": finite(part.q),
    }
