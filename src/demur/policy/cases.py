"""Whether a policy set does what its author says, and what another set would have decided.

Cases have an expected decision, and every threshold is tried from both sides. A backtest counts all records; its examples are the
first of each kind of change.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.model.claim import Phase
from demur.policy.cedar import CedarRequest, RuleEngine
from demur.policy.rules import STEP, predicate_tree, predicates_of, threshold_in
from demur.policy.values import decimal_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from decimal import Decimal

    from demur.model.claim import Decision, Effect
    from demur.policy.gate import Ask, PolicyGate

__all__ = [
    "Backtest",
    "BoundaryResult",
    "CaseResult",
    "ChangedDecision",
    "PolicyCase",
    "RecordedDecision",
    "backtest",
    "boundary_results",
    "case_results",
    "rules_never_met",
]


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """What is asked and what is expected: the decision, and the ids of the rules that fire where they are given."""

    name: str
    ask: Ask
    decision: Effect
    fired: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case, what came out, and why that is not what was expected; None where it is."""

    case: PolicyCase
    decision: Decision
    why: str | None


@dataclass(frozen=True, slots=True)
class BoundaryResult:
    """A threshold asked at one score (None: absent): what its sign says, what Cedar says, what the whole set decides."""

    rule: str
    threshold: str
    score: Decimal | None
    expected: bool
    held: bool
    decision: Effect

    @property
    def passed(self) -> bool:
        """Whether Cedar agrees with the arithmetic."""
        return self.expected is self.held


def case_results(gate: PolicyGate, cases: Iterable[PolicyCase]) -> tuple[CaseResult, ...]:
    """Return what the gate makes of each case."""
    results = []
    for case in cases:
        decision = gate.decide(case.ask)
        fired = tuple(sorted(rule.id for rule in decision.rules))
        why = None
        if decision.effect is not case.decision:
            why = f"expected {case.decision.word}, got {decision.effect.word}"
        elif case.fired is not None and fired != tuple(sorted(case.fired)):
            wanted, got = (", ".join(ids) or "none" for ids in (sorted(case.fired), fired))
            why = f"expected the rules {wanted}, got {got}"
        results.append(CaseResult(case, decision, why))
    return tuple(results)


def rules_never_met(gate: PolicyGate, results: Iterable[CaseResult]) -> tuple[str, ...]:
    """Return the ids of the rules that no case makes fire."""
    met = {rule.id for result in results for rule in result.decision.rules}
    return tuple(rule.id for rule in gate.rules if rule.id not in met)


def boundary_results(gate: PolicyGate) -> tuple[BoundaryResult, ...]:
    """Return every threshold of every rule, asked at it, beside it and without the claim."""
    results = []
    for rule, leaf in [(one, leaf) for one in gate.rules for leaf in predicates_of(one.parsed.tree)]:
        threshold = threshold_in(leaf)
        if threshold is None:
            continue
        engine = RuleEngine({"p": predicate_tree(leaf)})
        phase = next((phase for phase in Phase if phase in rule.phases), Phase.REQUEST)
        # A step is Cedar's smallest: `>` and `>=` differ at the threshold only, and a missing claim must not count as zero.
        for score in (threshold.value, threshold.value + STEP, threshold.value - STEP, None):
            claims = {} if score is None else {threshold.claim: decimal_value(score)}
            request = CedarRequest("", phase.value, "", json.dumps({"claims": claims, "invalid": []}))
            held = "p" in engine.answer(request).held
            whole = gate.replay({"principal": "", "action": phase.value, "resource": "", "claims": claims})
            expected = threshold.holds(score)
            results.append(BoundaryResult(rule.id, str(threshold), score, expected, held, whole.effect))
    return tuple(results)


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
