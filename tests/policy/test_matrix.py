"""No value, operator or phase makes an allow out of what a correct evaluation denies."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import cedarpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.dialect_reference import ABSENT, Condition, ReferenceRule, decide, joined, negated, operators

from demur.model.claim import Claim, ClaimType, Effect, Phase
from demur.policy.cedar import PolicySource, cedar_text
from demur.policy.gate import Ask, PolicyGate, load_gate

NUMBERS = [0, 1, 0.8, 0.8001, 0.79995, -0.1, 1.5, math.nan, math.inf, 1e300, 10**400]
LISTS = [[], ["a"], ["a", "b", "a"], ["a", 1]]
VALUES: list[Any] = [ABSENT, None, *NUMBERS, "text", "0.9", "", "\ud800", *LISTS, True, False, {"a": 1}]
TYPES = ["score_normalized", "boolean", "category", "category_list"]
PHASES = [Phase.REQUEST, Phase.RESPONSE]


def gate_of(rules: list[ReferenceRule], default: Any = "allow") -> PolicyGate:
    return load_gate([PolicySource("matrix.cedar", "\n".join(rule.text() for rule in rules))], default=default)


def asked(phase: Phase, values: dict[str, tuple[str, Any]]) -> Ask:
    stated = [
        Claim(name, ClaimType(kind), value, phase, "test")
        for name, (kind, value) in values.items()
        if value is not ABSENT
    ]
    return Ask(phase, tuple(stated))


def expected(rules: list[ReferenceRule], values: dict[str, tuple[str, Any]], *, phase: str, default: str) -> str:
    # Half a surrogate pair is a text in Python and none in Unicode; the reference is about the dialect alone.
    unsound = {name: (kind, math.nan if value == "\ud800" else value) for name, (kind, value) in values.items()}
    return decide(rules, unsound, phase=phase, default=default)


@pytest.mark.heavy
@pytest.mark.parametrize("effect", ["deny", "warn", "allow"])
@pytest.mark.parametrize("scope", [None, "request"])
@pytest.mark.parametrize("turned", [False, True])
def test_every_value_under_every_operator_in_both_phases(effect: str, scope: str | None, *, turned: bool) -> None:
    """For each claim value, operator and phase the gate decides as the reference does."""
    default = "deny" if effect == "allow" else "allow"
    wrong = []
    for operator in operators("x"):
        condition = negated(operator, permit=effect == "allow") if turned else operator
        rules = [ReferenceRule(effect, condition, scope)]
        gate = gate_of(rules, default)
        for kind, value, phase in product(TYPES, VALUES, PHASES):
            values = {"x": (kind, value)}
            got = gate.decide(asked(phase, values)).effect.word
            want = expected(rules, values, phase=phase, default=default)
            if got != want:
                wrong.append((rules[0].text(), kind, value, phase, got, want))
    assert not wrong


def conditions(*, permit: bool) -> st.SearchStrategy[Condition]:
    leaves = st.sampled_from([*operators("x"), *operators("y")])
    signs = st.sampled_from(["&&", "||"])
    return st.recursive(
        leaves,
        lambda inner: inner.map(lambda c: negated(c, permit=permit)) | st.builds(joined, inner, signs, inner),
        max_leaves=5,
    )


def rules_of_any_kind() -> st.SearchStrategy[ReferenceRule]:
    scopes = st.sampled_from([None, "request", "response"])
    forbids = st.sampled_from(["deny", "review", "redact", "warn", "log"])
    return st.one_of(
        st.builds(ReferenceRule, forbids, conditions(permit=False), scopes),
        st.builds(ReferenceRule, st.just("allow"), conditions(permit=True), scopes),
    )


@pytest.mark.heavy
@given(
    rules=st.lists(rules_of_any_kind(), min_size=1, max_size=4),
    kinds=st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)),
    values=st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES)),
    phase=st.sampled_from(PHASES),
    default=st.sampled_from(["allow", "deny"]),
)
def test_any_set_of_rules_decides_as_the_reference(
    rules: list[ReferenceRule], kinds: tuple[str, str], values: tuple[Any, Any], phase: Phase, default: str
) -> None:
    """Sets of nested rules of every effect decide as the reference, and as Cedar itself where nothing errs."""
    gate = gate_of(rules, default)
    given_values = dict(zip("xy", zip(kinds, values, strict=True), strict=True))
    ask = asked(phase, given_values)
    decision = gate.decide(ask)
    assert decision.effect.word == expected(rules, given_values, phase=phase, default=default)
    if not decision.errors:
        assert (decision.effect is Effect.DENY) is not native_allows(gate, ask)


def native_allows(gate: PolicyGate, ask: Ask) -> bool:
    """Ask Cedar's own authoriser about the enforcing rules alone, with their own effects."""
    enforcing = [rule for rule in gate.rules if rule.effect in (Effect.ALLOW, Effect.DENY)]
    text = "\n".join(cedar_text(rule.tree) for rule in enforcing)
    if gate.default == "allow":
        text += "\npermit (principal, action, resource);"
    recorded = gate.context_of(ask)
    request = {
        "principal": {"type": "Session", "id": recorded["principal"]},
        "action": {"type": "Action", "id": recorded["action"]},
        "resource": {"type": "Model", "id": recorded["resource"]},
        "context": {"claims": recorded["claims"], "invalid": []},
    }
    return cedarpy.is_authorized(request, text, []).allowed
