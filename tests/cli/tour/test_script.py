"""What is said on the tour is our own, known and harmless where it should be; where it goes, nothing was before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import demur
from demur.cli.tour.client import TourRecord, copy_with_flipped_bit
from demur.cli.tour.script import tour_script
from demur.cli.tour.tour import make_folder
from demur.errors import StoreError
from demur.simulate.scenario import scenario_of_model

CORPUS = Path(__file__).parents[2] / "corpus" / "prompts.jsonl"
LABELS = {"harmless": {"benign"}, "harmful": {"harmful"}, "attack": {"attack"}, "disguised": {"attack"}}


def test_every_prompt_stands_in_the_corpus() -> None:
    """A prompt is word for word the corpus's, under its id, and of the kind that it is shown as."""
    lines = map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines())
    corpus = {line["id"]: line for line in lines}
    for prompt in tour_script().talk:
        assert prompt.text == corpus[prompt.corpus]["text"]
        assert corpus[prompt.corpus]["label"] in LABELS.get(prompt.kind, {"benign", "harmful", "attack"})
    assert all(prompt.stream == (prompt.kind == "streamed") for prompt in tour_script().talk)


def test_the_questions_of_the_runs_are_harmless() -> None:
    """No question of the runs is an attack or touches harm, so that every refusal of them is one too many."""
    questions = tour_script().numbered()
    assert len({question.id for question in questions}) == len({question.text for question in questions}) == 120
    judged = {question.text: demur.check_prompt(question.text) for question in questions}
    assert [text for text, verdict in judged.items() if verdict.adversarial or verdict.harm] == []


def test_the_models_are_personas() -> None:
    """Both models name a persona of the simulator: its rates are the truth that the diff has to find."""
    found = [scenario_of_model(model) for model in tour_script().models.values()]
    assert [scenario.name for scenario in found if scenario] == ["persona-balanced", "persona-cautious"]


def test_an_earlier_tour_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name the first free one is taken."""
    monkeypatch.chdir(tmp_path)
    assert [str(make_folder(None)["report"].parent) for _ in range(3)] == ["demur-tour", "demur-tour-2", "demur-tour-3"]
    assert Path("demur-tour-3/policy.cedar").read_text(encoding="utf-8").startswith("// What the gateway of the tour")


def test_folders_above_are_made(tmp_path: Path) -> None:
    """A folder in a folder that is not there is made with it."""
    assert make_folder(str(tmp_path / "a" / "b"))["policy"].is_file()


def test_a_record_without_the_score_is_not_flipped(tmp_path: Path) -> None:
    """Where there is nothing to flip that is an error, never a copy that is taken for another."""
    (tmp_path / "log").mkdir()
    record = TourRecord(3, "id", verdict="not asked", decision="deny", rules=("attack",), payload=b"{}")
    with pytest.raises(StoreError, match="the score of record 3 is not where it was expected"):
        copy_with_flipped_bit(tmp_path / "log", tmp_path / "copy", record)


def test_every_action_does_one_thing() -> None:
    """An action of the script is exactly one of its kinds, and an exit code is explained after the command that has its name."""
    kinds = ("run", "serve", "stop", "call", "explain", "note", "path", "suggest")
    named: set[str] = set()
    for action in (action for step in tour_script().step for action in step.actions):
        assert [bool(getattr(action, kind)) for kind in kinds].count(True) == 1
        named.add(action.name)
        assert not action.explain or action.explain in named
