"""What an auditor may return, and what becomes of the rest."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.audit.claims import MOST_CLAIMS, MOST_UNSOUND, ClaimRow, GivenRow, Wordbook, claim_rows, read_specs
from demur.errors import UsageError
from demur.model.audit import Problem
from demur.model.claim import Claim, ClaimSpec, ClaimType, Phase, Vocabulary

SCORE = ClaimSpec("risk", ClaimType.SCORE_NORMALIZED, Phase.REQUEST, "a")


def one(value: object, kind: ClaimType) -> Claim | Problem:
    """What becomes of one value that is declared to be of a type."""
    stated = Wordbook("a", [ClaimSpec("x", kind, Phase.REQUEST, "a")]).stated(Phase.REQUEST, [ClaimRow("x", value)])
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
    book = Wordbook("a", [ClaimSpec("x", kind, Phase.REQUEST, "a")])
    stated = book.stated(Phase.REQUEST, [ClaimRow("x", value)])
    assert len(stated.claims) + len(stated.problems) == (0 if value is None else 1)


def test_types_are_learned_and_then_hold() -> None:
    """The first sound value of a claim settles its type; a later one of another kind is a problem."""
    book = Wordbook("a")
    first = book.stated(Phase.REQUEST, claim_rows({"risk": 0.2, "flag": False, "kind": "x", "none": None}))
    assert {c.name: (c.type, c.sensitive) for c in first.claims} == {
        "risk": (ClaimType.SCORE_NORMALIZED, False),
        "flag": (ClaimType.BOOLEAN, False),
        "kind": (ClaimType.CATEGORY, True),
    }
    assert book.vocabulary.names == ("flag", "kind", "risk")
    later = book.stated(Phase.REQUEST, claim_rows({"risk": True, "flag": 0.3, "none": True}))
    assert [c.name for c in later.claims] == ["none"]
    assert len(later.problems) == 2


def test_an_unsound_value_teaches_nothing() -> None:
    """A value that is refused does not settle the type of its claim."""
    book = Wordbook("a")
    assert book.stated(Phase.REQUEST, claim_rows({"x": 7.5})).problems
    assert book.stated(Phase.REQUEST, claim_rows({"x": True})).claims


def test_one_name_has_one_type_in_all_phases() -> None:
    """A name learned in one phase keeps its type in another, dotted or flat."""
    book = Wordbook("a")
    assert book.stated(Phase.REQUEST, claim_rows({"s.x": True})).claims
    assert book.stated(Phase.RESPONSE, claim_rows({"s_x": 0.5})).problems


def test_a_declared_phase_is_closed() -> None:
    """Where claims of a phase are declared, another name is a problem; in other phases it is learned."""
    book = Wordbook("a", [SCORE])
    assert [p.what for p in book.stated(Phase.REQUEST, claim_rows({"other": True})).problems] == [
        "claim `other`: not declared for the request phase"
    ]
    assert book.stated(Phase.RESPONSE, claim_rows({"other": True})).claims


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "a..b", "x" * 200, 7, None, "naïve"])
def test_a_name_is_one_that_a_policy_can_write(name: object) -> None:
    """A claim under a name that Cedar could not read is a problem, which does not repeat the name."""
    stated = Wordbook("a").stated(Phase.REQUEST, [ClaimRow(name, value=True)])
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
    stated = Wordbook("me").stated(Phase.REQUEST, rows)
    assert [(c.name, c.type, c.auditor, c.phase, c.confidence, c.sensitive) for c in stated.claims] == [
        ("a", ClaimType.BOOLEAN, "me", Phase.REQUEST, 0.5, False),
        ("b", ClaimType.SCORE_PERCENTAGE, "me", Phase.REQUEST, 1.0, True),
    ]
    assert len(stated.problems) == 3


@pytest.mark.parametrize("returned", [7, "text", True, object()])
def test_anything_else_is_a_problem(returned: object) -> None:
    """A method that returns neither a mapping nor a list has answered badly."""
    assert [p.code for p in Wordbook("a").stated(Phase.REQUEST, claim_rows(returned)).problems] == ["invalid_answer"]


def test_a_flood_of_claims_is_cut() -> None:
    """One answer holds so many claims and no more, and so does what is learned."""
    book = Wordbook("a")
    stated = book.stated(Phase.REQUEST, claim_rows({f"c{n}": True for n in range(MOST_CLAIMS + 50)}))
    assert len(stated.claims) == MOST_CLAIMS
    assert len(stated.problems) == 1
    assert book.stated(Phase.REQUEST, claim_rows({"one_more": True})).problems


def test_a_stated_type_must_be_the_declared_one() -> None:
    """A row that names another type than the vocabulary is a problem, even where the value would fit."""
    stated = Wordbook("a", [SCORE]).stated(Phase.REQUEST, [ClaimRow("risk", 1.0, "score_binary")])
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
    """Every claim that was stated and is dropped has its name and the reason in `unsound`, those beyond the limit too."""
    book = Wordbook("a", [SCORE])
    stated = book.stated(Phase.REQUEST, claim_rows({"risk": math.nan, "other": True, "no name": 1}))
    assert stated.unsound == (("risk", "nan is not a finite number"), ("other", "not declared for the request phase"))
    assert len(stated.problems) == 3
    many = Wordbook("b").stated(Phase.REQUEST, claim_rows({f"c{n}": True for n in range(MOST_CLAIMS + 2)}))
    assert [name for name, _ in many.unsound] == [f"c{MOST_CLAIMS}", f"c{MOST_CLAIMS + 1}"]
    assert [p.what for p in many.problems] == [f"more than {MOST_CLAIMS} claims in one answer"]
    endless = Wordbook("b").stated(Phase.REQUEST, claim_rows({f"c{n}": True for n in range(10_000)}))
    assert len(endless.unsound) <= MOST_UNSOUND + 1


@given(
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.lists(st.text()),
        st.just("é" * 9000),
        st.just(()),
    ),
    kind=st.sampled_from(ClaimType),
    sensitive=st.booleans(),
)
def test_what_is_seen_at_a_glance_is_what_a_close_look_finds(
    value: object, kind: ClaimType, *, sensitive: bool
) -> None:
    """A value becomes the same claim, or the same problem, whether it comes with its name alone, in a row, or with its type."""
    spec = ClaimSpec("x", kind, Phase.REQUEST, "a", sensitive=sensitive)
    rows: tuple[GivenRow, ...] = (("x", value), ClaimRow("x", value), ClaimRow("x", value, kind))
    named, bare, typed = (Wordbook("a", [spec]).stated(Phase.REQUEST, [row]) for row in rows)
    assert named == bare == typed or (math.isnan(value) if isinstance(value, float) else False)


def test_a_flood_of_declared_claims_is_cut_too() -> None:
    """Names and values alone are counted as rows are: what is beyond the limit is unsound, however plain its value."""
    specs = [ClaimSpec(f"c{n}", ClaimType.BOOLEAN, Phase.REQUEST, "a") for n in range(MOST_CLAIMS + 2)]
    stated = Wordbook("a", specs).stated(Phase.REQUEST, [(spec.name, True) for spec in specs])
    assert len(stated.claims) == MOST_CLAIMS
    assert [name for name, _ in stated.unsound] == [f"c{MOST_CLAIMS}", f"c{MOST_CLAIMS + 1}"]
