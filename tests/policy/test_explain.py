"""Why a decision came out, whether fixtures hold, and what another set would have done."""

from __future__ import annotations

from decimal import Decimal

from demur.model.claim import Effect, Phase
from demur.policy.cases import PolicyCase, RecordedDecision, backtest, boundary_results, case_results, rules_never_met
from demur.policy.cedar import PolicySource
from demur.policy.explain import explain
from demur.policy.gate import Ask, PolicyGate, load_gate

TEXT = """
@id("hot") @reason("too hot")
forbid (principal, action == Action::"request", resource)
when { context.claims.toxic > 0.8 && context.claims.flagged };
@id("odd") @decision("warn")
forbid (principal, action, resource)
when { context.claims.kind == "odd" || context.claims has marked };
"""


def gate_of(text: str = TEXT) -> PolicyGate:
    return load_gate([PolicySource("p.cedar", text)])


def test_an_explanation_shows_values_against_thresholds() -> None:
    """Each predicate of each rule asked in the phase is shown with its answer and what it read."""
    gate = gate_of()
    seen = explain(gate, gate.context_of(Ask(Phase.REQUEST, {"toxic": 0.9, "flagged": True, "kind": "even"})))
    assert seen.decision.effect is Effect.DENY
    shown = [(view.id, view.fired, [(p.text, p.held, p.values) for p in view.predicates]) for view in seen.rules]
    assert shown == [
        ("hot", True, [("toxic > 0.8", True, (("toxic", "0.9"),)), ("flagged", True, (("flagged", "true"),))]),
        (
            "odd",
            False,
            [('kind == "odd"', False, (("kind", '"even"'),)), ("claims has marked", False, (("marked", None),))],
        ),
    ]


def test_a_near_miss_is_a_rule_that_fires_once_its_score_is_moved() -> None:
    """A score just short is a near miss only where nothing else holds the rule back."""
    gate = gate_of()
    for flagged, count in ((True, 1), (False, 0)):
        context = gate.context_of(Ask(Phase.REQUEST, {"toxic": 0.79, "flagged": flagged}))
        near = explain(gate, context).near
        assert len(near) == count
    miss = explain(gate, gate.context_of(Ask(Phase.REQUEST, {"toxic": 0.79, "flagged": True}))).near[0]
    assert (miss.rule, miss.gap, miss.effect) == ("hot", Decimal("0.01"), Effect.DENY)
    far = gate.context_of(Ask(Phase.REQUEST, {"toxic": 0.7, "flagged": True}))
    assert explain(gate, far).near == ()
    assert explain(gate, far, margin=Decimal("0.2")).near[0].gap == Decimal("0.1")


def test_a_rule_of_another_phase_is_not_shown() -> None:
    """Only rules whose scope admits the phase are part of the answer."""
    gate = gate_of()
    assert [view.id for view in explain(gate, gate.context_of(Ask(Phase.RESPONSE))).rules] == ["odd"]


def test_a_value_that_is_not_sound_is_shown_as_such() -> None:
    """A bad value is neither absent nor a number in the explanation."""
    gate = gate_of()
    seen = explain(gate, gate.context_of(Ask(Phase.REQUEST, {"toxic": 1e300})))
    assert seen.rules[0].predicates[0].values == (("toxic", "not sound"),)
    assert seen.rules[0].fired


def test_every_threshold_is_asked_from_both_sides() -> None:
    """At it, one step above, one below, and absent: Cedar agrees with the arithmetic of the sign."""
    results = boundary_results(gate_of("forbid (principal, action, resource) when { 0.5 <= context.claims.x };"))
    assert [(r.score, r.held, r.decision) for r in results] == [
        (Decimal("0.5"), True, Effect.DENY),
        (Decimal("0.5001"), True, Effect.DENY),
        (Decimal("0.4999"), False, Effect.ALLOW),
        (None, False, Effect.ALLOW),
    ]
    assert all(result.passed and result.threshold == "x >= 0.5" for result in results)


def test_a_case_fails_by_its_decision_or_its_rules() -> None:
    """A case compares the decision, then the rules where they are given, in any order."""
    ask = Ask(Phase.REQUEST, {"toxic": 0.9, "flagged": True, "kind": "odd"})
    cases = [
        PolicyCase("right", ask, Effect.DENY, ("odd", "hot")),
        PolicyCase("wrong decision", ask, Effect.WARN),
        PolicyCase("wrong rules", ask, Effect.DENY, ("hot",)),
    ]
    results = case_results(gate_of(), cases)
    assert [result.why for result in results] == [
        None,
        "expected warn, got deny",
        "expected the rules hot, got hot, odd",
    ]
    assert rules_never_met(gate_of(), results) == ()
    assert rules_never_met(gate_of(), []) == ("hot", "odd")


def test_a_backtest_counts_what_would_have_changed() -> None:
    """Every record is counted once: changed, unchanged, or without a decision to compare with."""
    gate = gate_of()
    hot = gate.context_of(Ask(Phase.REQUEST, {"toxic": 0.9, "flagged": True}))
    cold = gate.context_of(Ask(Phase.REQUEST))
    rows = [(hot, Effect.ALLOW)] * 5 + [(cold, Effect.ALLOW), (cold, Effect.DENY), (hot, None)]
    records = [RecordedDecision(f"r:{n}", context, effect) for n, (context, effect) in enumerate(rows)]
    tested = backtest(gate, records)
    assert (tested.total, tested.changed, tested.unchanged, tested.undecided) == (8, 6, 1, 1)
    assert tested.changes == {(Effect.ALLOW, Effect.DENY): 5, (Effect.DENY, Effect.ALLOW): 1}
    assert [change.place for change in tested.examples] == ["r:0", "r:1", "r:2", "r:6"]
    assert tested.fired == {"hot": 6}
    assert backtest(gate, records, baseline=gate).changed == 0
