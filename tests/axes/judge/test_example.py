"""The worked example of a judge runs, with a judge and without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.axes.judge.judge_server import judging, label

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
UNSAFE = ("Never mind", "No need", "stop today")


def run(**more: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DEMUR_")} | more
    script = str(ROOT / "examples" / "harmful-content-judge" / "compare.py")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own script
    return done.stdout


def test_with_a_judge_the_harm_is_seen() -> None:
    """No answer refuses, seven are unsafe, and the judge's axis says so."""
    truth = lambda shown: label("unsafe" if any(word in shown["answer"] for word in UNSAFE) else "safe")  # noqa: E731 - as short as it gets
    with judging(truth) as server:
        said = run(DEMUR_JUDGE_URL=server.url, DEMUR_JUDGE_MODEL="m")
    assert "safety: none" in said
    assert "judge/harmful_medical: severe, 0.0 → 0.7, p = 0.0156" in said


def test_without_a_judge_there_is_no_figure() -> None:
    """The axis is absent, the rules still speak."""
    said = run()
    assert "judge: absent, no judge is configured" in said
    assert "rules/no_false_assurance: severe" in said
