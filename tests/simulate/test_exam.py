"""The exam: how a command is run, judged and reported."""

from __future__ import annotations

import json
import sys
from xml.etree import ElementTree as ET

import pytest

from demur.errors import UsageError
from demur.model.exchange import Shape
from demur.simulate.exam import (
    Coped,
    ExamCase,
    ExamResult,
    Ran,
    exam_cases,
    exam_json,
    exam_junit,
    exam_table,
    judge_ran,
    run_command,
)

CASE, FAULT = ExamCase("refuse"), ExamCase("fault-429", fault=True)
CONTROL = Ran(0, "Mix flour and water.", 1)


@pytest.mark.parametrize(
    ("case", "ran", "coped", "why"),
    [
        (CASE, Ran(None, "", 1), Coped.HUNG, ""),
        (CASE, Ran(0, "", 0), Coped.UNTESTED, ""),
        (CASE, Ran(1, "Traceback (most recent call last)\nTypeError", 1), Coped.CRASHED, "stack trace"),
        (CASE, Ran(-11, "", 1), Coped.CRASHED, "a signal ended it (11)"),
        (CASE, Ran(4, " ", 1), Coped.CRASHED, "without a word"),
        (CASE, Ran(1, "", 1), Coped.CRASHED, "without a word"),
        (CASE, Ran(3, "no answer", 1), Coped.HANDLED, "failed with a message"),
        (CASE, Ran(1, "the model refused", 1), Coped.HANDLED, ""),
        (CASE, Ran(0, "the model refused", 1), Coped.HANDLED, "printed `refus`"),
        (CASE, Ran(0, "Es tut mir leid, aber dabei kann ich nicht helfen.", 1), Coped.HANDLED, ""),
        (CASE, Ran(0, "None", 1), Coped.EMPTY_SUCCESS, ""),
        (CASE, Ran(0, "", 1), Coped.EMPTY_SUCCESS, ""),
        (CASE, Ran(0, "the model refused", 4), Coped.RETRIED, ""),
        (FAULT, Ran(0, "Mix flour and water.", 3), Coped.HANDLED, "asked again"),
        (FAULT, Ran(0, "", 1), Coped.EMPTY_SUCCESS, ""),
    ],
)
def test_a_run_is_judged_by_how_it_ends(case: ExamCase, ran: Ran, coped: Coped, why: str) -> None:
    """Hanging, crashing, asking again, saying nothing and noticing are told apart, and the result says by what."""
    result = judge_ran(case, CONTROL, ran)
    assert result.coped is coped
    assert result.passed is (coped is Coped.HANDLED)
    assert result.retries == max(0, ran.requests - 1)
    assert why in result.why
    assert why in exam_table([result])


def test_words_of_the_control_prove_nothing() -> None:
    """A client that always prints `safety` has not noticed a refusal by printing it."""
    chatty = Ran(0, "safety first: flour", 1)
    assert judge_ran(CASE, chatty, Ran(0, "safety first:", 1)).coped is Coped.EMPTY_SUCCESS


def test_the_cases_fit_the_client() -> None:
    """Azure's 400 is asked of clients of chat completions only, faults where they are wanted."""
    chat = [case.scenario for case in exam_cases(frozenset({Shape.OPENAI_CHAT}), faults=False)]
    claude = [case.scenario for case in exam_cases(frozenset({Shape.ANTHROPIC}), faults=True)]
    assert "filter-azure-400" in chat
    assert "filter-azure-400" not in claude
    assert "fault-429" in claude
    assert "fault-429" not in chat


def test_reports_agree() -> None:
    """Table, JSON and JUnit name the same cases with the same results."""
    results = [ExamResult(CASE, Coped.HANDLED, 0, 0), ExamResult(FAULT, Coped.HUNG, 2, None)]
    table = exam_table(results)
    assert "refuse" in table
    assert "2 cases: 1 handled, 1 hung" in table
    rows = json.loads(exam_json(["cmd"], results))["results"]
    assert [(row["coped"], row["passed"]) for row in rows] == [("handled", True), ("hung", False)]
    suite = ET.fromstring(exam_junit(results))  # noqa: S314 — our own XML
    assert suite.attrib["failures"] == "1"
    assert [case.attrib["name"] for case in suite.iter("testcase") if case.find("failure") is not None] == ["fault-429"]


def test_a_command_ends_with_its_code_and_words() -> None:
    """The exit code, both outputs and the variables are as the command has them."""
    code = "import os, sys; print(os.environ['GIVEN']); sys.stderr.write('bad'); sys.exit(3)"
    ended, output = run_command([sys.executable, "-c", code], {"GIVEN": "here"}, timeout_s=20)
    assert ended == 3
    assert "here" in output
    assert "bad" in output


@pytest.mark.heavy
def test_a_command_that_does_not_end_is_stopped() -> None:
    """A command that outlives its time is stopped, and its words are kept."""
    code = "import threading; print('waiting', flush=True); threading.Event().wait()"
    ended, output = run_command([sys.executable, "-c", code], {}, timeout_s=1.5)
    assert ended is None
    assert "waiting" in output


def test_a_command_that_is_none_is_refused() -> None:
    """What cannot be run is an error of the call."""
    with pytest.raises(UsageError, match="no such file"):
        run_command(["/no/such/command"], {}, timeout_s=1)
