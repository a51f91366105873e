"""Langfuse's observations of several frameworks, and the batches that its SDK 2.44 sent to the ingestion API."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples_tools as made
from tests.formats.example import ANSWER, QUESTION, REFUSAL, answer_of, read_all, read_one

from demur.detect.check import classify
from demur.formats.registry import format_of
from demur.model.run import Skipped, Traced


def vertex(finish: int, text: str = ANSWER, **given: Any) -> dict[str, Any]:
    """Return a response of Vertex AI as openinference-instrumentation-vertexai 0.1.11 writes it, with the enum's number."""
    content = {"role": "model", "parts": [{"text": text}] if text else []}
    rated = [{"category": 4, "probability": 4, "blocked": True}] if finish == 3 else []
    candidate = {"content": content, "finish_reason": finish, "index": 0, "score": 0.0, "safety_ratings": rated}
    return {
        "candidates": [{**candidate, **given}],
        "usage_metadata": {"total_token_count": 20},
        "model_version": "gemini",
    }


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [
        *((number, "empty") for number in (0, 1, 2, 4, 5, 9, 99)),
        *((number, "filtered") for number in (3, 6, 7, 8, 10, 11)),
    ],
)
def test_vertexs_numbers_are_its_words(finish: int, outcome: str) -> None:
    """The number of a finish reason means what `google.cloud.aiplatform_v1.Candidate.FinishReason` says."""
    assert classify(answer_of("langfuse", made.observation(output=vertex(finish, "")))).outcome == outcome


@pytest.mark.parametrize(("finish", "outcome"), [(6, "empty"), (7, "filtered"), (9, "filtered"), (10, "empty")])
def test_the_gemini_apis_numbers_are_its_own(finish: int, outcome: str) -> None:
    """`google.ai.generativelanguage` counts differently from 6 on, and is known by its count of a candidate's tokens."""
    output = vertex(finish, "", token_count=0)
    assert classify(answer_of("langfuse", made.observation(output=output))).outcome == outcome


def test_vertexs_text_is_judged() -> None:
    """An answer that ended normally is judged by its text, and a blocked prompt by its number."""
    assert classify(answer_of("langfuse", made.observation(output=vertex(1)))).outcome == "complied"
    assert classify(answer_of("langfuse", made.observation(output=vertex(1, REFUSAL)))).outcome == "refused"
    blocked = {"candidates": [], "prompt_feedback": {"block_reason": 1}}
    assert classify(answer_of("langfuse", made.observation(output=blocked))).outcome == "filtered"


@pytest.mark.parametrize(
    ("asked", "system"),
    [
        ({"args": [QUESTION]}, ""),
        ({"args": [[{"role": "user", "content": QUESTION}]]}, ""),
        (
            {
                "model": "gemini",
                "config": {"system_instruction": "Be brief."},
                "contents": [
                    {"role": "user", "parts": [{"text": QUESTION}]},
                    {"role": "model", "parts": [{"function_call": {"name": "look", "args": {}}}]},
                    {
                        "role": "user",
                        "parts": [{"function_response": {"name": "look", "response": {"colour": "blue"}}}],
                    },
                ],
            },
            "Be brief.",
        ),
    ],
    ids=["llamaindex", "llamaindex_messages", "google_adk"],
)
def test_prompts_are_read_in_each_frameworks_spelling(asked: dict[str, Any], system: str) -> None:
    """The prompt is found where the framework puts it, and what a tool answered is no part of it."""
    request = read_one("langfuse", made.observation(input=asked)).exchange.request
    assert request is not None
    assert request.prompt == QUESTION
    assert "".join(message.text for message in request.messages if message.role == "system") == system


def test_an_observation_without_output_is_unread() -> None:
    """A generation that did not fail and has no output was not stored; one at level ERROR has failed."""
    verdict = classify(answer_of("langfuse", made.observation(output=None)))
    assert (verdict.outcome, verdict.cause) == ("unread", "not_stored")
    assert classify(answer_of("langfuse", made.observation(output=None, level="ERROR"))).outcome == "failed"


def event(kind: str, **body: Any) -> dict[str, Any]:
    """Return an event of the ingestion API."""
    return {"id": f"e-{kind}", "type": kind, "body": body, "timestamp": "2026-08-01T10:00:00Z"}


BATCH = {
    "batch": [
        event("trace-create", id="trace-1", name="chat", output={"role": "assistant", "content": REFUSAL}),
        event("generation-create", id="g1", traceId="trace-1", model="gpt-4o-mini", input={"messages": made.SPOKEN}),
        event("span-create", id="s1", traceId="trace-1", name="look"),
        event("generation-update", id="g1", model=None, output={"role": "assistant", "content": REFUSAL}),
        event("generation-create", id="g2", traceId="trace-1", output=ANSWER, input=QUESTION, level="DEFAULT"),
        event("score-create", traceId="trace-1", name="quality", value=1),
    ],
    "metadata": {"batch_size": 6, "sdk_name": "python", "sdk_version": "2.44.1"},
}


def test_a_batch_makes_each_generation_once() -> None:
    """What is said of a generation when it begins and when it ends is one exchange; traces, spans and scores are none."""
    found = format_of(BATCH)
    assert found is not None
    assert found.NAME == "langfuse"
    rows = read_all("langfuse", [BATCH])
    calls = [row.exchange for row in rows if isinstance(row, Traced)]
    assert [classify(call.response).outcome for call in calls] == ["refused", "complied"]
    assert {call.request and call.request.prompt for call in calls} == {QUESTION}
    assert calls[0].response is not None
    assert calls[0].response.model == "gpt-4o-mini"
    skipped = [row.why for row in rows if isinstance(row, Skipped)]
    assert skipped == ["a trace-create event", "a score-create event", "a span observation"]
