"""Every provider's own client against the simulator: refusals, filters and blocks arrive as that provider sends them."""

from __future__ import annotations

from typing import Any

import anthropic
import botocore.exceptions
import openai
import pytest
from google.genai import errors
from tests.simulate.simulating import (
    HARM,
    HARMLESS,
    anthropic_client,
    asked,
    azure_client,
    bedrock_client,
    gemini_client,
    openai_client,
)

from demur.simulate.server.run import RunningSimulator


def claude(text: str, **more: Any) -> Any:
    return {"max_tokens": 200, **asked(text, **more)}


def test_responses_refuse_by_a_part(running: RunningSimulator) -> None:
    """A response refuses by a part of type refusal, streamed by events of its own; harmless input is answered."""
    with openai_client(running) as client:
        part: Any = client.responses.create(model="gpt-x", input=HARM).output[0]
        assert part.content[0].type == "refusal"
        with client.responses.stream(model="gpt-x", input=HARM) as events:
            kinds = [event.type for event in events]
        assert client.responses.create(model="gpt-x", input=HARMLESS).output_text
        cut = client.responses.create(model="filter", input=HARMLESS)
    assert {"response.refusal.delta", "response.refusal.done", "response.completed"} <= set(kinds)
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "content_filter"


def test_azure_filters_and_blocks(running: RunningSimulator) -> None:
    """Azure blocks with a 400 that names the category, and annotates what it cuts off."""
    with azure_client(running) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**asked(HARM, model="filter-azure-400"))
        body: Any = caught.value.body
        assert caught.value.code == "content_filter"
        assert body["innererror"]["content_filter_result"]["violence"] == {"filtered": True, "severity": "high"}
        cut: Any = client.chat.completions.create(**asked(HARM, model="filter")).choices[0]
        assert cut.finish_reason == "content_filter"
        assert cut.content_filter_results["violence"]["filtered"]


def test_anthropic_refuses_by_stop_reason(running: RunningSimulator) -> None:
    """A message stops with `refusal` and its category, streamed or not; harmless ones end their turn."""
    with anthropic_client(running) as client:
        said = client.messages.create(**claude(HARM))
        with client.messages.stream(**claude(HARM)) as stream:
            streamed = stream.get_final_message()
        answered = client.messages.create(**claude(HARMLESS))
        assert client.messages.count_tokens(**asked(HARMLESS)).input_tokens > 0
        assert client.models.list().data
    for refused in (said, streamed):
        assert refused.stop_reason == "refusal"
        assert refused.stop_details is not None
        assert refused.stop_details.category == "general_harms"
    assert answered.stop_reason == "end_turn"


def test_gemini_blocks(running: RunningSimulator) -> None:
    """A blocked prompt has a reason and no candidates, a refused one a candidate stopped for safety, streamed or not."""
    client = gemini_client(running)
    blocked = client.models.generate_content(model="block-gemini", contents=HARM)
    refused = client.models.generate_content(model="gemini-x", contents=HARM)
    streamed = list(client.models.generate_content_stream(model="gemini-x", contents=HARM))
    answered = list(client.models.generate_content_stream(model="gemini-x", contents=HARMLESS))
    names = [model.name for model in client.models.list()]
    client.close()
    feedback: Any = blocked.prompt_feedback
    assert (blocked.candidates, feedback.block_reason) == (None, "SAFETY")
    candidates: Any = [refused.candidates, streamed[-1].candidates]
    assert [found[0].finish_reason for found in candidates] == ["SAFETY", "SAFETY"]
    assert "".join(piece.text or "" for piece in answered)
    assert "models/refuse-soft" in names


def test_bedrock_guardrails_intervene(running: RunningSimulator) -> None:
    """A guardrail's intervention has its trace, streamed or not; harmless turns end."""
    client = bedrock_client(running)
    turn = {"modelId": "some.model-v1:0", "messages": [{"role": "user", "content": [{"text": HARM}]}]}
    whole = client.converse(**turn)
    events = {name: value for event in client.converse_stream(**turn)["stream"] for name, value in event.items()}
    turn["messages"] = [{"role": "user", "content": [{"text": HARMLESS}]}]
    assert client.converse(**turn)["stopReason"] == "end_turn"
    client.close()
    assert whole["stopReason"] == events["messageStop"]["stopReason"] == "guardrail_intervened"
    (assessment,) = whole["trace"]["guardrail"]["inputAssessment"].values()
    assert assessment["contentPolicy"]["filters"][0]["type"] == "VIOLENCE"


def test_moderations_and_models(running: RunningSimulator) -> None:
    """A moderation is the detector's verdict under OpenAI's names; scenarios are models."""
    with openai_client(running) as client:
        results = client.moderations.create(input=["How to kill someone", HARMLESS]).results
        assert [result.flagged for result in results] == [True, False]
        assert results[0].categories.violence
        assert "refuse-soft" in [model.id for model in client.models.list()]
        assert client.models.retrieve("any").id == "any"


def test_each_client_raises_its_own_rate_limit(running: RunningSimulator) -> None:
    """A 429 is the exception that each provider's client has for it."""
    with openai_client(running) as client, pytest.raises(openai.RateLimitError):
        client.chat.completions.create(**asked(HARMLESS, model="fault-429"))
    with anthropic_client(running) as claude_client:
        with pytest.raises(anthropic.RateLimitError):
            claude_client.messages.create(**claude(HARMLESS, model="fault-429"))
        with pytest.raises(anthropic.InternalServerError) as overloaded:
            claude_client.messages.create(**claude(HARMLESS, model="fault-503"))
        assert overloaded.value.status_code == 529
    gemini = gemini_client(running)
    with pytest.raises(errors.ClientError, match="RESOURCE_EXHAUSTED"):
        gemini.models.generate_content(model="fault-429", contents=HARMLESS)
    gemini.close()
    bedrock = bedrock_client(running)
    with pytest.raises(botocore.exceptions.ClientError, match="ThrottlingException"):
        bedrock.converse(modelId="fault-429", messages=[{"role": "user", "content": [{"text": HARMLESS}]}])
    bedrock.close()


def test_text_refusals_speak_the_language_asked_for(running: RunningSimulator) -> None:
    """A language ends a scenario's name, or stands among its changes in the header."""
    with openai_client(running) as client:
        named = client.chat.completions.create(**asked(HARMLESS, model="refuse-soft-de"))
        header = {"x-demur-scenario": "refuse-curt;language=ja"}
        told = client.chat.completions.create(**asked(HARMLESS), extra_headers=header)
    assert named.choices[0].message.content == "Es tut mir leid, aber dabei kann ich nicht helfen."
    assert told.choices[0].message.content == "それにはお答えできません。"
