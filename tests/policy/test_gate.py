"""The gate as the seed's policies, and pure Cedar, meet it; what it spares itself is never what a decision depends on."""

from __future__ import annotations

import json
import math
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demur.errors import PolicyError, ShapeError, UsageError
from demur.model.claim import Claim, ClaimSpec, ClaimType, ClaimValue, Decision, Effect, Phase, Vocabulary
from demur.policy.cedar import PolicySource
from demur.policy.gate import Ask, PolicyGate, load_gate
from demur.policy.values import SAFETY_VOCABULARY, cedar_value, decimal_value

SEED = """\
// Deny requests with high toxicity scores
@annotation("decision", "deny")
forbid (principal, action, resource)
when { context.claims.toxic_content > 0.8 };

// Warn on model refusals for observability
@annotation("decision", "warn")
forbid (principal, action, resource)
when { context.claims.model_refused };
"""
REQUEST, RESPONSE = Phase.REQUEST, Phase.RESPONSE
ANY = "(principal, action, resource)"


def gate_of(text: str, **settings: object) -> PolicyGate:
    return load_gate([PolicySource("p.cedar", text)], **settings)  # type: ignore[arg-type]  # the test's own settings


def seed() -> PolicyGate:
    return gate_of(SEED, vocabulary=SAFETY_VOCABULARY)


def ids(decision: Decision) -> list[str]:
    return [rule.id for rule in decision.rules]


@pytest.mark.parametrize(
    ("claims", "effect"),
    [
        ({}, Effect.ALLOW),
        ({"toxic_content": 0.45}, Effect.ALLOW),
        ({"toxic_content": 0.8}, Effect.ALLOW),
        ({"toxic_content": 0.80004}, Effect.ALLOW),
        ({"toxic_content": 0.8001}, Effect.DENY),
        ({"toxic_content": 0.9}, Effect.DENY),
        ({"toxic_content": 1}, Effect.DENY),
        ({"model_refused": True}, Effect.WARN),
        ({"model_refused": False, "refusal_phrase": None}, Effect.ALLOW),
        ({"toxic_content": 0.9, "model_refused": True}, Effect.DENY),
    ],
)
def test_the_seeds_policies_verbatim(claims: dict[str, float], effect: Effect) -> None:
    """Deny above 0.8, warn on a refusal, allow otherwise; a score is rounded to four digits first."""
    decision = seed().decide(Ask(REQUEST, claims))
    assert decision.effect is effect
    assert not decision.errors


def test_every_fired_rule_is_named_strongest_first() -> None:
    """A decision names each rule that fired, with its effect, reason and place."""
    text = f"""@decision("log") @id("all") forbid {ANY};
    @id("hot") @reason("too hot")
    forbid {ANY} when {{ context.claims.toxic_content > 0.8 }};"""
    decision = gate_of(text).decide(Ask(REQUEST, {"toxic_content": 0.9}))
    assert [(r.id, r.effect, r.reason, r.place) for r in decision.rules] == [
        ("hot", Effect.DENY, "too hot", "p.cedar:2"),
        ("all", Effect.LOG, None, "p.cedar:1"),
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, "0.1", True, [0.1], {"a": 1}, -0.5, 1.5])
def test_a_bad_score_closes_the_gate_that_reads_it(bad: object) -> None:
    """A value that is no score is an error on record and denies where a deny reads it."""
    decision = seed().decide(Ask(REQUEST, {"toxic_content": bad}))  # type: ignore[dict-item]  # a wrong value is the point
    assert decision.effect is Effect.DENY
    assert decision.errors[0].startswith("claim `toxic_content`: ")


def test_a_bad_claim_that_only_a_warning_reads_blocks_nothing() -> None:
    """A warning never blocks, whatever its claim holds; the error is on record and the warning counts as fired."""
    decision = seed().decide(Ask(RESPONSE, {"model_refused": "yes"}))
    assert (decision.effect, ids(decision)) == (Effect.WARN, ["policy1"])
    assert decision.errors == ("claim `model_refused`: a text is not true or false",)


def test_a_bad_claim_outside_a_rules_scope_does_not_touch_it() -> None:
    """An error counts only against rules whose scope fits the request."""
    gate = gate_of(
        'forbid (principal, action == Action::"response", resource == Model::"m") when { context.claims.x > 0.5 };'
    )
    bad = {"x": math.nan}
    assert gate.decide(Ask(REQUEST, bad, model="m")).effect is Effect.ALLOW
    assert gate.decide(Ask(RESPONSE, bad, model="n")).effect is Effect.ALLOW
    assert gate.decide(Ask(RESPONSE, bad, model="m")).effect is Effect.DENY


