"""Where a rule turns: the numbers that it compares scores with.

Laws: a threshold is read with the claim on the left, whichever way it was written; scores live on a grid of 0.0001, so
"just above" is one step; an absent score is on neither side.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from cedarpy import pst

from demur.policy.tree import predicates_of, values_read

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["STEP", "Threshold", "empty_range", "threshold_in", "thresholds_of"]

STEP: Final = Decimal("0.0001")
_SIGNS: Final = {
    "decimal_less_than": "<",
    "decimal_less_eq": "<=",
    "decimal_greater": ">",
    "decimal_greater_eq": ">=",
    "eq": "==",
    "not_eq": "!=",
}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Threshold:
    """A score, the number it is compared with, and how."""

    claim: str
    sign: str
    value: Decimal

    def __str__(self) -> str:
        return f"{self.claim} {self.sign} {self.value}"

    def holds(self, score: Decimal | None) -> bool:
        """Return whether the comparison is true of a score; of an absent one it is not."""
        if score is None:
            return False
        order = (score > self.value) - (score < self.value)
        return order in {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "==": (0,), "!=": (-1, 1)}[self.sign]

    @property
    def crossing(self) -> tuple[Decimal, ...]:
        """The scores next to the threshold for which the comparison is true, nearest first."""
        near = (self.value, self.value + STEP, self.value - STEP)
        return tuple(score for score in near if self.holds(score))


def threshold_in(leaf: pst.Expr) -> Threshold | None:
    """Return the threshold that a predicate is, None where it compares something else."""
    if not isinstance(leaf, pst.BinaryOp) or leaf.op not in _SIGNS:
        return None
    sign = _SIGNS[leaf.op]
    left, right = _decimal_literal(leaf.left), _decimal_literal(leaf.right)
    if isinstance(leaf.left, pst.GetAttr) and right is not None and values_read(leaf.left):
        return Threshold(leaf.left.attr, sign, right)
    if isinstance(leaf.right, pst.GetAttr) and left is not None and values_read(leaf.right):
        return Threshold(leaf.right.attr, _MIRRORED[sign], left)
    return None


def thresholds_of(tree: pst.Template) -> tuple[Threshold, ...]:
    """Return every threshold of a rule, in order."""
    found = (threshold_in(leaf) for leaf in predicates_of(tree))
    return tuple(dict.fromkeys(threshold for threshold in found if threshold))


def empty_range(thresholds: Iterable[Threshold], low: Decimal, high: Decimal) -> bool:
    """Return whether no score from `low` to `high` can meet all thresholds together."""
    for threshold in thresholds:
        match threshold.sign:
            case ">":
                low = max(low, threshold.value + STEP)
            case ">=":
                low = max(low, threshold.value)
            case "<":
                high = min(high, threshold.value - STEP)
            case "<=":
                high = min(high, threshold.value)
            case "==":
                low, high = max(low, threshold.value), min(high, threshold.value)
            case _:
                pass
    return low > high


def _decimal_literal(expr: pst.Expr) -> Decimal | None:
    match expr:
        case pst.UnaryOp(op="decimal", arg=pst.StringLit(value=text)):
            return Decimal(text)
    return None
