"""A plan rests on what a pilot measures and on what is stated beside it, never on both at once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.runs.run_files import NO, YES, Row, json_lines, questions

from demur.errors import UsageError
from demur.model.plan import PlanBasis, Question
from demur.runs.plan import Stated, plan_basis, plan_questions


def values(basis: PlanBasis) -> dict[str, float | None]:
    return {each.name: each.value for each in basis.assumptions}


def sources(basis: PlanBasis) -> dict[str, str]:
    return {each.name: each.source for each in basis.assumptions}


def sessions(count: int, turns: int, *, refusing: int, label: str = "s") -> list[Row]:
    """Return sessions of which some refuse every turn."""
    return [
        {
            "id": f"{label}{i}-{j}",
            "prompt": f"question {i} {j}",
            "response": NO if i < refusing else YES,
            "session_id": f"{label}{i}",
        }
        for i in range(count)
        for j in range(turns)
    ]


def test_stated_numbers() -> None:
    """What is stated is taken as it is; the churn of a rate alone is that of runs that answer independently."""
    basis = plan_basis(Stated(rate=0.05, churn=0.04, turns=10, icc=0.1))
    assert (basis.rate, basis.churn, basis.turns, basis.icc) == (0.05, 0.04, 10, 0.1)
    assert set(sources(basis).values()) == {"stated", "not known"}
    alone = plan_basis(Stated(rate=0.05))
    assert alone.churn == pytest.approx(2 * 0.05 * 0.95)
    assert sources(alone)["churn"].startswith("assumed")


def test_a_pilot_of_one_run(tmp_path: Path) -> None:
    """One run measures the rate; rows without a verdict are not in it."""
    rows = [*questions(60, range(6)), {"id": "x", "prompt": "x", "response": ""}]
    basis = plan_basis(Stated(churn=0.02), [str(json_lines(tmp_path / "a.jsonl", rows))])
    assert (basis.rate, basis.churn, basis.turns) == (0.1, 0.02, 1.0)
    assert sources(basis)["rate"] == "measured: 6 of 60, 95 % 4.7 to 20.1 %"


def test_a_pilot_of_two_runs(tmp_path: Path) -> None:
    """Two runs measure the churn as the share of flips; where they show a change, as twice the flips against it."""
    base = json_lines(tmp_path / "a.jsonl", questions(100, range(10)))
    same = json_lines(tmp_path / "b.jsonl", questions(100, range(2, 12)))
    more = json_lines(tmp_path / "c.jsonl", questions(100, range(1, 40)))
    assert plan_basis(Stated(), [str(base), str(same)]).churn == pytest.approx(5 / 102)
    changed = plan_basis(Stated(), [str(base), str(more)])
    assert changed.churn == pytest.approx(3 / 102)
    assert "against the pilot's own change, 2 of 100" in sources(changed)["churn"]


def test_a_pilot_with_sessions(tmp_path: Path) -> None:
    """Sessions that refuse as a whole have a correlation of 1; other turns may be planned than the pilot's."""
    pilot = [str(json_lines(tmp_path / "a.jsonl", sessions(20, 5, refusing=4)))]
    basis = plan_basis(Stated(), pilot)
    assert (basis.rate, basis.turns, basis.icc) == (0.2, 5.0, 1.0)
    assert plan_basis(Stated(turns=30), pilot).turns == 30


def test_the_changes_of_sessions(tmp_path: Path) -> None:
    """Two runs measure how far the changes of a session go together: flips at random hardly, whole sessions fully."""
    before = json_lines(tmp_path / "a.jsonl", sessions(40, 5, refusing=8))
    whole = json_lines(tmp_path / "b.jsonl", [*sessions(40, 5, refusing=8)[20:], *sessions(4, 5, refusing=0)])
    dice = random.Random(5)  # noqa: S311 - chance, not secrecy
    noisy = [row | {"response": NO if dice.random() < 0.1 else row["response"]} for row in sessions(40, 5, refusing=8)]
    apart = json_lines(tmp_path / "c.jsonl", noisy)
    assert plan_basis(Stated(), [str(before), str(whole)]).icc == pytest.approx(1.0, abs=0.05)
    assert plan_basis(Stated(), [str(before), str(apart)]).icc < 0.2


def test_labels_measure_the_detectors_errors(tmp_path: Path) -> None:
    """The detector's errors are the mean square by which labelled changes differ from the detected ones."""
    base = json_lines(tmp_path / "a.jsonl", questions(100, range(10)))
    cand = json_lines(tmp_path / "b.jsonl", questions(100, range(2, 12)))
    said = [{"id": f"q{i}", "baseline": "answered", "candidate": "answered"} for i in range(40)]
    labels = json_lines(tmp_path / "l.jsonl", said)
    basis = plan_basis(Stated(), [str(base), str(cand)], labels=str(labels), labels_are_random=True)
    assert basis.errors == pytest.approx((4 + 1) / 42)
    few = json_lines(tmp_path / "few.jsonl", said[:12])
    with pytest.raises(UsageError, match=r"12 labelled pairs are too few .*; 30 would do"):
        plan_basis(Stated(), [str(base), str(cand)], labels=str(few), labels_are_random=True)


