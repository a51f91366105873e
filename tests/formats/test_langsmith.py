"""The batches in which LangSmith's SDK sends runs, in the form of its version 0.1.131 (`POST /runs/batch`)."""

from __future__ import annotations

from typing import Any

from tests.formats import examples_tools as made
from tests.formats.example import QUESTION, REFUSAL, read_all

from demur.detect.check import classify
from demur.formats.registry import format_of
from demur.model.run import Skipped, Traced

IDS = {"id": "run-1", "trace_id": "trace-1", "dotted_order": "20260801T100000Zrun-1"}
ABOUT = {"metadata": {"ls_model_name": "gpt-4o-mini", "thread_id": "chat-1"}}
POST: dict[str, Any] = {
    **IDS,
    "start_time": "2026-08-01T10:00:00+00:00",
    "extra": ABOUT,
    "outputs": {},
    "name": "ChatOpenAI",
    "inputs": {"messages": [{"role": "user", "content": QUESTION}], "model": "gpt-4o-mini"},
    "run_type": "llm",
}
PATCH = {**IDS, "extra": ABOUT, "inputs": {}, "outputs": {"choices": [made.chat_choice(None, refusal=REFUSAL)]}}


def test_a_run_is_what_its_post_and_its_patch_say() -> None:
    """The beginning of a run has its prompt, the end its answer, and both are one exchange."""
    batch = {"post": [POST], "patch": [PATCH]}
    found = format_of(batch)
    assert found is not None
    assert found.NAME == "langsmith"
    (row,) = read_all("langsmith", [batch])
    assert isinstance(row, Traced)
    assert classify(row.exchange.response).outcome == "refused"
    assert row.exchange.request is not None
    assert row.exchange.request.prompt == QUESTION
    assert row.exchange.session == "chat-1"


def test_an_end_without_its_beginning_is_counted() -> None:
    """A batch that holds only the end of a run does not say what kind of run it was."""
    assert read_all("langsmith", [{"patch": [PATCH]}]) == [
        Skipped("the end of a run whose beginning is in another batch")
    ]


def test_other_runs_of_a_batch_are_skipped() -> None:
    """A chain in a batch is no call, and a failed call is a failure."""
    chain = {**POST, "id": "run-0", "run_type": "chain"}
    failed = {**POST, "id": "run-2", "error": "connection reset"}
    rows = read_all("langsmith", [{"post": [chain, failed], "patch": []}])
    assert rows[0] == Skipped("a chain run")
    assert isinstance(rows[1], Traced)
    assert classify(rows[1].exchange.response).outcome == "failed"