def test_a_rule_that_errs_counts_as_fired() -> None:
    """What Cedar would skip and so allow, is denied and said."""
    decision = gate_of(f"forbid {ANY} when {{ context.tenant == 3 }};").decide(Ask(REQUEST))
    assert decision.effect is Effect.DENY
    assert decision.errors == ("rule `policy0`: record does not have the attribute `tenant`",)


def test_a_permit_that_errs_permits_nothing() -> None:
    """Under a default of deny an error never opens the gate."""
    gate = gate_of(f"permit {ANY} when {{ context.tenant == 3 }};", default="deny")
    assert gate.decide(Ask(REQUEST)).effect is Effect.DENY
    assert gate.decide(Ask(REQUEST, extras={"tenant": 3})).effect is Effect.ALLOW


def test_an_absent_claim_never_helps_a_permit() -> None:
    """A negated predicate over an absent claim does not permit."""
    for condition in ("when { !(context.claims.toxic > 0.5) }", "unless { context.claims.toxic > 0.5 }"):
        gate = gate_of(f"permit {ANY} {condition};", default="deny")
        assert gate.decide(Ask(REQUEST)).effect is Effect.DENY
        assert gate.decide(Ask(REQUEST, {"toxic": 0.1})).effect is Effect.ALLOW


def test_the_defaults() -> None:
    """The default of allow needs no permit; the default of deny names itself where none applies."""
    text = f'permit {ANY} when {{ resource == Model::"a" }};'
    assert gate_of(text).decide(Ask(REQUEST, model="b")).effect is Effect.ALLOW
    closed = gate_of(text, default="deny")
    assert ids(closed.decide(Ask(REQUEST, model="b"))) == ["default"]
    assert ids(closed.decide(Ask(REQUEST, model="a"))) == ["policy0"]
    with pytest.raises(UsageError):
        gate_of(text, default="alow")


def test_pure_cedar_with_entities_and_actions() -> None:
    """Sessions, models, labels and phases are Cedar entities."""
    gate = gate_of("""
        @id("s") forbid (principal == Session::"s\\n1", action, resource);
        @id("m") forbid (principal, action, resource == Model::"m");
        @id("l") forbid (principal in Label::"beta", action, resource);
        @id("a") forbid (principal, action in [Action::"artifact", Action::"execution"], resource);
        @id("d") forbid (principal, action, resource) when { context.claims.x.lessThan(decimal("0.2")) };
    """)
    assert ids(gate.decide(Ask(REQUEST))) == []
    assert ids(gate.decide(Ask(REQUEST, session="s\n1"))) == ["s"]
    assert ids(gate.decide(Ask(REQUEST, model="m"))) == ["m"]
    assert ids(gate.decide(Ask(REQUEST, labels=("alpha", "beta")))) == ["l"]
    assert ids(gate.decide(Ask(Phase.EXECUTION))) == ["a"]
    assert ids(gate.decide(Ask(REQUEST, {"x": 0.1999}))) == ["d"]


def test_claims_of_one_name_must_agree() -> None:
    """Two auditors that state one claim differently are an error, not a choice."""
    gate = gate_of(f"forbid {ANY} when {{ context.claims.a_x > 0.5 }};")
    one, two = (Claim("a.x", ClaimType.SCORE_NORMALIZED, value, REQUEST, "t") for value in (0.1, 0.2))
    assert gate.decide(Ask(REQUEST, (one, one))).effect is Effect.ALLOW
    assert gate.decide(Ask(REQUEST, (one, two))).errors == ("claim `a_x`: stated twice, with different values",)


def test_the_vocabularys_type_decides() -> None:
    """A value is taken as its name is declared, not as it happens to look."""
    spec = ClaimSpec("x", ClaimType.SCORE_BINARY, REQUEST, "t")
    gate = gate_of(f"forbid {ANY} when {{ context.claims.x == 1 }};", vocabulary=Vocabulary((spec,)))
    assert gate.decide(Ask(REQUEST, {"x": True})).effect is Effect.DENY
    assert gate.decide(Ask(REQUEST, {"x": 0})).effect is Effect.ALLOW
    assert gate.decide(Ask(REQUEST, {"x": 0.5})).errors == ("claim `x`: 0.5 is outside 0 to 1",)


def test_sensitive_claims_stay_out_of_the_record_unless_read() -> None:
    """A claim that carries text enters the context only where a rule reads it."""
    claims: dict[str, ClaimValue] = {"refusal_phrase": "i cannot", "model_refused": True}
    assert "i cannot" not in json.dumps(seed().context_of(Ask(RESPONSE, claims)))
    reading = gate_of(
        f'forbid {ANY} when {{ context.claims.refusal_phrase like "*cannot*" }};', vocabulary=SAFETY_VOCABULARY
    )
    assert reading.decide(Ask(RESPONSE, claims)).effect is Effect.DENY


