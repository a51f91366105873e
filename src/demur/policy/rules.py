"""The rules of a policy set: their effects, the claims they read, the phases they apply in, and their ids."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum, auto
from functools import reduce
from typing import TYPE_CHECKING, Final

from cedarpy import pst

from demur.errors import PolicyError
from demur.model.claim import Effect, FiredRule, Phase
from demur.policy.cedar import RuleEngine, parse_policies, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from demur.policy.cedar import ParsedPolicy, PolicySource

__all__ = [
    "DEFAULT_RULE",
    "STEP",
    "Rule",
    "Threshold",
    "claims_read",
    "conjuncts_of",
    "empty_range",
    "extras_read",
    "lowered",
    "nearest",
    "nodes_under",
    "predicate_tree",
    "predicates_of",
    "rules_of",
    "threshold_in",
    "thresholds_of",
    "values_read",
]

_TRUE = pst.BoolLit(value=True)
_CLAIMS = pst.GetAttr(pst.Var("context"), "claims")
_DECIMAL_OPS: Final[dict[pst.BinaryOpName, pst.BinaryOpName]] = {
    "less": "decimal_less_than",
    "less_eq": "decimal_less_eq",
    "greater": "decimal_greater",
    "greater_eq": "decimal_greater_eq",
}
_EQUALITY = ("eq", "not_eq")
_ARITHMETIC = ("add", "sub", "mul", "neg")
_MAKERS = ("decimal", "ip", "datetime", "duration")
_COMPARISONS = (*_DECIMAL_OPS, *_DECIMAL_OPS.values(), *_EQUALITY, "in", "contains", "contains_all", "contains_any")


class _Sign(Enum):
    """Whether a predicate that holds speaks for the rule, against it, or either way."""

    FOR = auto()
    AGAINST = auto()
    MIXED = auto()

    @property
    def turned(self) -> _Sign:
        return {_Sign.FOR: _Sign.AGAINST, _Sign.AGAINST: _Sign.FOR}.get(self, self)


def lowered(policy: ParsedPolicy) -> pst.Template:
    """Return a rule's tree with decimals compared as decimals and every claim guarded; raise where it cannot be."""
    clauses = []
    for clause in policy.tree.clauses:
        _check_whole(policy, clause.expr)
        _check_nested(policy, clause.expr)
        _check_numbers(policy, clause.expr)
        sign = _Sign.AGAINST if isinstance(clause, pst.Unless) else _Sign.FOR
        # In a forbid an absent claim only makes its predicate false; in a permit it must not help, whatever the sign.
        guarded = _guarded(policy, _compared(clause.expr), sign if policy.tree.effect == "permit" else None)
        clauses.append(replace(clause, expr=guarded))
    return replace(policy.tree, clauses=tuple(clauses))


def claims_read(node: object) -> frozenset[str]:
    """Return the flat names of the claims anywhere under a node, also in a `has`."""
    names = set()
    for part in nodes_under(node):
        if isinstance(part, pst.GetAttr) and part.base == _CLAIMS:
            names.add(part.attr)
        elif isinstance(part, pst.HasAttr) and part.base == _CLAIMS:
            names.add(part.attrs[0])
    return frozenset(names)


def extras_read(node: object) -> frozenset[str]:
    """Return the attributes of the context beside the claims that a node reads."""
    parts = (part for part in nodes_under(node) if isinstance(part, pst.GetAttr) and part.base == pst.Var("context"))
    return frozenset(part.attr for part in parts) - {"claims", "invalid"}


def predicates_of(tree: pst.Template) -> tuple[pst.Expr, ...]:
    """Return the predicates of a rule that read claims, in order, with decimals compared as decimals."""
    found = [leaf for clause in tree.clauses for leaf in _leaves(clause.expr)]
    return tuple(dict.fromkeys(_compared(leaf) for leaf in found if claims_read(leaf)))


def predicate_tree(leaf: pst.Expr) -> pst.Template:
    """Return a rule that holds exactly where one predicate does, so that Cedar itself can be asked about it."""
    anyone = pst.ScopeAny()
    return pst.Template("p", "permit", anyone, anyone, anyone, (pst.When(_present(leaf)),), pst.FrozenMap())


def conjuncts_of(tree: pst.Template) -> tuple[pst.Expr, ...]:
    """Return what must hold together for a rule to fire: the parts of its `when` clauses joined by `&&`."""
    found: list[pst.Expr] = []
    stack = [_compared(clause.expr) for clause in reversed(tree.clauses) if isinstance(clause, pst.When)]
    while stack:
        expr = stack.pop()
        if isinstance(expr, pst.BinaryOp) and expr.op == "and":
            stack += (expr.right, expr.left)
        else:
            found.append(expr)
    return tuple(found)


