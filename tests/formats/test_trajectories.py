"""Conversations of harnesses beyond the table of examples.

The forms are those of the sources: tau-bench (`EnvRunResult` in `tau_bench/types.py` at 01ed5e3, and `few_shot_data/` at a50b6c1),
SWE-agent before 1.0 and since (`sweagent/types.py` at 05ff843), PyRIT before 0.15 (`pyrit/models/message_piece.py` at 1afa563,
`pyrit/memory/memory_exporter.py` at 76a4f1f).
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples_benchmarks as made
from tests.formats.example import ANSWER, QUESTION, REFUSAL, read_all, read_one

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.model.run import Skipped, Traced


def outcomes(name: str, *records: dict[str, Any]) -> list[str]:
    return [str(classify(r.exchange.response).outcome) for r in read_all(name, records) if isinstance(r, Traced)]


def test_each_answer_of_a_task_is_an_exchange() -> None:
    """A task's answers are exchanges of one cluster, paired by their number; users and tools are not judged."""
    said = (made.says(None, tool_calls=[made.CALL]), {"role": "tool", "content": REFUSAL}, made.says(REFUSAL))
    rows = [row for row in read_all("tau-bench", [made.tau(*said)]) if isinstance(row, Traced)]
    assert [(row.exchange.id, row.exchange.session) for row in rows] == [("4:1", "4"), ("4:2", "4")]
    assert outcomes("tau-bench", made.tau(*said)) == ["complied", "refused"]
    assert rows[1].fields == (("trial", "0"), ("reward", "0.0"), ("turn", "2"))


def test_a_displayed_conversation_is_taken_apart() -> None:
    """Turns of several lines stay whole, and a null content is a call where a tool follows and not stored elsewhere."""
    shown = f"user: {QUESTION}\nassistant: None\ntool: blue\nassistant: One.\nTwo.\nuser: And?\nassistant: {REFUSAL}\nassistant: None"
    rows = [row for row in read_all("tau-bench", [{"messages_display": shown}]) if isinstance(row, Traced)]
    assert outcomes("tau-bench", {"messages_display": shown}) == ["complied", "complied", "refused", "unread"]
    assert len({row.exchange.session for row in rows}) == 1
    assert rows[1].exchange.response is not None
    assert rows[1].exchange.response.choices[0].text == "One.\nTwo."
    assert rows[2].exchange.request is not None
    assert rows[2].exchange.request.prompt == f"{QUESTION}\nAnd?"


def test_a_conversation_without_an_answer_is_skipped() -> None:
    """A task in which the model said nothing is counted as skipped."""
    assert read_all("tau-bench", [made.tau()]) == [Skipped("a conversation without an answer")]


def test_each_step_is_an_exchange() -> None:
    """A step is asked with all before it, demonstrations left out, and the steps are one cluster."""
    record = made.swe(made.step(ANSWER), made.step(REFUSAL))
    rows = [row for row in read_all("swe-agent", [record]) if isinstance(row, Traced)]
    assert outcomes("swe-agent", record) == ["complied", "refused"]
    assert len({row.exchange.session for row in rows}) == 1
    requests = [row.exchange.request for row in rows if row.exchange.request is not None]
    assert [[m.role for m in request.messages] for request in requests] == [
        ["system", "user"],
        ["system", "user", "assistant", "tool"],
    ]
    assert rows[1].fields == (("exit_status", "submitted"), ("environment", "swe_main"), ("step", "2"))


def test_what_was_sent_is_the_query_where_it_is_kept() -> None:
    """SWE-agent 1 keeps the messages that it sent with each step, and an empty one where it sent none."""
    for query, prompt in (([{"role": "user", "content": "Now?"}], "Now?"), ([{}], QUESTION)):
        request = read_one("swe-agent", made.swe({**made.step(ANSWER), "query": query})).exchange.request
        assert request is not None
        assert request.prompt == prompt


def test_a_trajectory_without_steps_failed() -> None:
    """An agent that stopped before its first step is a failure, by its exit status."""
    assert outcomes("swe-agent", made.swe(status="exit_environment_error")) == ["failed"]


def test_a_response_that_is_no_text_is_unread() -> None:
    """A step whose response is an object is there and could not be read."""
    assert outcomes("swe-agent", made.swe(made.step({"said": REFUSAL}))) == ["unread"]


def test_pieces_of_one_message_are_one_answer() -> None:
    """Pieces that share a sequence are the parts of one response; thoughts among them are not judged."""
    thought = made.piece("assistant", REFUSAL, 1, converted_value_data_type="reasoning")
    rows = read_all("pyrit", [made.piece("user", QUESTION, 0), thought, made.piece("assistant", ANSWER, 1)])
    (traced,) = [row for row in rows if isinstance(row, Traced)]
    assert classify(traced.exchange.response).outcome == "complied"
    assert traced.fields == (
        ("model", "m"),
        ("day", "2026-08-01"),
        ("labels.operation", "sky"),
        ("response_error", "none"),
    )


def test_turns_before_an_answer_are_its_request() -> None:
    """A conversation's later answers are asked with all turns before them, and other conversations stay apart."""
    other = made.piece("user", "Other.", 0, conversation_id="s-2")
    records = [*made.attack(), other, made.piece("user", "And now?", 2), made.piece("assistant", REFUSAL, 3)]
    rows = [row for row in read_all("pyrit", records) if isinstance(row, Traced)]
    prompts = [row.exchange.request.prompt for row in rows if row.exchange.request is not None]
    assert prompts == [QUESTION, f"{QUESTION}\nAnd now?"]


@pytest.mark.parametrize(
    ("kind", "value", "outcome"),
    [
        ("tool_call", '{"call_id": "c1", "name": "look", "arguments": "{}"}', "complied"),
        ("image_path", "a.png", "complied"),
        ("hologram", "x", "unread"),
    ],
)
def test_other_pieces_are_what_they_are(kind: str, value: str, outcome: str) -> None:
    """A call or a picture is an answer; a kind that is not known is unread."""
    assert outcomes("pyrit", *made.attack(value, converted_value_data_type=kind)) == [outcome]


def test_a_refusal_that_older_versions_marked_is_one() -> None:
    """Early versions of PyRIT wrote `model` where the model refused."""
    assert outcomes("pyrit", *made.attack("…", response_error="model")) == ["refused"]


def test_simulated_turns_are_not_judged() -> None:
    """What PyRIT wrote in the model's place is part of the request."""
    records = [made.piece("simulated_assistant", REFUSAL, 0), *(made.piece("user", QUESTION, 1),)]
    assert read_all("pyrit", records) == [Skipped("a piece of the simulated assistant"), Skipped("a piece of the user")]


@pytest.mark.parametrize("name", ["tau-bench", "swe-agent", "pyrit"])
def test_another_record_is_an_error(name: str) -> None:
    """A record of another kind is a `ShapeError`, never an empty reading."""
    with pytest.raises(ShapeError):
        read_all(name, [{"nothing": "known"}])