CLAIMS = st.dictionaries(
    st.sampled_from(["toxic_content", "model_refused", "other"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text())),
)


@given(claims=CLAIMS, session=st.text(), model=st.text(), labels=st.lists(st.text()), phase=st.sampled_from(Phase))
def test_a_decision_is_the_replay_of_its_context(
    claims: dict[str, None], session: str, model: str, labels: list[str], phase: Phase
) -> None:
    """The context survives JSON, and replaying it gives the same decision, errors included."""
    ask = Ask(phase, claims, session, model, tuple(labels))
    gate = seed()
    recorded = json.loads(json.dumps(gate.context_of(ask)))
    assert gate.replay(recorded) == gate.replay(json.dumps(recorded)) == gate.decide(ask)


def test_a_context_that_is_none_is_refused_and_a_forged_one_denied() -> None:
    """Replay raises on another shape, and closes on values that the gate would not have made."""
    gate = seed()
    with pytest.raises(ShapeError, match="no recorded context"):
        gate.replay({"claims": {}})
    with pytest.raises(ShapeError, match="no recorded context"):
        gate.replay("{")
    for odd in (0.1, 1, None, {"withheld": "5e884898"}, ["a", 1], {"__entity": {"type": "Model", "id": "m"}}):
        forged = gate.context_of(Ask(REQUEST)) | {"claims": {"toxic_content": odd, "other": odd}}
        decision = gate.replay(json.dumps(forged))
        assert decision.effect is Effect.DENY
        assert decision.errors[0] == "claim `toxic_content`: withheld, or no value of the gate's"


def test_extras_are_checked() -> None:
    """What the caller adds to the context may not take the gate's own names, nor be beyond Cedar."""
    for extras in ({"claims": "x"}, {"n": 2**63}):
        with pytest.raises(UsageError):
            seed().decide(Ask(REQUEST, extras=extras))
    gate = gate_of(f'forbid {ANY} when {{ context.tags.contains("a") }};')
    assert gate.decide(Ask(REQUEST, extras={"tags": ("a", "b")})).effect is Effect.DENY


def test_a_rule_may_ask_which_claims_are_not_sound() -> None:
    """`context.invalid` names them, so that a set can say what it does about one."""
    gate = gate_of(f'@decision("review") forbid {ANY} when {{ context.invalid.contains("x") }};')
    assert gate.decide(Ask(REQUEST, {"x": math.nan})).effect is Effect.REVIEW


def test_the_digest_is_of_the_texts_and_the_settings() -> None:
    """Names and line ends do not count; a word of a policy and the default do."""
    first = load_gate([PolicySource("a", SEED)]).digest
    assert load_gate([PolicySource("b", SEED.replace("\n", "\r\n"))]).digest == first
    assert load_gate([PolicySource("a", SEED)], default="deny").digest != first
    assert load_gate([PolicySource("a", SEED.replace("0.8", "0.7"))]).digest != first
    # sha256 of {"default":"allow","dialect":1,"sources":[SEED]} as compact JSON
    assert first == "a188fabf4e6bdf1fb7db2fdf30e54961a4418c349d04648926e66abdb58b71c1"


def test_what_a_phase_reads() -> None:
    """The names by effect, of the rules whose scope admits the phase."""
    gate = gate_of("""
        forbid (principal, action == Action::"request", resource) when { context.claims.a > 0.5 };
        @decision("warn") forbid (principal, action, resource) when { context.claims has b };
    """)
    assert gate.reads(REQUEST) == {Effect.DENY: {"a"}, Effect.WARN: {"b"}}
    assert gate.reads(RESPONSE) == {Effect.WARN: {"b"}}