def values_read(node: object) -> tuple[str, ...]:
    """Return the claims whose value a node needs, in a fixed order."""
    reads = (part for part in nodes_under(node) if isinstance(part, pst.GetAttr) and part.base == _CLAIMS)
    return tuple(sorted({part.attr for part in reads}))


def nodes_under(node: object) -> Iterator[object]:
    """Yield a node and everything under it."""
    # Without recursion: a long chain of `&&` is as deep as it is long.
    stack = [node]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, tuple):
            stack.extend(part)
        elif isinstance(part, dict):
            stack.extend(part.values())
        elif is_dataclass(part):
            stack.extend(getattr(part, field.name) for field in fields(part))


def _check_whole(policy: ParsedPolicy, expr: pst.Expr) -> None:
    """Raise if the context or the claims are passed on whole."""
    # What a rule reads could no longer be told, and everything here depends on that.
    spoken_for = 0
    for part in nodes_under(expr):
        if isinstance(part, pst.GetAttr | pst.HasAttr) and part.base == pst.Var("context"):
            spoken_for += 1
        if isinstance(part, pst.GetAttr | pst.HasAttr) and isinstance(part.base, pst.GetAttr):
            inner = part.base
            if inner.base == _CLAIMS:
                tail = part.attr if isinstance(part, pst.GetAttr) else part.attrs[0]
                hint = f"a dotted claim is read with underscores: context.claims.{inner.attr}_{tail}"
                raise policy.error(f"`{inner.attr}.{tail}` looks into a claim", near=inner.attr, hint=hint)
    whole = sum(part == pst.Var("context") for part in nodes_under(expr)) > spoken_for
    claims = sum(part == _CLAIMS for part in nodes_under(expr))
    looked_into = sum(isinstance(p, pst.GetAttr | pst.HasAttr) and p.base == _CLAIMS for p in nodes_under(expr))
    if whole or claims > looked_into:
        hint = "read claims one by one: context.claims.name"
        raise policy.error("the context is used whole", near="context", hint=hint)


def _check_nested(policy: ParsedPolicy, expr: pst.Expr) -> None:
    """Raise for arithmetic on scores, and for predicates inside predicates that read claims."""
    for leaf in _leaves(expr):
        for part in nodes_under(leaf):
            computes = isinstance(part, pst.UnaryOp | pst.BinaryOp) and part.op in _ARITHMETIC
            if computes and (values_read(part) or any(map(_is_decimal, nodes_under(part)))):
                near = next(iter(values_read(part)), "decimal")
                raise policy.error("a score cannot be calculated with", near=near, hint="compare it with a number")
            if isinstance(part, pst.UnaryOp) and part.op in _MAKERS and not isinstance(part.arg, pst.StringLit):
                near = next(iter(values_read(part)), part.op)
                raise policy.error(f"`{part.op}` of something else than a text", near=near, hint="write the value out")
            if part is not leaf and _is_predicate(part) and claims_read(part):
                near = next(iter(sorted(claims_read(part))))
                hint = "join predicates with &&, || and ! alone"
                raise policy.error("a predicate inside another one reads a claim", near=near, hint=hint)


def _check_numbers(policy: ParsedPolicy, expr: pst.Expr) -> None:
    """Raise where a score would be compared with a whole number, which Cedar finds unequal without an error."""
    for leaf in _leaves(expr):
        names = values_read(leaf)
        if not names:
            continue
        if any(isinstance(part, pst.Record) and values_read(part) for part in nodes_under(leaf)):
            hint = f"compare it directly: context.claims.{names[0]}"
            raise policy.error("a claim inside a record", near=names[0], hint=hint)
        if any(isinstance(part, pst.UnaryOp | pst.BinaryOp) and part.op in _ARITHMETIC for part in nodes_under(leaf)):
            raise policy.error("a score beside a calculation", near=names[0], hint="write the number out")
        whole = any(isinstance(part, pst.LongLit) for part in nodes_under(leaf))
        if whole and extras_read(leaf):
            hint = "write two predicates, one for each"
            raise policy.error(
                "a whole number beside a claim and another attribute of the context", near=names[0], hint=hint
            )


def _is_decimal(node: object) -> bool:
    return isinstance(node, pst.UnaryOp) and node.op == "decimal"


def _is_predicate(node: object) -> bool:
    match node:
        case pst.BinaryOp(op=op):
            return op in ("and", "or", *_COMPARISONS)
        case pst.UnaryOp(op=op):
            return op in ("not", "is_empty")
        case pst.IfThenElse() | pst.HasAttr() | pst.Like() | pst.Is():
            return True
    return False


def _leaves(expr: pst.Expr) -> Iterator[pst.Expr]:
    match expr:
        case pst.BinaryOp(op="and" | "or", left=left, right=right):
            yield from _leaves(left)
            yield from _leaves(right)
        case pst.UnaryOp(op="not", arg=arg):
            yield from _leaves(arg)
        case pst.IfThenElse(cond=cond, then_expr=then, else_expr=other):
            for part in (cond, then, other):
                yield from _leaves(part)
        case _:
            yield expr


