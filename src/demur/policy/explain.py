"""Why a decision came out as it did, and how far it was from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, cast

from cedarpy import pst

from demur.model.claim import flat_name
from demur.policy.cedar import RuleEngine, cedar_text
from demur.policy.rules import claims_read, predicate_tree, predicates_of, threshold_in, values_read
from demur.policy.values import decimal_value

if TYPE_CHECKING:
    from demur.model.claim import Claim, ClaimValue, Decision, Effect
    from demur.policy.gate import PolicyGate
    from demur.policy.rules import Rule

__all__ = ["Explanation", "NearMiss", "PredicateView", "RuleView", "claim_values", "explain", "rounded_scores", "said"]

DEFAULT_MARGIN = Decimal("0.05")
_EMPTY: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class PredicateView:
    """A predicate, whether it holds, and the values that it read; None for an absent one."""

    text: str
    held: bool
    values: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A score that stayed just short of making a rule fire, and what the decision would then have been."""

    rule: str
    threshold: str
    value: Decimal
    gap: Decimal
    effect: Effect


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule, whether it fired, and its predicates."""

    id: str
    effect: Effect
    place: str
    reason: str | None
    fired: bool
    predicates: tuple[PredicateView, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with every rule that was asked in its phase, and the near misses, nearest first."""

    decision: Decision
    rules: tuple[RuleView, ...]
    near: tuple[NearMiss, ...]


def explain(gate: PolicyGate, context: Mapping[str, object], *, margin: Decimal = DEFAULT_MARGIN) -> Explanation:
    """Return why the gate decides as it does on an evaluated context."""
    decision = gate.replay(context)
    fired = {rule.id for rule in decision.rules}
    asked = [rule for rule in gate.rules if context["action"] in rule.phases]
    views = tuple(_rule_view(rule, context, fired=rule.id in fired) for rule in asked)
    near = [miss for rule in asked if rule.id not in fired for miss in _near_misses(gate, rule, context, margin)]
    return Explanation(decision, views, tuple(sorted(near, key=lambda miss: miss.gap)))


def claim_values(context: Mapping[str, object]) -> dict[str, str]:
    """Return the claims of an evaluated context as a reader writes them."""
    claims = cast("Mapping[str, object]", context.get("claims", _EMPTY))
    unsound = cast("Mapping[str, str]", context.get("errors", _EMPTY))
    return {name: _value_text(value) for name, value in claims.items()} | dict.fromkeys(unsound, "not sound")


def rounded_scores(
    stated: tuple[Claim, ...] | Mapping[str, ClaimValue], context: Mapping[str, object]
) -> dict[str, tuple[str, str]]:
    """Return the scores that were decided on rounded, by flat name: as they were stated, and as they were read."""
    rows = stated.items() if isinstance(stated, Mapping) else ((claim.name, claim.value) for claim in stated)
    values = claim_values(context)
    pairs = {flat_name(name): (repr(v), values.get(flat_name(name))) for name, v in rows if isinstance(v, float)}
    return {
        n: (given, read)
        for n, (given, read) in pairs.items()
        if read and _is_number(read) and Decimal(given) != Decimal(read)
    }


def said(leaf: pst.Expr) -> str:
    """Return a predicate as its author might write it."""
    if threshold := threshold_in(leaf):
        return str(threshold)
    text = cedar_text(replace(predicate_tree(leaf), clauses=(pst.When(leaf),)))
    inner = text[text.index("{") + 1 : text.rindex("}")].strip()
    for name in values_read(leaf):
        inner = inner.replace(f"((context.claims).{name})", name).replace(f"(context.claims).{name}", name)
    return inner.replace("(context.claims) has", "claims has")


def _value_text(value: object) -> str:
    match value:
        case {"__extn": {"arg": str(arg)}}:
            return arg
        case bool():
            return str(value).lower()
        case list():
            return "[" + ", ".join(map(str, value)) + "]"
    return f'"{value}"'


def _rule_view(rule: Rule, context: Mapping[str, object], *, fired: bool) -> RuleView:
    leaves = predicates_of(rule.parsed.tree)
    held: frozenset[str] = frozenset()
    if leaves:
        # Cedar evaluates each predicate alone; an evaluator of our own could disagree with the one that decides.
        engine = RuleEngine({f"p{index}": predicate_tree(leaf) for index, leaf in enumerate(leaves)})
        kinds = (("principal", "Session"), ("action", "Action"), ("resource", "Model"))
        extras = cast("Mapping[str, object]", context.get("extras", _EMPTY))
        inner = {
            **extras,
            "claims": context["claims"],
            "invalid": sorted(cast("Mapping[str, str]", context.get("errors", _EMPTY))),
        }
        cedar_request = {**{part: {"type": kind, "id": context[part]} for part, kind in kinds}, "context": inner}
        held = engine.ask(cedar_request, parents=cast("list[str]", context.get("labels", []))).held
    values = claim_values(context)
    predicates = tuple(
        PredicateView(said(leaf), f"p{index}" in held, tuple((n, values.get(n)) for n in sorted(claims_read(leaf))))
        for index, leaf in enumerate(leaves)
    )
    return RuleView(rule.id, rule.effect, rule.place, rule.reason, fired, predicates)


def _near_misses(gate: PolicyGate, rule: Rule, context: Mapping[str, object], margin: Decimal) -> list[NearMiss]:
    """Return the thresholds within the margin that keep a rule from firing."""
    values = claim_values(context)
    claims = cast("Mapping[str, object]", context["claims"])
    misses = []
    for threshold in filter(None, map(threshold_in, predicates_of(rule.parsed.tree))):
        text = values.get(threshold.claim)
        if text is None or not _is_number(text):
            continue
        value = Decimal(text)
        gap = abs(threshold.value - value)
        # A miss is near only if the rule really fires once the score is across the threshold: others may hold it back.
        for score in (*threshold.crossing, threshold.value) if gap <= margin else ():
            moved = {**context, "claims": {**claims, threshold.claim: decimal_value(score)}}
            decision = gate.replay(moved)
            if any(fired.id == rule.id for fired in decision.rules):
                misses.append(NearMiss(rule.id, str(threshold), value, gap, decision.effect))
                break
    return misses


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdecimal()
