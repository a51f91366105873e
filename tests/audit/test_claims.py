"""What an auditor may return, how claims of several auditors merge, and what failures come to."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.audit.claims import (
    MAX_CLAIMS,
    MAX_UNSOUND,
    ClaimChecker,
    ClaimRow,
    GivenRow,
    claim_rows,
    conclude,
    merge_claims,
    read_specs,
)
from demur.errors import UsageError
from demur.model.claim import (
    AuditorRun,
    AuditorStatus,
    Claim,
    ClaimSpec,
    ClaimType,
    ClaimValue,
    Effect,
    EnforcementGap,
    FailureMode,
    Phase,
    Problem,
    Turn,
    Vocabulary,
)
from demur.policy.cedar import PolicySource
from demur.policy.gate import Ask, PolicyGate, load_gate

SCORE = ClaimSpec("risk", ClaimType.SCORE_NORMALIZED, Phase.REQUEST, "a")


def one(value: object, kind: ClaimType) -> Claim | Problem:
    """What becomes of one value that is declared to be of a type."""
    stated = ClaimChecker("a", [ClaimSpec("x", kind, Phase.REQUEST, "a")]).check(Phase.REQUEST, [ClaimRow("x", value)])
    return stated.claims[0] if stated.claims else stated.problems[0]


@pytest.mark.parametrize(
    ("value", "kind", "kept"),
    [
        (0.45, ClaimType.SCORE_NORMALIZED, 0.45),
        (1, ClaimType.SCORE_NORMALIZED, 1.0),
        (True, ClaimType.SCORE_BINARY, 1.0),
        (0, ClaimType.SCORE_BINARY, 0.0),
        (99.5, ClaimType.SCORE_PERCENTAGE, 99.5),
        (True, ClaimType.BOOLEAN, True),
        (False, ClaimType.CONFORMITY, False),
        ("injection", ClaimType.CATEGORY, "injection"),
        (["b", "a", "b"], ClaimType.CATEGORY_LIST, ("a", "b")),
        ({"b", "a"}, ClaimType.CATEGORY_LIST, ("a", "b")),
        ((), ClaimType.CATEGORY_LIST, ()),
    ],
)
def test_a_sound_value_is_kept(value: object, kind: ClaimType, kept: object) -> None:
    """A value that its type allows becomes a claim, in one spelling for each type."""
    made = one(value, kind)
    assert isinstance(made, Claim)
    assert made.value == kept
    assert type(made.value) is type(kept)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (math.nan, ClaimType.SCORE_NORMALIZED),
        (math.inf, ClaimType.SCORE_PERCENTAGE),
        (1.5, ClaimType.SCORE_NORMALIZED),
        (-0.1, ClaimType.SCORE_NORMALIZED),
        (101, ClaimType.SCORE_PERCENTAGE),
        (0.5, ClaimType.SCORE_BINARY),
        (True, ClaimType.SCORE_NORMALIZED),
        ("0.9", ClaimType.SCORE_NORMALIZED),
        (1, ClaimType.BOOLEAN),
        ("true", ClaimType.BOOLEAN),
        (7, ClaimType.CATEGORY),
        ("a", ClaimType.CATEGORY_LIST),
        ([1], ClaimType.CATEGORY_LIST),
        ({"a": 1}, ClaimType.CATEGORY),
        ("x" * 9000, ClaimType.CATEGORY),
        (["w"] * 300, ClaimType.CATEGORY_LIST),
        ("\ud800", ClaimType.CATEGORY),
    ],
)
def test_an_unsound_value_is_a_problem(value: object, kind: ClaimType) -> None:
    """A value that its type does not allow is a problem that names the claim, and no claim."""
    made = one(value, kind)
    assert isinstance(made, Problem)
    assert made.code == "invalid_claim"
    assert made.what.startswith("claim `x`: ")


@pytest.mark.heavy
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(ClaimType),
)
def test_no_value_raises_or_leaks(value: Any, kind: ClaimType) -> None:
    """Whatever a method returns as a value, the answer is a claim, a problem or nothing, and no exception."""
    book = ClaimChecker("a", [ClaimSpec("x", kind, Phase.REQUEST, "a")])
    stated = book.check(Phase.REQUEST, [ClaimRow("x", value)])
    assert len(stated.claims) + len(stated.problems) == (0 if value is None else 1)


def test_types_are_learned_and_then_hold() -> None:
    """The first sound value of a claim settles its type; a later one of another kind is a problem."""
    book = ClaimChecker("a")
    first = book.check(Phase.REQUEST, claim_rows({"risk": 0.2, "flag": False, "kind": "x", "none": None}))
    assert {c.name: (c.type, c.sensitive) for c in first.claims} == {
        "risk": (ClaimType.SCORE_NORMALIZED, False),
        "flag": (ClaimType.BOOLEAN, False),
        "kind": (ClaimType.CATEGORY, True),
    }
    assert book.vocabulary.names == ("flag", "kind", "risk")
    later = book.check(Phase.REQUEST, claim_rows({"risk": True, "flag": 0.3, "none": True}))
    assert [c.name for c in later.claims] == ["none"]
    assert len(later.problems) == 2


def test_an_unsound_value_teaches_nothing() -> None:
    """A value that is refused does not settle the type of its claim."""
    book = ClaimChecker("a")
    assert book.check(Phase.REQUEST, claim_rows({"x": 7.5})).problems
    assert book.check(Phase.REQUEST, claim_rows({"x": True})).claims


def test_one_name_has_one_type_in_all_phases() -> None:
    """A name learned in one phase keeps its type in another, dotted or flat."""
    book = ClaimChecker("a")
    assert book.check(Phase.REQUEST, claim_rows({"s.x": True})).claims
    assert book.check(Phase.RESPONSE, claim_rows({"s_x": 0.5})).problems


def test_a_declared_phase_is_closed() -> None:
    """Where claims of a phase are declared, another name is a problem; in other phases it is learned."""
    book = ClaimChecker("a", [SCORE])
    assert [p.what for p in book.check(Phase.REQUEST, claim_rows({"other": True})).problems] == [
        "claim `other`: not declared for the request phase"
    ]
    assert book.check(Phase.RESPONSE, claim_rows({"other": True})).claims


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "a..b", "x" * 200, 7, None, "naïve"])
def test_a_name_is_one_that_a_policy_can_write(name: object) -> None:
    """A claim under a name that Cedar could not read is a problem, which does not repeat the name."""
    stated = ClaimChecker("a").check(Phase.REQUEST, [ClaimRow(name, value=True)])
    assert [p.what for p in stated.problems] == ["a claim whose name is no name"]


def test_lists_of_claims_are_read() -> None:
    """A list holds claims of ours or mappings with a name; anything else in it is a problem of its own."""
    rows = claim_rows(
        [
            Claim("a", ClaimType.BOOLEAN, value=True, phase=Phase.RESPONSE, auditor="liar", confidence=0.5),
            {"name": "b", "type": "score_percentage", "value": 75, "metadata": {"sensitive": True}},
            {"name": "c", "value": True, "confidence": 2},
            {"name": "d", "value": 1, "type": "score_of_mine"},
            "e",
        ]
    )
    stated = ClaimChecker("me").check(Phase.REQUEST, rows)
    assert [(c.name, c.type, c.auditor, c.phase, c.confidence, c.sensitive) for c in stated.claims] == [
        ("a", ClaimType.BOOLEAN, "me", Phase.REQUEST, 0.5, False),
        ("b", ClaimType.SCORE_PERCENTAGE, "me", Phase.REQUEST, 1.0, True),
    ]
    assert len(stated.problems) == 3


@pytest.mark.parametrize("returned", [7, "text", True, object()])
def test_anything_else_is_a_problem(returned: object) -> None:
    """A method that returns neither a mapping nor a list has answered badly."""
    assert [p.code for p in ClaimChecker("a").check(Phase.REQUEST, claim_rows(returned)).problems] == ["invalid_answer"]


def test_a_flood_of_claims_is_cut() -> None:
    """One answer holds so many claims, declared or not, and what is learned no more; those beyond the limit are unsound."""
    given = {f"c{n}": True for n in range(MAX_CLAIMS + 2)}
    declared = ClaimChecker("a", [ClaimSpec(name, ClaimType.BOOLEAN, Phase.REQUEST, "a") for name in given])
    learning = ClaimChecker("b")
    for book, rows in ((declared, list(given.items())), (learning, claim_rows(given))):
        stated = book.check(Phase.REQUEST, rows)
        assert len(stated.claims) == MAX_CLAIMS
        assert [name for name, _ in stated.unsound] == [f"c{MAX_CLAIMS}", f"c{MAX_CLAIMS + 1}"]
        assert [p.what for p in stated.problems] == [f"more than {MAX_CLAIMS} claims in one answer"]
    assert learning.check(Phase.REQUEST, claim_rows({"one_more": True})).problems
    endless = ClaimChecker("b").check(Phase.REQUEST, claim_rows({f"c{n}": True for n in range(10_000)}))
    assert len(endless.unsound) <= MAX_UNSOUND + 1


def test_a_stated_type_must_be_the_declared_one() -> None:
    """A row that names another type than the vocabulary is a problem, even where the value would fit."""
    stated = ClaimChecker("a", [SCORE]).check(Phase.REQUEST, [ClaimRow("risk", 1.0, "score_binary")])
    assert not stated.claims
    assert stated.problems


def test_vocabularies_are_read_in_every_spelling() -> None:
    """A type, its word, a mapping with details, or a whole vocabulary; text is sensitive unless said otherwise."""
    given = {
        "a": ClaimType.BOOLEAN,
        "b": "category",
        "c": {"type": "category", "sensitive": False, "description": "one of three"},
    }
    specs = read_specs(given, phase=Phase.REQUEST, auditor="me")
    assert [(s.name, s.type, s.sensitive, s.description) for s in specs] == [
        ("a", ClaimType.BOOLEAN, False, ""),
        ("b", ClaimType.CATEGORY, True, ""),
        ("c", ClaimType.CATEGORY, False, "one of three"),
    ]
    assert read_specs(Vocabulary(specs), phase=Phase.REQUEST, auditor="me") == specs
    assert read_specs(Vocabulary(specs), phase=Phase.RESPONSE, auditor="me") == ()


@pytest.mark.parametrize("given", [{"a": "score"}, {"a b": "boolean"}, {"a": {"sensitive": True}}, ["a"], {"a": 3}])
def test_a_bad_vocabulary_is_refused(given: object) -> None:
    """A vocabulary with an unknown type or name is an error when it is declared, not when it is first used."""
    with pytest.raises(UsageError):
        read_specs(given, phase=Phase.REQUEST, auditor="me")


def test_what_is_not_sound_is_named() -> None:
    """Every claim that was stated and is dropped has its name and the reason in `unsound`."""
    book = ClaimChecker("a", [SCORE])
    stated = book.check(Phase.REQUEST, claim_rows({"risk": math.nan, "other": True, "no name": 1}))
    assert stated.unsound == (("risk", "nan is not a finite number"), ("other", "not declared for the request phase"))
    assert len(stated.problems) == 3


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(
    value=PLAIN | st.lists(st.text()) | st.sampled_from(["é" * 9000, ()]),
    kind=st.sampled_from(ClaimType),
    sensitive=st.booleans(),
)
def test_what_is_seen_at_a_glance_is_what_a_close_look_finds(
    value: object, kind: ClaimType, *, sensitive: bool
) -> None:
    """A value becomes the same claim, or the same problem, whether it comes with its name alone, in a row, or with its type."""
    spec = ClaimSpec("x", kind, Phase.REQUEST, "a", sensitive=sensitive)
    rows: tuple[GivenRow, ...] = (("x", value), ClaimRow("x", value), ClaimRow("x", value, kind))
    named, bare, typed = (ClaimChecker("a", [spec]).check(Phase.REQUEST, [row]) for row in rows)
    assert named == bare == typed or (math.isnan(value) if isinstance(value, float) else False)


def claim(value: ClaimValue, kind: ClaimType, auditor: str = "a", *, sensitive: bool = False) -> Claim:
    return Claim("x.y", kind, value, Phase.REQUEST, auditor, sensitive=sensitive)


def gate_reading(claim: str) -> PolicyGate:
    """A gate that denies where this holds of a claim."""
    return load_gate([PolicySource("p", f"forbid (principal, action, resource) when {{ context.claims.{claim} }};")])


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


def test_what_has_no_order_both_stands() -> None:
    """Two words, or values of two types, have no order: where they differ both stand, once each, for the gate to refuse."""
    made = [claim(word, ClaimType.CATEGORY, name) for word, name in (("b", "1"), ("a", "2"), ("b", "3"))]
    for order in permutations(made):
        assert sorted(str(c.value) for c in merge_claims(order)) == ["a", "b"]
    assert len(merge_claims((claim(0.5, ClaimType.SCORE_NORMALIZED), claim(value=True, kind=ClaimType.BOOLEAN)))) == 2


def test_the_gate_lets_rules_fire_on_two_words() -> None:
    """A rule that reads a claim of two words fires, though neither word is the one that it looks for."""
    gate = gate_reading('x_y == "weapons"')
    made = [claim("none", ClaimType.CATEGORY, "1"), claim("other", ClaimType.CATEGORY, "2")]
    assert gate.decide(Ask(Phase.REQUEST, merge_claims(made[:1]))).effect is Effect.ALLOW
    assert gate.decide(Ask(Phase.REQUEST, merge_claims(made))).effect is Effect.DENY


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
    gate = gate_reading("x_y > 0.8")
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
    for order in (turns, turns[::-1]):
        assert conclude(Phase.REQUEST, order).unsound == (("x", "no number"),)