@pytest.mark.parametrize(
    ("marked", "said"),
    [
        (f'@decision(¦"dney")\nforbid {ANY};', "did you mean `deny`?"),
        (f'@decision(¦"x")\nforbid {ANY};', "choose from allow, log"),
        (f'@decision(¦"allow") forbid {ANY};', "a forbid cannot allow"),
        (f'@decision(¦"warn") permit {ANY};', "a permit cannot warn"),
        (f'@id("a") forbid {ANY};\n@id(¦"a") forbid {ANY};', "belongs to the rule at p.cedar:1"),
        (f'@id(¦"default") forbid {ANY};', "belongs to the gate itself"),
        (f"forbid {ANY}\nwhen {{ context.claims.x > 0.5 ¦and true }};", "write && and ||"),
        (f"forbid {ANY}\nwhen {{ context.claims.x ¦= 1 }};", "compare with =="),
        (f"forbid {ANY}\nwhen {{ context.claims.x.¦gt(1) }};", "`gt` is not a valid method"),
        (f"forbid {ANY} when {{ true }}¦", "a policy ends with `;`"),
        (f"forbid {ANY} when {{ true¦;\nforbid {ANY};", "unexpected token `;`"),
        ("forbid (principal == ¦?principal, action, resource);", "template"),
        (f"forbid {ANY} when {{ (context.claims.¦x > 0.5) == true }};", "a predicate inside another"),
        (f"forbid {ANY} when {{ context.claims.¦x + 0.1 > 0.5 }};", "cannot be calculated with"),
        (f"forbid {ANY} when {{ context.claims.¦x.y }};", "context.claims.x_y"),
        (f"forbid {ANY} when {{ ¦context.claims == {{}} }};", "used whole"),
        (f"forbid {ANY} when {{ decimal(context.claims.¦x) > 0.5 }};", "of something else than a text"),
        (f"permit {ANY} when {{ if context.claims.¦x then true else false }};", "a permit asks"),
        (f"¦forbid {ANY} when {{ {'!(' * 99}context.claims.x{')' * 99} }};", "split the rule"),
        (f'@annotation("decision", "deny") forbid {ANY} when {{ context.claims.x > 0.8 &&¦& true }};', "invalid token"),
    ],
)
def test_a_policy_that_is_not_sound_is_refused_at_its_place(marked: str, said: str) -> None:
    """Loading names file, line and column of the user's own text, before any rewriting, and the fix."""
    before = marked[: marked.index("¦")]
    with pytest.raises(PolicyError) as caught:
        gate_of(marked.replace("¦", ""))
    assert said in str(caught.value)
    assert (caught.value.line, caught.value.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_an_empty_set_is_refused() -> None:
    """A set without a policy would decide nothing."""
    with pytest.raises(PolicyError, match=r"no policy in `p\.cedar`"):
        gate_of("// nothing\n")
    with pytest.raises(PolicyError, match="no policy in nothing"):
        load_gate([])


@pytest.mark.parametrize("extras", [{"n": 0.5}, {"n": None}])
def test_a_request_that_cedar_cannot_build_is_denied(extras: dict[str, object]) -> None:
    """No decision is a deny with the error, even for a set that only warns."""
    gate = gate_of(f'@decision("warn") forbid {ANY};')
    recorded = gate.context_of(Ask(REQUEST)) | {"extras": extras}
    decision = gate.replay(recorded)
    assert decision.effect is Effect.DENY
    assert decision.errors[0].startswith("failed to build request")


def test_claims_compare_with_each_other_and_choose() -> None:
    """Two scores compare as decimals; an `if` in a forbid asks its claims as any condition does."""
    gate = gate_of(f"forbid {ANY} when {{ context.claims.a > context.claims.b }};")
    assert gate.decide(Ask(REQUEST, {"a": 0.2, "b": 0.1})).effect is Effect.DENY
    assert gate.decide(Ask(REQUEST, {"a": 0.1, "b": 0.1})).effect is Effect.ALLOW
    assert gate.decide(Ask(REQUEST, {"a": 0.2})).effect is Effect.ALLOW
    chosen = gate_of(
        f"forbid {ANY} when {{ if context.claims.on then context.claims.a > 0.5 else context.claims.b > 0.5 }};"
    )
    for claims, effect in (
        ({"on": True, "a": 0.6}, Effect.DENY),
        ({"on": True, "b": 0.6}, Effect.ALLOW),
        ({"b": 0.6}, Effect.DENY),
        ({}, Effect.ALLOW),
    ):
        assert chosen.decide(Ask(REQUEST, claims)).effect is effect


def test_a_claim_of_any_name_can_be_read() -> None:
    """A name that is no identifier is read in brackets."""
    gate = gate_of(f'forbid {ANY} when {{ context.claims["a-b c"] > 0.5 }};')
    assert gate.decide(Ask(REQUEST, {"a-b c": 0.6})).effect is Effect.DENY
    assert gate.decide(Ask(REQUEST)).effect is Effect.ALLOW


def test_a_claim_that_could_not_be_read_is_not_absent() -> None:
    """Whoever drops a bad claim names it, and the rules that read it count as fired; what is said beside it is dropped."""
    ask = Ask(REQUEST, {"toxic_content": 0.1}, unsound={"toxic.content": "not a finite number"})
    decision = seed().decide(ask)
    assert (decision.effect, decision.errors) == (Effect.DENY, ("claim `toxic_content`: not a finite number",))
    assert seed().context_of(ask)["claims"] == {}


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
    assert [ids(gate.decide(ask)) for ask in (one, other, one, other)] == [["r"], [], ["r"], []]


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
@example(score=-0.0)
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
