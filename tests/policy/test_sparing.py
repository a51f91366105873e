"""What the gate spares itself is never what a decision depends on."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demur.model.claim import Claim, ClaimType, Decision, Effect, Phase
from demur.policy.cedar import PolicySource
from demur.policy.gate import Ask, PolicyGate, load_gate
from demur.policy.values import SAFETY_VOCABULARY, cedar_value, decimal_value

ANY = "(principal, action, resource)"
CONDITIONS = (
    "when { context.claims.a > 0.5 }",
    "unless { context.claims has b }",
    "when { context has claims.c && context.claims.a < context.claims.c }",
    "when { context.claims.word == context.claims.other }",
    'when { context.claims.words.contains("x") }',
    'when { context.invalid.contains("a") }',
    'when { principal in Label::"gold" && context.claims.b }',
    'when { Session::"s1" in Label::"gold" }',
    'when { resource == Model::"m1" }',
    "when { context.claims.b > 0.5 }",
    "when { context.missing }",
)
SCOPES = (
    ANY,
    '(principal, action == Action::"request", resource)',
    '(principal, action in [Action::"response"], resource)',
    '(principal == Session::"s1", action, resource)',
    '(principal in Label::"gold", action, resource)',
    '(principal, action, resource == Model::"m1")',
)
RULES = st.lists(
    st.tuples(st.sampled_from(("forbid", "permit")), st.sampled_from(SCOPES), st.sampled_from(CONDITIONS)),
    min_size=1,
    max_size=4,
)
ASKS = st.builds(
    Ask,
    phase=st.sampled_from((Phase.REQUEST, Phase.RESPONSE)),
    claims=st.fixed_dictionaries(
        {},
        optional={
            "a": st.sampled_from((0.4, 0.5, 0.6, float("nan"), "bad")),
            "b": st.booleans(),
            "c": st.sampled_from((0.1, 0.55)),
            "word": st.sampled_from(("x", "y")),
            "other": st.sampled_from(("x", "y")),
            "words": st.sampled_from((("x",), ("y", "z"))),
            "unread": st.sampled_from((0.3, True, "z")),
        },
    ),
    session=st.sampled_from(("s1", "s2")),
    model=st.sampled_from(("m1", "m2")),
    labels=st.sampled_from(((), ("gold",))),
)


def gate_of(text: str, **settings: object) -> PolicyGate:
    return load_gate([PolicySource("p.cedar", text)], **settings)  # type: ignore[arg-type]  # the test's own settings


@pytest.mark.heavy
@given(rules=RULES, asks=st.lists(ASKS, min_size=1, max_size=6), default=st.sampled_from(("allow", "deny")))
def test_whoever_asks_and_however_often_it_is_as_if_every_claim_had_been_put_to_cedar(
    rules: list[tuple[str, str, str]], asks: list[Ask], default: str
) -> None:
    """A gate that has answered others, and leaves out what no rule reads, decides as a new one that leaves out nothing."""
    text = "\n".join(f"{effect} {scope} {condition};" for effect, scope, condition in rules)
    gate = gate_of(text, default=default)
    for ask in (*asks, *asks):
        decision, context = gate.decide_on_record(ask)
        assert decision == gate.decide(ask) == gate_of(text, default=default).replay(context)


def fired(decision: Decision) -> list[str]:
    return [rule.id for rule in decision.rules]


@pytest.mark.parametrize(
    ("rule", "other"),
    [
        ('(principal == Session::"s", action, resource)', Ask(Phase.REQUEST, session="t", model="m", labels=("l",))),
        ('(principal in Label::"l", action, resource)', Ask(Phase.REQUEST, session="s", model="m")),
        ('(principal, action, resource == Model::"m")', Ask(Phase.REQUEST, session="s", model="n", labels=("l",))),
        (f'{ANY} when {{ Session::"s" in Label::"l" }}', Ask(Phase.REQUEST, session="t", model="m", labels=("l",))),
        (f'{ANY} when {{ resource == Model::"m" }}', Ask(Phase.REQUEST, session="s", model="n", labels=("l",))),
        ('(principal, action == Action::"request", resource)', Ask(Phase.RESPONSE, session="s", model="m")),
    ],
)
def test_what_was_decided_for_one_is_not_decided_for_another(rule: str, other: Ask) -> None:
    """Where a rule tells askers apart, the answer to one of them is never given to the other."""
    gate = gate_of(f'@id("r") forbid {rule};')
    one = Ask(Phase.REQUEST, session="s", model="m", labels=("l",))
    assert [fired(gate.decide(ask)) for ask in (one, other, one, other)] == [["r"], [], ["r"], []]


def test_no_text_of_a_user_is_kept() -> None:
    """An answer is kept for scores and declared words alone: not where a rule reads what may quote."""
    like = 'like "*cannot*"'
    quoting = gate_of(f"forbid {ANY} when {{ context.claims.refusal_phrase {like} }};", vocabulary=SAFETY_VOCABULARY)
    unknown = gate_of(f"forbid {ANY} when {{ context.claims.note {like} }};", vocabulary=SAFETY_VOCABULARY)
    marked = Claim("language", ClaimType.CATEGORY, "i cannot", Phase.REQUEST, "a", sensitive=True)
    telling = gate_of(f"forbid {ANY} when {{ context.claims.language {like} }};", vocabulary=SAFETY_VOCABULARY)
    for gate, ask in (
        (quoting, Ask(Phase.RESPONSE, {"refusal_phrase": "i cannot"})),
        (unknown, Ask(Phase.RESPONSE, {"note": "i cannot"})),
        (telling, Ask(Phase.REQUEST, (marked,))),
    ):
        assert gate.decide(ask).effect is Effect.DENY
        assert gate.kept == 0
    telling.decide(Ask(Phase.REQUEST, {"language": "en"}))
    assert telling.kept == 1


@given(score=st.floats(0, 1))
@example(score=0.00005)
@example(score=0.12345)
@example(score=0.12355)
@example(score=0.99995)
@example(score=-0.0)
@example(score=1e-5)
@example(score=0.1 + 0.2)
def test_a_score_is_rounded_as_its_shortest_digits_are(score: float) -> None:
    """The quick way to four digits comes to what exact decimals do, ties to even included."""
    exact = Decimal(repr(score)).quantize(Decimal("0.0001"), rounding=ROUND_HALF_EVEN)
    assert cedar_value(score, ClaimType.SCORE_NORMALIZED) == decimal_value(exact)


@pytest.mark.heavy
def test_every_step_and_half_step_of_a_score() -> None:
    """The same holds for every number of five digits from 0 to 1."""
    for number in range(100_001):
        score = number / 100_000
        exact = Decimal(repr(score)).quantize(Decimal("0.0001"), rounding=ROUND_HALF_EVEN)
        assert cedar_value(score, ClaimType.SCORE_NORMALIZED) == decimal_value(exact)
