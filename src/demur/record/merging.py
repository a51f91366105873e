"""Does a context say what the auditors stated? Claims of one flat name are merged as the gateway does, and compared.

The merge, as docs/record.md gives it: of scores the highest, of booleans true, of conformities false, lists united; words and
types that differ cannot be merged, and the context names the claim among its errors. Laws: a claim that was stated and is neither in the
context nor among its errors is a fault; a score is compared at the four digits that a policy sees. What is sensitive is
withheld, and stands in a context only where a rule reads it: nothing is said about it here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.claim import Claim, ClaimType, flat_name
from demur.record.canonical import JsonValue, as_object
from demur.record.commit import claims_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.claim import ClaimValue

__all__ = ["misstated"]

_HALF_STEP = 0.00005
_SLIP = 1e-9
"""What two readings of one decimal can differ by."""


def misstated(stated: Sequence[Claim], context: dict[str, JsonValue]) -> str | None:
    """Return which claim the context does not have as it was stated; None where it has all."""
    evaluated, errors = claims_in(context), as_object(context.get("errors", {}))
    groups: dict[str, list[Claim]] = {}
    for claim in stated:
        groups.setdefault(flat_name(claim.name), []).append(claim)
    for name, group in groups.items():
        values = [claim.value for claim in group if claim.value is not None]
        if not values or name in errors or any(claim.sensitive for claim in group):
            continue
        if name not in evaluated:
            return f"`{name}` was stated and is not in the context"
        if not all(_agrees(value, evaluated[name]) for value in _merged_values(group, values)):
            return f"`{name}` was stated otherwise than the context has it"
    return None


def _merged_values(group: list[Claim], values: list[ClaimValue]) -> list[ClaimValue]:
    """Return what the context must agree with: one value, or all of them where they cannot be merged."""
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
