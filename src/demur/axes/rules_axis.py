"""The axis of each rule, over exchanges or sessions: which rules the candidate breaks that the baseline kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.results import RateRows, rate_result
from demur.axes.rules.checks import RuleOutcome, check_sights
from demur.axes.rules.rule import RuleScope
from demur.model.axes import AbsentAxis, AxisDetail, AxisName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.axes.measures import MeasuredRows
    from demur.axes.pairs import AxisPairs
    from demur.axes.rules.checks import RuleFinding
    from demur.axes.rules.rule import TraceRule
    from demur.model.axes import AxisResult
    from demur.model.comparison import PairNames

__all__ = ["rule_result"]


@dataclass(frozen=True, slots=True)
class _Checked:
    """A rule and its outcome in each unit on both sides."""

    rule: TraceRule
    names: PairNames
    units: Sequence[tuple[Sequence[int], Sequence[int]]]
    before: Sequence[RuleFinding]
    after: Sequence[RuleFinding]

    def sentence(self, unit: int) -> str:
        """Return who broke the rule in a unit, in which exchange, and how."""
        after = self.after[unit].outcome is RuleOutcome.BROKEN
        found = self.after[unit] if after else self.before[unit]
        return f"{'candidate' if after else 'baseline'} breaks `{self.rule.name}` in {self.blamed(unit)}: {found.why}"

    def blamed(self, unit: int) -> str:
        """Return the key of the exchange that broke the rule; of the first one where none did."""
        before, after = self.units[unit]
        sides = ((after, self.after[unit]), (before, self.before[unit]))
        broken = [places[found.at] for places, found in sides if found.outcome is RuleOutcome.BROKEN]
        return self.names.keys[broken[0] if broken else before[0]]


def rule_result(pairs: AxisPairs, place: int, rule: TraceRule, *, alpha: float, show: int) -> AxisResult | AbsentAxis:
    """Return the axis of the rule whose sights have this index, absent where it applies to no pair."""
    by_session = rule.scope is RuleScope.SESSION
    whole = pairs.session_rows() if by_session else pairs.exchange_rows()
    units = whole.units
    sides = [
        _findings(rule, place, side, [unit[at] for unit in units])
        for at, side in enumerate((whole.baseline, whole.candidate))
    ]
    # Where a rule applies to one side only, the other has not broken it.
    applies = [
        i for i, both in enumerate(zip(*sides, strict=True)) if any(f.outcome is not _NOT_APPLICABLE for f in both)
    ]
    name = f"rules/{rule.name}"
    # A rule that applies nowhere was not kept either, so it is absent rather than passed.
    if not applies:
        return AbsentAxis(AxisName.RULES, name, "the rule applies to no pair")
    before, after = ([side[i] for i in applies] for side in sides)
    checked = _Checked(rule, whole.names, [units[i] for i in applies], before, after)
    # Pairs come before rows without a counterpart, so the least index is a pair, whose cluster is the session's.
    first = np.array([min(*before, *after) for before, after in checked.units], dtype=np.int64)
    names = checked.names.only(first, [checked.blamed(unit) for unit in range(len(checked.units))])
    rows = RateRows(names, _broken_in(checked.before), _broken_in(checked.after), checked.sentence)
    # A session in which an exchange failed is left out, not blamed.
    lost = len(pairs.torn) + pairs.failed_alone if by_session else pairs.failed
    result = rate_result(AxisName.RULES, name, rows, lost=lost, alpha=alpha, show=show)
    unapplied = AxisDetail("did not apply", float(len(units) - len(applies)))
    return replace(result, details=(*result.details, unapplied))


_NOT_APPLICABLE = RuleOutcome.NOT_APPLICABLE


def _findings(rule: TraceRule, place: int, side: MeasuredRows, units: Sequence[Sequence[int]]) -> list[RuleFinding]:
    """Return the outcome of a rule in each unit; units that look alike to it are checked once."""
    sights = [kind.sights[place] if kind.sights else None for kind in side.kinds]
    alike: dict[object, int] = {}
    number = [alike.setdefault(sight, len(alike)) for sight in sights]
    known: dict[tuple[int, ...], RuleFinding] = {}
    kinds, found = side.kind.tolist(), []
    for unit in units:
        seen = tuple(number[kinds[i]] for i in unit)
        if seen not in known:
            known[seen] = check_sights(rule, [s for i in unit if (s := sights[kinds[i]]) is not None])
        found.append(known[seen])
    return found


def _broken_in(found: Sequence[RuleFinding]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([one.outcome is RuleOutcome.BROKEN for one in found], dtype=np.bool_)
