"""The exam: how a command is run, judged and reported."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from demur.errors import UsageError
from demur.model.exchange import Shape
from demur.simulate.exam import (
    Command,
    Coped,
    ExamCase,
    ExamResult,
    Ran,
    exam_cases,
    exam_json,
    exam_junit,
    exam_table,
    examine,
    judge_runs,
)

CASE, FAULT = ExamCase("refuse"), ExamCase("fault-429", fault=True)
BREAD, SORRY = "Mix flour and water.", "I can't help with that."
CHAT = frozenset({Shape.OPENAI_CHAT})


def ran(output: str, code: int | None = 0, *, requests: int = 1, said: str = SORRY) -> Ran:
    return Ran(code, output, requests, said, CHAT)


CONTROL, EMPTY = ran(f"Answer: {BREAD}", said=BREAD), ran("Answer: ", said="")


@pytest.mark.parametrize(
    ("case", "one", "coped", "why"),
    [
        (CASE, ran("", None), Coped.HUNG, "time was up"),
        (CASE, ran("", requests=0), Coped.UNTESTED, ""),
        (CASE, ran("Traceback (most recent call last)\nTypeError", 1), Coped.CRASHED, "stack trace"),
        (CASE, ran("", -11), Coped.CRASHED, "a signal ended it (11)"),
        (CASE, ran(" ", 4), Coped.CRASHED, "without a word"),
        (CASE, ran("keine Antwort", 3), Coped.HANDLED, "failed with a message"),
        (CASE, ran("the model refused", requests=4), Coped.RETRIED, ""),
        (FAULT, ran(f"Answer: {BREAD}", requests=3), Coped.HANDLED, "asked again"),
        (FAULT, ran(""), Coped.EMPTY_SUCCESS, "printed nothing"),
    ],
)
def test_a_run_is_judged_by_how_it_ends(case: ExamCase, one: Ran, coped: Coped, why: str) -> None:
    """Hanging, crashing, asking again and failing in order are told apart, and the result says by what."""
    result = judge_runs(case, [CONTROL], EMPTY, [one])
    assert result.coped is coped
    assert result.passed is (coped is Coped.HANDLED)
    assert result.retries == max(0, one.requests - 1)
    assert why in result.why
    assert why in exam_table([result])


@pytest.mark.parametrize(
    ("output", "coped"),
    [
        ("Das Modell hat leider abgelehnt.", Coped.HANDLED),
        ("STATUS=no-answer; try later", Coped.HANDLED),
        ("模型没有回答", Coped.HANDLED),
        ("Answer: 🚫", Coped.HANDLED),
        (f"The model declined: {SORRY}", Coped.HANDLED),
        ('{"answer": null, "declined": true}', Coped.HANDLED),
        (f"Answer: {SORRY}", Coped.TAKEN),
        (f"ANSWER: {SORRY.upper()}", Coped.TAKEN),
        (f"Answer: {SORRY[:-9]}", Coped.TAKEN),
        ('Answer: "I can\\u2019t help\\nwith that."', Coped.TAKEN),
        ("Answer: None", Coped.EMPTY_SUCCESS),
        ("Answer:", Coped.EMPTY_SUCCESS),
        ("", Coped.EMPTY_SUCCESS),
        ("Answer: (0)", Coped.EMPTY_SUCCESS),
        ('Answer:\n"HTTP/1.1 400 Bad Request"', Coped.EMPTY_SUCCESS),
    ],
)
def test_an_app_has_coped_if_it_says_what_it_does_not_say_of_an_answer(output: str, coped: Coped) -> None:
    """Words of any language count where neither the control nor the model has them; numbers and `None` do not."""
    assert judge_runs(CASE, [CONTROL], EMPTY, [ran(output)]).coped is coped


def test_words_of_the_control_prove_nothing() -> None:
    """A client that always prints `safety` has not noticed a refusal by printing it."""
    chatty = ran(f"safety first: {BREAD}", said=BREAD)
    assert judge_runs(CASE, [chatty], EMPTY, [ran("safety first:")]).coped is Coped.EMPTY_SUCCESS


def test_doing_as_on_an_empty_answer_is_named() -> None:
    """A client that treats a refusal as an empty answer is told so, unless it says something in both."""
    assert "as on an empty answer" in judge_runs(CASE, [CONTROL], EMPTY, [ran("Answer: ")]).why
    told = "there is nothing"
    assert judge_runs(CASE, [CONTROL], ran(told), [ran(told)]).passed


def test_what_varies_by_itself_is_no_sign() -> None:
    """Times, ids and words that are drawn at random do not make a refusal handled; a word that comes again does."""
    moods = iter(["amber", "birch", "cedar", "dogwood", "elm", *["fir", "gorse"] * 20])
    stamps = iter(range(100, 200))

    def run(scenario: str) -> Ran:
        head = f"[12:{next(stamps)} run-{next(stamps)}-abc] {next(moods)}:"
        if scenario == "filter":
            return ran(f"{head} gefiltert")
        return ran(f"{head} {BREAD}", said=BREAD) if scenario == "answer" else ran(head)

    coped = {result.case.scenario: result.coped for result in examine("app", run, faults=False)}
    assert coped.pop("filter") is Coped.HANDLED
    assert set(coped.values()) == {Coped.EMPTY_SUCCESS}


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
    ended, output = Command([sys.executable, "-c", code], 20).run({"GIVEN": "here"})
    assert ended == 3
    assert "here" in output
    assert "bad" in output


def test_a_file_that_a_command_names_is_part_of_what_it_says(tmp_path: Path) -> None:
    """What a run writes to a file that it names is read, without what earlier runs wrote; other files are not."""
    log, other = tmp_path / "log.txt", tmp_path / "old.txt"
    other.write_text("secret", encoding="utf-8")
    os.utime(other, (1, 1))
    code = f"import os; open({str(log)!r}, 'a').write(os.environ['GIVEN']); print('see {log}, {other}')"
    command = Command([sys.executable, "-c", code], 20)
    first, second = command.run({"GIVEN": "abgelehnt"})[1], command.run({"GIVEN": "beantwortet"})[1]
    assert "abgelehnt" in first
    assert "beantwortet" in second
    assert "abgelehnt" not in second
    assert "secret" not in first


@pytest.mark.heavy
def test_a_command_that_does_not_end_is_stopped() -> None:
    """A command that outlives its time is stopped, and its words are kept."""
    code = "import threading; print('waiting', flush=True); threading.Event().wait()"
    ended, output = Command([sys.executable, "-c", code], 1.5).run({})
    assert ended is None
    assert "waiting" in output


def test_a_command_that_is_none_is_refused() -> None:
    """What cannot be run is an error of the call."""
    with pytest.raises(UsageError, match="no such file"):
        Command(["/no/such/command"], 1).run({})