def test_stated_errors() -> None:
    """The detector's stated errors count on both sides, at the rate."""
    basis = plan_basis(Stated(rate=0.1, sensitivity=0.9, false_alarms=0.01))
    assert basis.errors == pytest.approx(2 * (0.1 * 0.1 + 0.9 * 0.01))


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (Stated(turns=10), "`--turns` says nothing without `--icc`"),
        (Stated(icc=0.1), "`--icc` says nothing without `--turns`"),
        (Stated(rate=0.05, churn=0.3), "a churn of 30 % cannot be at a rate of 5 %; it is 10 % at most"),
        (Stated(rate=0.05, sensitivity=0.9), "`--sensitivity` is half of what is needed"),
        (Stated(sensitivity=0.9, false_alarms=0.1), "the detector's errors depend on the rate"),
    ],
    ids=["turns", "icc", "churn", "half", "rate"],
)
def test_what_cannot_be(stated: Stated, said: str) -> None:
    """Stated numbers that contradict each other, or say half of something, are named in one line."""
    with pytest.raises(UsageError, match=said):
        plan_basis(stated)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (Stated(rate=0.1), "`--rate` is stated and measured by the pilot"),
        (Stated(turns=10), "`--turns` is about sessions, and no row of the pilot `.*` shares one"),
        (Stated(icc=0.1), "`--icc` is about sessions, and no row of the pilot `.*` shares one"),
    ],
    ids=["rate", "turns", "icc"],
)
def test_what_a_pilot_contradicts(tmp_path: Path, stated: Stated, said: str) -> None:
    """What a pilot measures is not stated too, and sessions that it does not have cannot be asked for."""
    pilot = [str(json_lines(tmp_path / "a.jsonl", questions(60, range(6))))]
    with pytest.raises(UsageError, match=said):
        plan_basis(stated, pilot)


def test_a_pilot_that_is_too_small(tmp_path: Path) -> None:
    """A small pilot says how many rows would do; one with few sessions asks for more of them, or for the number that it cannot show."""
    with pytest.raises(UsageError, match="has 12 judged rows, too few to plan by; 30 would do"):
        plan_basis(Stated(), [str(json_lines(tmp_path / "a.jsonl", questions(12, [1])))])
    few = [str(json_lines(tmp_path / "b.jsonl", sessions(4, 20, refusing=1)))]
    with pytest.raises(UsageError, match=r"too little to measure how turns .*; 10 sessions with 5 flips or refusals"):
        plan_basis(Stated(), few)
    assert plan_basis(Stated(icc=0.2), few).icc == 0.2


def test_questions_need_their_numbers() -> None:
    """A question without the numbers that it rests on is an error that names them."""
    for question, said in (
        (Question.DETECT, "`--detect` needs the churn"),
        (Question.PROVE, "`--prove-no-increase` needs the churn"),
        (Question.ESTIMATE, "`--estimate` needs the rate"),
        (Question.CORRECT, "`--correct` needs the churn"),
    ):
        with pytest.raises(UsageError, match=said):
            plan_questions(PlanBasis(), [(question, 0.05)])
    with pytest.raises(UsageError, match="how often the detector errs"):
        plan_questions(PlanBasis(churn=0.1), [(Question.CORRECT, 0.05)], pairs=100)
    with pytest.raises(UsageError, match="needs the number of pairs"):
        plan_questions(PlanBasis(churn=0.1, errors=0.1), [(Question.CORRECT, 0.05)])
    with pytest.raises(UsageError, match="refusals cannot rise by 50 % from 80 %"):
        plan_questions(PlanBasis(rate=0.8, churn=0.1), [(Question.DETECT, 0.5)])


def test_a_plan_for_every_question() -> None:
    """Each need has what half and twice as many give: the wanted power lies between them, and widths shrink."""
    basis = PlanBasis(rate=0.05, churn=0.04, errors=0.02)
    asked = [(question, 0.04) for question in Question]
    found = plan_questions(basis, asked, pairs=2000)
    for need in found.needs:
        half, wanted, twice = need.curve
        assert (wanted.count, need.sessions) == (need.count, None)
        if need.question in (Question.DETECT, Question.PROVE):
            assert half.value < 0.8 <= wanted.value < twice.value
        else:
            assert half.value > 0.04 >= wanted.value > twice.value
    assert found.detectable is not None
    assert found.provable is not None
    assert 0.01 < found.provable < found.detectable < 0.03


def test_sessions_in_a_plan() -> None:
    """Planned pairs fill whole sessions; four sessions show nothing, whatever their length."""
    basis = PlanBasis(churn=0.04, turns=10, icc=0.1)
    need = plan_questions(basis, [(Question.DETECT, 0.1)]).needs[0]
    assert need.sessions is not None
    assert need.count == 10 * need.sessions
    four = plan_questions(basis, [], pairs=40)
    assert (four.sessions, four.detectable, four.provable) == (4, None, None)
