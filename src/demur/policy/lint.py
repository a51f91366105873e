"""What is wrong with a policy set before it decides anything.

An error cannot have been meant (a claim that nobody states, a comparison that Cedar's validator rejects); a warning may have
been (a rule that never fires, a duplicate).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from cedarpy import pst

from demur.model.claim import Effect, Phase
from demur.policy.cedar import validate
from demur.policy.rules import conjuncts_of, empty_range, extras_read, nearest, threshold_in, values_read
from demur.policy.values import CedarKind, cedar_kind, score_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.claim import Vocabulary
    from demur.policy.gate import PolicyGate
    from demur.policy.rules import Rule

__all__ = ["PolicyProblem", "ProblemKind", "problems_of", "schema_of"]

_ORDER = tuple(Phase)


class ProblemKind(StrEnum):
    """Whether a policy set may be used as it is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """What is wrong, with which rule and where; `rule` is None where it is the set as a whole."""

    severity: ProblemKind
    what: str
    rule: str | None = None
    place: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        rule = f"rule `{self.rule}`: " if self.rule else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}{self.severity}: {rule}{self.what}{hint}"


def schema_of(vocabulary: Vocabulary) -> str:
    """Return the Cedar schema of what the gate asks: every claim of the vocabulary may be there or not."""
    specs = filter(None, map(vocabulary.find, vocabulary.names))
    # Quoted and escaped, since the names come from auditors.
    names = ((spec.flat.replace("\\", "\\\\").replace('"', '\\"'), cedar_kind(spec.type)) for spec in specs)
    claims = ", ".join(f'"{name}"?: {kind}' for name, kind in names)
    actions = ", ".join(Phase)
    return (
        "entity Label; entity Session in [Label]; entity Model;\n"
        f"action {actions} appliesTo {{ principal: [Session], resource: [Model],\n"
        f"  context: {{ claims: {{ {claims} }}, invalid: Set<String> }} }};\n"
    )


def problems_of(gate: PolicyGate, vocabulary: Vocabulary) -> tuple[PolicyProblem, ...]:
    """Return everything found, in the order of the rules, errors of a rule before its warnings."""
    schema = schema_of(vocabulary)
    found: list[PolicyProblem] = []
    seen: dict[object, Rule] = {}
    for rule in gate.rules:
        found += _errors(rule, vocabulary, schema)
        found += _warnings(rule, vocabulary)
        same = (rule.effect, rule.tree.principal, rule.tree.action, rule.tree.resource, rule.tree.clauses)
        if (first := seen.setdefault(same, rule)) is not rule:
            found.append(_warning(rule, f"says again what `{first.id}` says"))
    permits = [rule for rule in gate.rules if rule.effect is Effect.ALLOW]
    if gate.default == "allow":
        what, hint = "changes nothing: the default allows", "set the default to deny to make it matter"
        found += [_warning(rule, what, hint) for rule in permits]
    elif not permits:
        hint = "add a permit, or set the default to allow"
        found.append(PolicyProblem(ProblemKind.WARNING, "everything is denied", hint=hint))
    return tuple(found)


def _errors(rule: Rule, vocabulary: Vocabulary, schema: str) -> Iterator[PolicyProblem]:
    # Cedar's validator passes a misspelt claim behind a `has`, so names are looked up here.
    unknown = sorted(rule.reads - set(vocabulary.names))
    for name in unknown:
        near = nearest(name, vocabulary.names)
        hint = f"did you mean `{near}`?" if near else "declare it in the vocabulary"
        yield _error(rule, f"nobody states the claim `{name}`", hint)
    yield from _scope_errors(rule)
    # The validator knows the vocabulary only: with other names it would report their absence again.
    if not unknown and not extras_read(rule.tree.clauses) and (next(_scope_errors(rule), None) is None):
        for message in validate(rule.tree, schema):
            yield _error(rule, message.splitlines()[0])


def _scope_errors(rule: Rule) -> Iterator[PolicyProblem]:
    for uid in sorted(pst.entity_uids(rule.tree), key=str):
        if str(uid.type) == "Action" and uid.id not in _ORDER:
            near = nearest(uid.id, _ORDER)
            hint = f"did you mean `{near}`?" if near else f"choose from {', '.join(_ORDER)}"
            yield _error(rule, f"no action is called `{uid.id}`", hint)
        elif str(uid.type) not in ("Action", "Session", "Model", "Label"):
            yield _error(rule, f"nothing here is a `{uid.type}`", "choose from Session, Model, Label, Action")


def _warnings(rule: Rule, vocabulary: Vocabulary) -> Iterator[PolicyProblem]:
    for name in sorted(extras_read(rule.tree.clauses)):
        if name == "claim":
            yield _error(rule, "reads `context.claim`, which nobody supplies", "did you mean `context.claims`?")
            continue
        yield _warning(rule, f"reads `context.{name}`, which is no claim", "whoever asks the gate must supply it")
    for name in sorted(rule.reads):
        if vocabulary.sensitive(name):
            yield _warning(rule, f"reads `{name}`, which carries text", "its value will stand in the record")
    if why := _why_never(rule, vocabulary):
        yield _warning(rule, f"never fires: {why}")
    elif (
        rule.effect is Effect.DENY
        and not rule.tree.clauses
        and isinstance(rule.tree.principal, pst.ScopeAny)
        and isinstance(rule.tree.resource, pst.ScopeAny)
    ):
        yield _warning(rule, f"denies everything in {', '.join(p for p in Phase if p in rule.phases)}")


def _why_never(rule: Rule, vocabulary: Vocabulary) -> str | None:
    """Return why a rule can never fire, None where nothing known prevents it."""
    if not rule.phases:
        return "its action is no phase"
    joined = conjuncts_of(rule.parsed.tree)
    if pst.BoolLit(value=False) in joined:
        return "its condition is false"
    thresholds = [threshold for part in joined if (threshold := threshold_in(part))]
    for name in dict.fromkeys(threshold.claim for threshold in thresholds):
        spec = vocabulary.find(name)
        own = [threshold for threshold in thresholds if threshold.claim == name]
        if spec and cedar_kind(spec.type) is CedarKind.DECIMAL and empty_range(own, *score_range(spec.type)):
            low, high = score_range(spec.type)
            return f"`{' and '.join(map(str, own))}` leaves nothing of {low} to {high}"
    # A claim of an earlier phase is still there in a later one, so only claims that come too late are reported.
    last = max(map(_ORDER.index, rule.phases))
    for part in joined:
        plain = threshold_in(part) is not None or isinstance(part, pst.GetAttr)
        for name in values_read(part) if plain else ():
            stated = [_ORDER.index(phase) for phase in vocabulary.phases(name)]
            if stated and min(stated) > last:
                return f"`{name}` is stated in the {_ORDER[min(stated)]}, after the {_ORDER[last]}"
    return None


def _error(rule: Rule, what: str, hint: str | None = None) -> PolicyProblem:
    return PolicyProblem(ProblemKind.ERROR, what, rule.id, rule.place, hint)


def _warning(rule: Rule, what: str, hint: str | None = None) -> PolicyProblem:
    return PolicyProblem(ProblemKind.WARNING, what, rule.id, rule.place, hint)
