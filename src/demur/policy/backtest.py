"""What another policy set would have decided on recorded contexts.

Counts are of all records; examples are the first of each kind of change.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from demur.model.claim import Decision, Effect
    from demur.policy.gate import PolicyGate

__all__ = ["Backtest", "ChangedDecision", "RecordedDecision", "backtest"]

_EXAMPLES_PER_KIND = 3


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A recorded context, its place, and what was decided on it; None where that was not recorded."""

    place: str
    context: Mapping[str, object]
    effect: Effect | None


@dataclass(frozen=True, slots=True)
class ChangedDecision:
    """One record that would have been decided otherwise."""

    place: str
    before: Effect
    after: Decision


@dataclass(frozen=True, slots=True)
class Backtest:
    """How many records there were, how each decision would have moved, examples, and rules by how often they fired."""

    total: int
    unchanged: int
    undecided: int
    after: Mapping[Effect, int]
    changes: Mapping[tuple[Effect, Effect], int]
    examples: tuple[ChangedDecision, ...]
    fired: Mapping[str, int]
    errors: int

    @property
    def changed(self) -> int:
        """How many records would have been decided otherwise."""
        return sum(self.changes.values())


def backtest(gate: PolicyGate, records: Iterable[RecordedDecision], *, baseline: PolicyGate | None = None) -> Backtest:
    """Return what the gate would have decided, compared with the baseline if there is one, else with the record."""
    after: Counter[Effect] = Counter()
    changes: Counter[tuple[Effect, Effect]] = Counter()
    fired: Counter[str] = Counter()
    examples: list[ChangedDecision] = []
    unchanged = undecided = errors = 0
    for record in records:
        decision = gate.replay(record.context)
        before = baseline.replay(record.context).effect if baseline else record.effect
        after[decision.effect] += 1
        fired.update(rule.id for rule in decision.rules)
        errors += bool(decision.errors)
        # Counted and not left out: otherwise a set would look tested on records that say nothing.
        if before is None:
            undecided += 1
        elif before is decision.effect:
            unchanged += 1
        else:
            changes[before, decision.effect] += 1
            if changes[before, decision.effect] <= _EXAMPLES_PER_KIND:
                examples.append(ChangedDecision(record.place, before, decision))
    return Backtest(sum(after.values()), unchanged, undecided, after, changes, tuple(examples), fired, errors)
