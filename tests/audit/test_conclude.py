"""The merge rule, and what failures come to."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.audit.conclude import conclude, merge_claims
from demur.model.audit import FailureMode, Problem, Turn
from demur.model.claim import Claim, ClaimType, ClaimValue, Phase
from demur.model.decision import Effect
from demur.model.passport import AuditorRun, AuditorStatus, EnforcementGap
from demur.policy.gate import Ask, load_gate
from demur.policy.tokens import PolicySource


def claim(value: ClaimValue, kind: ClaimType, auditor: str = "a", *, sensitive: bool = False) -> Claim:
    return Claim("x.y", kind, value, Phase.REQUEST, auditor, sensitive=sensitive)


def failed(mode: FailureMode, status: AuditorStatus = AuditorStatus.TIMEOUT) -> Turn:
    return Turn("a", "1", status, 7, mode, (), (Problem("timeout", "it did not answer in time"),))


@pytest.mark.parametrize(
    ("kind", "values", "merged"),
    [
        (ClaimType.SCORE_NORMALIZED, (0.2, 0.9, 0.5), 0.9),
        (ClaimType.SCORE_PERCENTAGE, (20.0, 90.0), 90.0),
        (ClaimType.SCORE_BINARY, (0.0, 1.0), 1.0),
        (ClaimType.BOOLEAN, (False, True), True),
        (ClaimType.BOOLEAN, (False, False), False),
        (ClaimType.CONFORMITY, (True, False), False),
        (ClaimType.CATEGORY_LIST, (("b",), ("a", "c"), ()), ("a", "b", "c")),
        (ClaimType.CATEGORY, ("same", "same"), "same"),
    ],
)
def test_the_strictest_claim_stands(kind: ClaimType, values: tuple[ClaimValue, ...], merged: ClaimValue) -> None:
    """Of claims with one name the strictest stands, in whatever order they were made."""
    made = [claim(value, kind, f"auditor{n}") for n, value in enumerate(values)]
    for order in permutations(made):
        assert [c.value for c in merge_claims(order)] == [merged]


def test_two_words_both_stand() -> None:
    """Words have no order: where two differ both stand, once each, for the gate to refuse."""
    made = [claim(word, ClaimType.CATEGORY, name) for word, name in (("b", "1"), ("a", "2"), ("b", "3"))]
    for order in permutations(made):
        assert sorted(str(c.value) for c in merge_claims(order)) == ["a", "b"]


def test_the_gate_lets_rules_fire_on_two_words() -> None:
    """A rule that reads a claim of two words fires, though neither word is the one that it looks for."""
    rule = '@id("w") @decision("deny") forbid (principal, action, resource) when { context.claims.x_y == "weapons" };'
    gate = load_gate([PolicySource("rule", rule)])
    made = [claim("none", ClaimType.CATEGORY, "1"), claim("other", ClaimType.CATEGORY, "2")]
    assert gate.decide(Ask(Phase.REQUEST, merge_claims(made[:1]))).effect is Effect.ALLOW
    assert gate.decide(Ask(Phase.REQUEST, merge_claims(made))).effect is Effect.DENY


def test_two_types_both_stand() -> None:
    """A claim that two auditors state under different types is not settled here."""
    made = (claim(0.5, ClaimType.SCORE_NORMALIZED), claim(value=True, kind=ClaimType.BOOLEAN))
    assert len(merge_claims(made)) == 2


def test_dotted_and_flat_names_are_one() -> None:
    """A policy reads `x.y` as `x_y`, so the two are merged."""
    flat = Claim("x_y", ClaimType.BOOLEAN, value=True, phase=Phase.REQUEST, auditor="b")
    assert [c.value for c in merge_claims((claim(value=False, kind=ClaimType.BOOLEAN), flat))] == [True]


def test_sensitivity_survives_a_merge() -> None:
    """A merged claim is sensitive where any of its makers says so."""
    made = (claim(0.9, ClaimType.SCORE_NORMALIZED), claim(0.1, ClaimType.SCORE_NORMALIZED, "b", sensitive=True))
    (merged,) = merge_claims(made)
    assert (merged.value, merged.sensitive) == (0.9, True)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), min_size=1), st.randoms())
def test_order_does_not_matter(rows: list[tuple[str, float]], random: object) -> None:
    """Merging gives the same claims however the auditors are ordered."""
    made = [claim(value, ClaimType.SCORE_NORMALIZED, name) for name, value in rows]
    mixed = list(made)
    random.shuffle(mixed)  # type: ignore[attr-defined]  # hypothesis draws a `random.Random`
    assert merge_claims(mixed) == merge_claims(made)


@pytest.mark.parametrize("status", [AuditorStatus.TIMEOUT, AuditorStatus.ERROR, AuditorStatus.SKIPPED])
def test_a_closed_failure_denies(status: AuditorStatus) -> None:
    """A failure that is closed makes the audit one that must be denied, with the reason, and leaves no gap."""
    audit = conclude(Phase.REQUEST, [failed(FailureMode.CLOSED, status)])
    assert audit.must_deny
    assert audit.denials == ("auditor `a`: it did not answer in time",)
    assert audit.floor is Effect.DENY
    assert audit.gaps == ()
    assert audit.runs == (AuditorRun("a", "1", status, 7, "closed"),)


@pytest.mark.parametrize(("mode", "floor"), [(FailureMode.OPEN, Effect.ALLOW), (FailureMode.WARN, Effect.WARN)])
def test_an_open_failure_is_a_gap(mode: FailureMode, floor: Effect) -> None:
    """A failure that lets the exchange through is on record as a gap and as a trouble."""
    audit = conclude(Phase.RESPONSE, [failed(mode)])
    assert not audit.must_deny
    assert audit.floor is floor
    assert audit.gaps == (EnforcementGap(Phase.RESPONSE, "failed_open", "a"),)
    assert [(t.auditor, t.code, t.mode) for t in audit.troubles] == [("a", "timeout", mode)]


def test_a_slow_success_is_a_trouble_without_a_mode() -> None:
    """An auditor that answered late has no failure mode applied, and leaves no gap."""
    turn = Turn("a", "1", AuditorStatus.OK, 9, FailureMode.CLOSED, (), (Problem("overran", "late"),))
    audit = conclude(Phase.REQUEST, [turn])
    assert [t.mode for t in audit.troubles] == [None]
    assert (audit.must_deny, audit.gaps, audit.runs[0].failure_mode) == (False, (), None)


def test_provenance_is_kept() -> None:
    """Every claim stays in `stated` under the auditor that made it, whichever of them a policy reads."""
    low, high = claim(0.1, ClaimType.SCORE_NORMALIZED, "a"), claim(0.9, ClaimType.SCORE_NORMALIZED, "b")
    turns = [Turn(c.auditor, "1", AuditorStatus.OK, 1, FailureMode.CLOSED, (c,)) for c in (low, high)]
    audit = conclude(Phase.REQUEST, turns)
    assert audit.stated == (low, high)
    assert audit.claims == (high,)


@pytest.mark.parametrize("mode", [FailureMode.WARN, FailureMode.OPEN])
def test_an_unsound_claim_is_not_an_absent_one(mode: FailureMode) -> None:
    """Where a failure lets the exchange pass, a deny that reads the claim fires all the same: the gate is told of it."""
    problem = Problem("invalid_claim", "claim `x.y`: nan is not a finite number")
    bad = Turn("a", "1", AuditorStatus.ERROR, 7, mode, (), (problem,), (("x.y", "nan is not a finite number"),))
    fine = Turn("b", "1", AuditorStatus.OK, 7, mode, (claim(0.1, ClaimType.SCORE_NORMALIZED, "b"),))
    text = "forbid (principal, action, resource) when { context.claims.x_y > 0.8 };"
    gate = load_gate([PolicySource("p", text)])
    for turns in permutations((bad, fine)):
        done = conclude(Phase.REQUEST, turns)
        assert done.unsound == (("x_y", "nan is not a finite number"),)
        ask = Ask(Phase.REQUEST, done.claims, unsound=dict(done.unsound))
        assert gate.decide(ask).effect is Effect.DENY


def test_the_reason_is_the_same_in_any_order() -> None:
    """Where two auditors state a claim unsoundly, one reason stands, whoever was asked first."""
    turns = [
        Turn(name, "1", AuditorStatus.ERROR, 7, FailureMode.OPEN, (), (), (("x", why),))
        for name, why in (("a", "too large"), ("b", "no number"))
    ]
    assert (
        conclude(Phase.REQUEST, turns).unsound == conclude(Phase.REQUEST, turns[::-1]).unsound == (("x", "no number"),)
    )
