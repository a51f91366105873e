"""What did a Bedrock guardrail find? `trace.guardrail`, summarised into flags, and flags written as a trace.

Laws: one flag for each topic, filter, word list or entity that acted or was detected; its path leads to the `action`,
its detail names the policy, `blocked` is true for BLOCKED only. Words that matched stay in the trace and are never
copied into a flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.exchange import Signal, SignalKind
from demur.wire.fields import Field, join_path, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.interface import JsonObject

__all__ = ["guardrail_flags", "write_flag"]

# Policy → its lists → the field that names what was found; a custom word has no name but itself, so it has none here.
_POLICIES: dict[str, dict[str, str | None]] = {
    "topicPolicy": {"topics": "name"},
    "contentPolicy": {"filters": "type"},
    "wordPolicy": {"customWords": None, "managedWordLists": "type"},
    "sensitiveInformationPolicy": {"piiEntities": "type", "regexes": "name"},
    "contextualGroundingPolicy": {"filters": "type"},
}
_TRACE = "trace.guardrail."


def guardrail_flags(guardrail: Field) -> Iterator[Signal]:
    """Yield a flag for everything that the guardrail did or detected, on the way in and on the way out."""
    asked, answered = guardrail.get("inputAssessment"), guardrail.get("outputAssessments")
    if asked is not None:
        for name, assessment in asked.fields():
            yield from _flags(assessment, join_path(asked.path, name), choice=None)
    if answered is not None:
        for name, assessments in answered.fields():
            for index, assessment in enumerate(assessments):
                yield from _flags(assessment, join_path(join_path(answered.path, name), index), choice=0)


def write_flag(body: JsonObject, signal: Signal) -> None:
    """Write a flag into the body's trace, at its path; flags of other shapes have no place there."""
    if not (signal.path.startswith(_TRACE) and signal.path.endswith("].action")):
        return
    item = signal.path.removesuffix(".action")
    found_in = item.rpartition(".")[2].partition("[")[0]
    label = _POLICIES.get(signal.detail or "", {}).get(found_in)
    if label is not None and signal.category is not None:
        put(body, f"{item}.{label}", value=signal.category)
    if signal.severity is not None:
        put(body, f"{item}.confidence", value=signal.severity)
    put(body, signal.path, value=signal.value)
    if signal.value == "NONE":
        put(body, f"{item}.detected", value=True)


def _flags(assessment: Field, path: str, *, choice: int | None) -> Iterator[Signal]:
    for policy, lists in _POLICIES.items():
        found = assessment.get(policy) or Field({}, policy)
        for name, label in lists.items():
            for index, item in enumerate(found.each(name)):
                action = item.text_at("action") or "NONE"
                if action == "NONE" and not item.flag_at("detected"):
                    continue
                yield Signal(
                    SignalKind.FILTER_FLAG,
                    f"{path}.{policy}.{name}[{index}].action",
                    action,
                    choice=choice,
                    category=name if label is None else item.text_at(label),
                    severity=item.text_at("confidence"),
                    detail=policy,
                    blocked=action == "BLOCKED",
                )
