"""The rules of a policy set: their effects, the claims they read, the phases they apply in, and their ids."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cedarpy import pst

from demur.errors import PolicyError
from demur.model.claim import Effect, FiredRule, Phase
from demur.policy.engine import RuleEngine, parse_policies
from demur.policy.language import translate
from demur.policy.tree import claims_read, lowered, nodes_under

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demur.policy.engine import ParsedPolicy
    from demur.policy.language import PolicySource

__all__ = ["DEFAULT_RULE", "Rule", "nearest", "rules_of"]

DEFAULT_RULE = "default"
_ANNOTATIONS = ("decision", "id", "reason")
_WORDS = tuple(effect.word for effect in Effect)
_ALL_PHASES = frozenset(Phase)


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy, ready to be asked; `key` is its name in Cedar, `place` is `file:line`."""

    key: str
    id: str
    effect: Effect
    reason: str | None
    parsed: ParsedPolicy
    tree: pst.Template
    reads: frozenset[str]
    phases: frozenset[Phase]
    place: str
    sees: frozenset[str] = frozenset()
    """Those of `principal` and `resource` that the rule looks at."""

    @property
    def fired(self) -> FiredRule:
        """The rule as a decision names it."""
        return FiredRule(self.id, self.effect, self.reason, self.place)


def rules_of(sources: Sequence[PolicySource]) -> tuple[Rule, ...]:
    """Return the rules of all sources in order; raise `PolicyError` where one is not sound or there is none."""
    parsed = [policy for source in sources for policy in parse_policies(translate(source))]
    if not parsed:
        names = ", ".join(f"`{source.name}`" for source in sources) or "nothing"
        raise PolicyError(
            f"no policy in {names}", hint="an empty set would decide nothing; write a rule or name a pack"
        )
    rules = tuple(_rule_of(policy, index) for index, policy in enumerate(parsed))
    # Records and fixtures name rules by id alone, so no two may share one.
    seen: dict[str, Rule] = {DEFAULT_RULE: rules[0]}
    for rule in rules:
        if rule.id in seen:
            other = "the gate itself" if rule.id == DEFAULT_RULE else f"the rule at {seen[rule.id].place}"
            raise rule.parsed.error(f"the id `{rule.id}` belongs to {other}", near=rule.id, hint="choose another id")
        seen[rule.id] = rule
    return rules


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a mistyped one is nearest to, None where none is near."""
    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.6)), None)


def _rule_of(policy: ParsedPolicy, index: int) -> Rule:
    tree = lowered(policy)
    key = f"r{index}"
    # Each rule is built alone first, so that an error of Cedar's has a place.
    try:
        RuleEngine({key: tree})
    except ValueError as exc:
        raise policy.error(str(exc).removeprefix("cedarpy: ").lower(), hint="split the rule in two") from exc
    notes = policy.tree.annotations
    return Rule(
        key,
        notes.get("id") or f"policy{index}",
        _effect_of(policy),
        notes.get("reason") or None,
        policy,
        tree,
        claims_read(tree.clauses),
        _phases(tree),
        f"{policy.source.name}:{policy.source.line_of(policy.start)}",
        _sees(tree),
    )


def _effect_of(policy: ParsedPolicy) -> Effect:
    for name in policy.tree.annotations:
        # A mistyped `@decision` would turn a rule that was to warn into one that denies.
        if name not in _ANNOTATIONS and (near := nearest(name.lower(), _ANNOTATIONS)):
            raise policy.error(f"`@{name}` says nothing to the gate", near=name, hint=f"did you mean `@{near}`?")
    forbids = policy.tree.effect == "forbid"
    word = policy.tree.annotations.get("decision", "deny" if forbids else "allow")
    if word not in _WORDS:
        near = nearest(word.lower(), _WORDS)
        hint = f"did you mean `{near}`?" if near else f"choose from {', '.join(_WORDS)}"
        raise policy.error(f"`{word}` is no decision", near=word, hint=hint)
    effect = Effect[word.upper()]
    if forbids and effect is Effect.ALLOW:
        raise policy.error("a forbid cannot allow", near=word, hint="write permit, or another decision")
    if not forbids and effect is not Effect.ALLOW:
        raise policy.error(f"a permit cannot {word}", near=word, hint="write forbid, or leave the decision out")
    return effect


def _phases(tree: pst.Template) -> frozenset[Phase]:
    """Return the phases that a rule's scope admits."""
    match tree.action:
        case pst.ActionEq(entity=entity):
            named: tuple[pst.EntityUid, ...] = (entity,)
        case pst.ActionIn(entities=entities):
            named = entities
        case _:
            return _ALL_PHASES
    ids = {uid.id for uid in named if str(uid.type) == "Action"}
    return frozenset(phase for phase in Phase if phase in ids)


def _sees(tree: pst.Template) -> frozenset[str]:
    """Return which of principal and resource a rule looks at, in its scope or in its conditions."""
    both = frozenset({"principal", "resource"})
    parts = tuple(nodes_under(tree.clauses))
    # An entity that is written out could be either of them, or one of their labels.
    if any(isinstance(part, pst.EntityLit) for part in parts):
        return both
    named = {part.name for part in parts if isinstance(part, pst.Var)}
    scoped = (("principal", tree.principal), ("resource", tree.resource))
    return both & (named | {name for name, scope in scoped if not isinstance(scope, pst.ScopeAny)})