def _mapped(expr: pst.Expr, change: Callable[[pst.Expr], pst.Expr]) -> pst.Expr:
    """Return an expression with `change` applied to its predicates."""
    match expr:
        case pst.BinaryOp(op="and" | "or", left=left, right=right):
            return replace(expr, left=_mapped(left, change), right=_mapped(right, change))
        case pst.UnaryOp(op="not", arg=arg):
            return replace(expr, arg=_mapped(arg, change))
        case pst.IfThenElse(cond=cond, then_expr=then, else_expr=other):
            return pst.IfThenElse(_mapped(cond, change), _mapped(then, change), _mapped(other, change))
    return change(expr)


def _compared(expr: pst.Expr) -> pst.Expr:
    return _mapped(expr, _compared_leaf)


def _compared_leaf(expr: pst.Expr) -> pst.Expr:
    # No claim is ever a whole number to Cedar, so `> 0.8`, `>= 1`, `[1].contains(…)` and `.greaterThan(decimal("0.8"))` all
    # compare decimals.
    if values_read(expr):
        expr = _in_decimals(expr)
    if not isinstance(expr, pst.BinaryOp) or not (_is_score(expr.left) or _is_score(expr.right)):
        return expr
    if expr.op in _DECIMAL_OPS:
        return pst.BinaryOp(_DECIMAL_OPS[expr.op], _in_decimals(expr.left), _in_decimals(expr.right))
    if expr.op in _EQUALITY or (expr.op == "contains" and isinstance(expr.left, pst.Set)):
        return replace(expr, left=_in_decimals(expr.left), right=_in_decimals(expr.right))
    return expr


def _is_score(expr: pst.Expr) -> bool:
    """Return whether an operand may be a score: a claim, or a decimal literal."""
    return (isinstance(expr, pst.GetAttr) and expr.base == _CLAIMS) or _is_decimal(expr)


def _in_decimals(expr: pst.Expr) -> pst.Expr:
    """Return an expression with its whole numbers as decimals, except in predicates of their own inside it."""
    match expr:
        case pst.LongLit(value=value):
            return pst.UnaryOp("decimal", pst.StringLit(f"{value}.0"))
        case pst.Set(elements=elements):
            return pst.Set(tuple(map(_in_decimals, elements)))
        case pst.Record(fields=held):
            return replace(expr, fields=pst.FrozenMap({name: _in_decimals(value) for name, value in held.items()}))
        case pst.GetAttr(base=base):
            return replace(expr, base=_in_decimals(base))
        case pst.BinaryOp(op=op, left=left, right=right) if op in _COMPARISONS and values_read(expr):
            return replace(expr, left=_in_decimals(left), right=_in_decimals(right))
    return expr


def _guarded(policy: ParsedPolicy, expr: pst.Expr, sign: _Sign | None) -> pst.Expr:
    """Return an expression whose predicates first ask whether their claims are there; only a permit has a sign."""
    match expr:
        case pst.BinaryOp(op="and" | "or", left=left, right=right):
            return replace(expr, left=_guarded(policy, left, sign), right=_guarded(policy, right, sign))
        case pst.UnaryOp(op="not", arg=arg):
            return replace(expr, arg=_guarded(policy, arg, sign.turned if sign else None))
        case pst.IfThenElse(cond=cond, then_expr=then, else_expr=other):
            mixed = _Sign.MIXED if sign else None
            return pst.IfThenElse(
                _guarded(policy, cond, mixed), _guarded(policy, then, sign), _guarded(policy, other, sign)
            )
    names = values_read(expr)
    if not names:
        return expr
    if sign is _Sign.MIXED:
        hint = "write the condition with && and ||, so that an absent claim cannot permit"
        raise policy.error("a permit asks for a claim in an `if`", near=names[0], hint=hint)
    if sign is _Sign.AGAINST:
        # `if` and not `!has ||`: only then does Cedar's validator see that the claim is there.
        guarded: pst.Expr = expr
        for name in reversed(names):
            guarded = pst.IfThenElse(_has(name), guarded, _TRUE)
        return guarded
    return _present(expr)


def _present(leaf: pst.Expr) -> pst.Expr:
    """Return a predicate that is false where a claim of its own is absent."""
    names = reversed(values_read(leaf))
    return reduce(lambda rest, name: pst.BinaryOp("and", _has(name), rest), names, leaf)


def _has(name: str) -> pst.Expr:
    return pst.HasAttr(_CLAIMS, (name,))


STEP: Final = Decimal("0.0001")  # the smallest of a Cedar decimal, which has four digits after the point
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
    """Return the threshold of a predicate, None where it compares something else."""
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
