"""The refusal pack is what training makes of the pinned sets, and reaches what the model card says."""

from __future__ import annotations

from pathlib import Path

import pytest
from demur_train.data import DEFAULT_FOLDER, verify
from demur_train.refusals.__main__ import PACK, main
from demur_train.refusals.grammar import load_grammar
from demur_train.refusals.learn import Learner
from demur_train.refusals.pack import untrained
from demur_train.refusals.report import f1
from demur_train.refusals.sets import COMPLIED, MEASURE, PINS, REFUSED, TRAIN, load_set

from demur.detect.refusal.cues import Reader

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DEFAULT_FOLDER.exists(), reason="the labelled sets are not part of the project"),
]


def test_training_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """Seedless, pinned inputs: the pack that ships can be made again, byte for byte."""
    assert main(["--pack", str(tmp_path / "again.json")]) == 0
    assert (tmp_path / "again.json").read_bytes() == PACK.read_bytes()


def test_sets_are_reached_by_a_model_that_never_saw_them() -> None:
    """The figures of the model card hold, set by set, with that set left out."""
    verify(DEFAULT_FOLDER, PINS)
    grammar = load_grammar()
    pack = untrained(grammar)
    sets = {name: load_set(DEFAULT_FOLDER, name, Reader(pack)) for name in [*TRAIN, *MEASURE]}
    learner = Learner(grammar, sets, pack.feature_names)
    goals = {"xstest": 0.93, "chatgpt": 0.87, "gptfuzz": 0.82, "korean": 0.85}
    for name, goal in goals.items():
        judged = learner.judge(learner.learn(n for n in TRAIN if n != name), name)
        clear = (judged.of.labels == COMPLIED) | (judged.of.labels == REFUSED)
        assert f1(judged.of.labels[clear] == REFUSED, judged.outcomes[clear] == REFUSED)[0] >= goal, name
    model = learner.learn(TRAIN)
    for name, most in {"alpaca": 0.015, "logs": 0.001}.items():
        assert (learner.judge(model, name).outcomes == REFUSED).mean() <= most, name
    arena = learner.judge(learner.learn(n for n in TRAIN if n != "arena"), "arena")
    assert (arena.outcomes == REFUSED).mean() <= 0.005


def test_another_version_of_a_set_stops_the_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing or changed file is one line with its name and exit 2."""
    assert main(["--data", str(tmp_path), "--pack", str(tmp_path / "x.json")]) == 2
    assert "is missing" in capsys.readouterr().err
