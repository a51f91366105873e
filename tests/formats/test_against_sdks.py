"""Are the examples what the providers' own clients would have written? Each is checked against the client's types."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest
from anthropic.types.messages import MessageBatchIndividualResponse
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from tests.formats import examples as made
from tests.formats.example import Example

MALFORMED = {"bare error"}
"""What loggers write that the client would not."""


def batch_bodies(name: str) -> list[dict[str, Any]]:
    """Return the answers in a batch format's examples, errors left out."""
    rows = [example.records[0] for example in made.BATCHES if example.format == name]
    bodies = [row["response"]["body"] for row in rows if row["response"]]
    return [body for body in bodies if "choices" in body or body.get("status") in ("completed", "incomplete")]


@pytest.mark.parametrize("example", [e for e in made.BATCHES if e.format == "anthropic-batch"], ids=str)
def test_anthropics_results_are_as_typed(example: Example) -> None:
    """The result of a batch is one of the client's types, under the name that the example gives it."""
    if example.what not in MALFORMED:
        row = MessageBatchIndividualResponse.model_validate(example.records[0])
        assert row.result.type == example.records[0]["result"]["type"]


def test_openais_bodies_are_as_typed() -> None:
    """The bodies in the examples are completions and responses to the client's own types."""
    chats, responses = batch_bodies("openai-batch"), batch_bodies("openai-responses-batch")
    assert all(ChatCompletion.model_validate(body).choices[0].message for body in chats)
    assert all(
        Response.model_validate({"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], **body})
        for body in responses
    )
    assert (len(chats), len(responses)) == (4, 3)


def test_geminis_responses_are_as_typed() -> None:
    """The client reads the candidates, their text and their finish reason where the examples have them."""
    read = GenerateContentResponse.model_validate(made.gemini("hi", finish="SAFETY"))
    assert read.candidates is not None
    assert (read.candidates[0].finish_reason, read.model_version) == ("SAFETY", "gemini-2.5-flash")


def test_bedrocks_members_are_as_modelled() -> None:
    """Every member of the example, down to the text of a block, is in the service's own model, and so are the stops."""
    model = botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("Converse")
    output = model.output_shape
    assert output is not None
    assert set(made.converse()) <= set(output.members)
    message = output.members["output"].members["message"]
    assert set(message.members) == {"role", "content"}
    assert "text" in message.members["content"].member.members
    assert {"guardrail_intervened", "content_filtered", "end_turn"} <= set(output.members["stopReason"].enum)
