"""Does a context say what the auditors stated? Claims of one flat name are merged as the gateway does, and compared.

The merge, as docs/record.md gives it: of scores the highest, of booleans true, of conformities false, lists united; words and
types that differ cannot be merged, and the context names the claim among its errors. Laws: a claim in the context is the one that was
stated, a score at the four digits that a policy sees; one that was left out is given back as the context would have had it, for a
replay to tell whether it mattered (what carries a text stands in a context only where a rule reads it). What is
withheld is not judged here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.claim import Claim, ClaimType, flat_name
from demur.record.canonical import JsonValue, as_object
from demur.record.commit import claims_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.claim import ClaimValue

__all__ = ["misstated", "omitted"]

_HALF_STEP = 0.00005
_SLIP = 1e-9
"""What two readings of one decimal can differ by."""


def misstated(stated: Sequence[Claim], context: dict[str, JsonValue]) -> str | None:
    """Return which claim the context has otherwise than it was stated; None where there is none."""
    evaluated = claims_in(context)
    for name, group in _groups_told(stated, context):
        if name in evaluated and not all(_agrees(value, evaluated[name]) for value in _merged_values(group)):
            return name
    return None


def omitted(stated: Sequence[Claim], context: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the claims that were stated and are not in the context, as it would have had them."""
    evaluated = claims_in(context)
    return {
        name: _as_context(_merged_values(group)[0], group[0].type)
        for name, group in _groups_told(stated, context)
        if name not in evaluated
    }


def _groups_told(stated: Sequence[Claim], context: dict[str, JsonValue]) -> Iterator[tuple[str, list[Claim]]]:
    """Yield the claims by flat name, but for those that are withheld, that have no value, or that the context calls unsound."""
    errors = as_object(context.get("errors", {}))
    groups: dict[str, list[Claim]] = {}
    for claim in stated:
        groups.setdefault(flat_name(claim.name), []).append(claim)
    for name, group in groups.items():
        told = [claim for claim in group if claim.value is not None]
        if told and name not in errors and not any(claim.sensitive for claim in group):
            yield name, told


def _merged_values(group: list[Claim]) -> list[ClaimValue]:
    """Return what the context must agree with: one value, or all of them where they cannot be merged."""
    values = [claim.value for claim in group]
    kinds = {claim.type for claim in group}
    if len(kinds) > 1:
        return values
    (kind,) = kinds
    if kind is ClaimType.CATEGORY_LIST:
        return [tuple({word for value in values if isinstance(value, tuple) for word in value})]
    if kind in (ClaimType.CATEGORY, ClaimType.POLICY_VIOLATION):
        return values
    pick = min if kind is ClaimType.CONFORMITY else max
    return [pick(values, key=_size_of)]


def _as_context(value: ClaimValue, kind: ClaimType) -> JsonValue:
    if isinstance(value, tuple):
        return [*sorted(value)]
    scored = kind in (ClaimType.SCORE_BINARY, ClaimType.SCORE_NORMALIZED, ClaimType.SCORE_PERCENTAGE)
    if isinstance(value, float) or (scored and isinstance(value, bool | int)):
        return {"__extn": {"fn": "decimal", "arg": f"{float(value):.4f}"}}
    return value


def _size_of(value: ClaimValue) -> float:
    return float(value) if isinstance(value, bool | int | float) else 0.0


def _agrees(value: ClaimValue, evaluated: JsonValue) -> bool:
    match evaluated:
        case {"__extn": {"fn": "decimal", "arg": str(digits)}}:
            return isinstance(value, bool | int | float) and _is_near(digits, float(value))
        case list():
            return isinstance(value, tuple) and set(value) == {str(word) for word in evaluated}
        case _:
            return type(value) is type(evaluated) and value == evaluated


def _is_near(digits: str, value: float) -> bool:
    try:
        return abs(float(digits) - value) <= _HALF_STEP + _SLIP * abs(value)
    except ValueError:
        return False
