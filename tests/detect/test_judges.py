"""The ways to judge: learned, by a seed's list, by a pack of one's own, with thresholds of one's own."""

from __future__ import annotations

import pickle

import pytest
from tests.growth import assert_linear

from demur import Outcome, check
from demur.detect.check import READ_CHARS, default_judge, judge_named, judge_of_pack, judge_with
from demur.detect.phrase_lists import builtin_pack, parse_pack
from demur.errors import PackError, UsageError

NO = "I'm sorry, but I can't help with that."
PACK = """
name = "mine"
[[group]]
target = "response"
category = "scope"
phrases = ["outside my remit", "範囲外です"]
"""


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("That is OUTSIDE  my remit, sorry.", ["mine:outside my remit"]),
        ("That is outside\nmy remit.", ["mine:outside my remit"]),
        ("それは範囲外ですので", ["mine:範囲外です"]),
        ("outside my remittance", []),
    ],
)
def test_a_pack_of_words_folds_and_keeps_edges(text: str, rules: list[str]) -> None:
    """A user's phrases are found whatever case and spacing, and only as whole words."""
    verdict = check(text, judge=judge_of_pack(parse_pack(PACK, source="mine.toml")))
    assert [f.rule for f in verdict.findings] == rules
    assert verdict.outcome is (Outcome.REFUSED if rules else Outcome.COMPLIED)
    assert all(f.span.of(text).lower().split()[0] in text.lower() for f in verdict.findings)


def test_an_invisible_phrase_is_refused() -> None:
    """A phrase that folds to nothing would be everywhere."""
    pack = PACK.replace("outside my remit", "\u200b")
    with pytest.raises(PackError, match="invisible"):
        check("x", judge=judge_of_pack(parse_pack(pack, source="mine.toml")))


@pytest.mark.parametrize(
    "text", ['"I cannot" ', "“ I cannot ", "I can't help. ", "```\nI cannot\n", "I cannot! ", "I cannot\n* - "]
)
def test_time_is_linear(text: str) -> None:
    """Sixteen times the text takes about sixteen times as long; what grows with the square would take 256 times."""
    few, many = (text * (size // len(text)) for size in (5000, 80_000))
    assert_linear(check, few, many, ratio=16)


def test_only_the_head_of_a_book_is_read() -> None:
    """What stands beyond the first hundred thousand characters changes nothing, so memory and time are bounded."""
    head = "The sea was calm that day. " * 5000
    assert check(head[:READ_CHARS] + NO) == check(head[:READ_CHARS])
    assert check(head[: READ_CHARS - 1000] + NO) != check(head[:READ_CHARS])


def test_thresholds_leave_room_for_doubt() -> None:
    """Between two thresholds an answer is unsure; without them the trained one decides."""
    score = check(NO).score
    assert check(NO, judge=judge_with(refused=score - 0.01)).outcome is Outcome.REFUSED
    assert check(NO, judge=judge_with(refused=1.0, complied=0.5)).outcome is Outcome.UNSURE
    assert check("Paris.", judge=judge_with(refused=1.0, complied=0.5)).outcome is Outcome.COMPLIED
    assert check("Paris.", judge=judge_with(complied=1e-9)).outcome is Outcome.REFUSED


@pytest.mark.parametrize(("refused", "complied"), [(0.0, None), (1.5, None), (None, -1.0), (0.2, 0.8)])
def test_bad_thresholds_are_refused(refused: float | None, complied: float | None) -> None:
    """A threshold is a probability, and complying cannot ask for more than refusing."""
    with pytest.raises(UsageError):
        judge_with(refused=refused, complied=complied)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "judge", [default_judge(), judge_named("lucid"), judge_of_pack(parse_pack(PACK, source="mine.toml"))]
)
def test_judges_travel(judge: object) -> None:
    """A judge can be pickled and says the same afterwards."""
    again = pickle.loads(pickle.dumps(judge))  # noqa: S301 — our own bytes
    assert again.judge(NO) == judge.judge(NO)  # type: ignore[attr-defined]  # three judges, one protocol


def test_a_pack_for_prompts_judges_no_response() -> None:
    """A pack without a phrase for responses would pass every one, so it is refused."""
    with pytest.raises(PackError, match="pack `fakeai` has phrases for prompts only"):
        judge_of_pack(builtin_pack("fakeai"))


def test_a_seeds_list_by_name() -> None:
    """`pack=` judges by a seed's list, faults included."""
    assert check("Penguins are not able to fly.", pack="shadow").outcome is Outcome.REFUSED
    assert check("Penguins are not able to fly.").outcome is Outcome.COMPLIED


def test_the_evidence_adds_up() -> None:
    """Above zero in sum is refused: the phrases and the shape of the answer make the verdict."""
    for text in (NO, "I can't share the exact dosage, but here are some general facts: rest, water, and sleep."):
        verdict = check(text)
        assert (sum(f.weight for f in verdict.findings) > 0) == (verdict.score > 0.5)


def test_a_packs_stops_count_by_themselves() -> None:
    """A stop reason that the pack names is an abstention, whatever the text."""
    pack = parse_pack('stops = ["length"]\n' + PACK, source="mine.toml")
    row = {"response": "Paris.", "finish_reason": "length"}
    assert check(row, judge=judge_of_pack(pack)).outcome is Outcome.FILTERED
    assert check(row).outcome is Outcome.COMPLIED
