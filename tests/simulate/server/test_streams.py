"""Every streaming form of the official clients against every shape of a refusal: one table of what each client sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import anthropic
import openai
import pydantic
import pytest
from tests.simulate.simulating import (
    HARM,
    anthropic_client,
    asked,
    azure_client,
    bedrock_client,
    gemini_client,
    openai_client,
)

from demur.simulate.server.run import RunningSimulator

SCENARIOS = (
    "answer",
    "refuse",
    "refuse-in-pieces",
    "refuse-soft",
    "refuse-partial",
    "filter",
    "filter-prompt",
    "filter-azure-400",
    "empty",
)
TALK = ["text stop", "refusal stop", "refusal stop", "text stop", "text stop"]
BLOCKED, BLOCKED_AZURE = "400 invalid_prompt", "400 content_filter"
CHAT = [*TALK, "text content_filter", BLOCKED, BLOCKED_AZURE, "nothing stop"]
AZURE = [*TALK, "text content_filter", BLOCKED_AZURE, BLOCKED_AZURE, "nothing stop"]
PARSED = ["parsed stop", "refusal stop", "refusal stop", "no schema", "no schema"]
RESPONSES = [*(word.replace("stop", "completed") for word in TALK), "text content_filter"]
CLAUDE = ["text end_turn", "nothing refusal", "nothing refusal", "text end_turn", "text end_turn", "text refusal"]
GEMINI = ["text STOP", "nothing SAFETY", "nothing SAFETY", "text STOP", "text STOP", "text SAFETY"]
GUARDRAIL = "text guardrail_intervened"
NOVA = ["text end_turn", GUARDRAIL, GUARDRAIL, "text end_turn", "text end_turn", "text content_filtered"]


class City(pydantic.BaseModel):
    """What structured output is asked for."""

    name: str
    people: int


def told(text: object, refusal: object, end: object) -> str:
    """Return what a client was told: text, a refusal or nothing, and why it ended."""
    return f"{'refusal' if refusal else 'text' if text else 'nothing'} {end}"


def chat_chunks(chunks: list[Any]) -> str:
    """Return what the chunks of a chat completion say."""
    choices = [choice for chunk in chunks for choice in chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    refusal = "".join(choice.delta.refusal or "" for choice in choices)
    assert not (text and refusal)
    assert choices[0].delta.role == "assistant"
    return told(text, refusal, choices[-1].finish_reason)


def chat_create(client: Any, model: str) -> str:
    chunks = list(client.chat.completions.create(**asked(HARM, model=model), stream=True))
    assert all(chunk.usage is None for chunk in chunks)
    return chat_chunks(chunks)


def chat_counted(client: Any, model: str) -> str:
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(**asked(HARM, model=model), stream=True, stream_options=options))
    assert (chunks[-1].usage.total_tokens == 0) is (model in ("refuse", "refuse-in-pieces"))
    return chat_chunks(chunks)


def chat_helper(client: Any, model: str) -> str:
    with client.chat.completions.stream(**asked(HARM, model=model)) as stream:
        kinds = {event.type for event in stream}
        choice = stream.get_final_completion().choices[0]
    assert ("refusal.done" in kinds) == bool(choice.message.refusal)
    return told(choice.message.content, choice.message.refusal, choice.finish_reason)


def parsed_choice(choice: Any) -> str:
    """Return what a choice of structured output says."""
    parsed = isinstance(choice.message.parsed, City)
    return f"parsed {choice.finish_reason}" if parsed else told("", choice.message.refusal, choice.finish_reason)


def chat_helper_parsed(client: Any, model: str) -> str:
    with client.chat.completions.stream(**asked(HARM, model=model), response_format=City) as stream:
        list(stream)
        choice = stream.get_final_completion().choices[0]
    return parsed_choice(choice)


def chat_parse(client: Any, model: str) -> str:
    choice = client.chat.completions.parse(**asked(HARM, model=model), response_format=City).choices[0]
    return parsed_choice(choice)


async def chat_async(running: RunningSimulator, model: str) -> str:
    async with openai.AsyncOpenAI(base_url=running.openai_url, api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(**asked(HARM, model=model), stream=True)
        return chat_chunks([chunk async for chunk in stream])


def response_events(events: list[Any]) -> str:
    """Return what the events of a response say."""
    last = events[-1].response
    parts = [part.type for item in last.output for part in item.content]
    deltas = {event.type for event in events if event.type.endswith(".delta")}
    end = last.incomplete_details.reason if last.incomplete_details else last.status
    return told("response.output_text.delta" in deltas, parts == ["refusal"], end)


def responses_create(client: Any, model: str) -> str:
    return response_events(list(client.responses.create(model=model, input=HARM, stream=True)))


def responses_helper(client: Any, model: str) -> str:
    with client.responses.stream(model=model, input=HARM) as stream:
        return response_events(list(stream))


def responses_helper_parsed(client: Any, model: str) -> str:
    with client.responses.stream(model=model, input=HARM, text_format=City) as stream:
        last = list(stream)[-1].response
    return "parsed stop" if last.output_parsed else response_parts(last)


def responses_parse(client: Any, model: str) -> str:
    done = client.responses.parse(model=model, input=HARM, text_format=City)
    return "parsed stop" if done.output_parsed else response_parts(done)


def response_parts(response: Any) -> str:
    return "refusal stop" if response.output[0].content[0].type == "refusal" else "nothing"


def claude_create(client: Any, model: str) -> str:
    events = list(client.messages.create(**asked(HARM, model=model), max_tokens=500, stream=True))
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    return told(text, "", next(event.delta.stop_reason for event in events if event.type == "message_delta"))


def claude_helper(client: Any, model: str) -> str:
    with client.messages.stream(**asked(HARM, model=model), max_tokens=500) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert (final.stop_details is not None) == (final.stop_reason == "refusal")
    return told(text, "", final.stop_reason)


async def claude_async(running: RunningSimulator, model: str) -> str:
    async with (
        anthropic.AsyncAnthropic(base_url=running.url, api_key="none", max_retries=0) as client,
        client.messages.stream(**asked(HARM, model=model), max_tokens=500) as stream,
    ):
        text = "".join([piece async for piece in stream.text_stream])
        return told(text, "", (await stream.get_final_message()).stop_reason)


def gemini_pieces(pieces: list[Any]) -> str:
    """Return what the pieces of Gemini's stream say."""
    if pieces[0].prompt_feedback:
        return f"blocked {pieces[0].prompt_feedback.block_reason.value}"
    return told("".join(piece.text or "" for piece in pieces), "", pieces[-1].candidates[0].finish_reason.value)


def gemini_create(client: Any, model: str) -> str:
    return gemini_pieces(list(client.models.generate_content_stream(model=model, contents=HARM)))


async def gemini_async(running: RunningSimulator, model: str) -> str:
    client = gemini_client(running).aio
    try:
        stream = await client.models.generate_content_stream(model=model, contents=HARM)
        return gemini_pieces([piece async for piece in stream])
    finally:
        await client.aclose()


def bedrock_create(client: Any, model: str) -> str:
    turn = [{"role": "user", "content": [{"text": HARM}]}]
    events = list(client.converse_stream(modelId=model, messages=turn)["stream"])
    named = {name: value for event in events for name, value in event.items()}
    text = "".join(event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event)
    assert named["metadata"]["usage"]["totalTokens"] >= 0
    return told(text, "", named["messageStop"]["stopReason"])


def closing(make: Callable[[RunningSimulator], Any], form: Callable[[Any, str], str]) -> Callable[..., str]:
    """Return the form with a client of its own, closed afterwards."""

    def seen(running: RunningSimulator, model: str) -> str:
        client = make(running)
        try:
            return form(client, model)
        finally:
            client.close()

    return seen


def awaiting(form: Callable[..., Any]) -> Callable[..., str]:
    """Return the form of an asynchronous client as a plain function."""
    return lambda running, model: str(asyncio.run(form(running, model)))


openai_form, azure_form = partial(closing, openai_client), partial(closing, azure_client)
HELPED, HELPED_AZURE = [*TALK, "filtered", *CHAT[6:]], [*TALK, "filtered", *AZURE[6:]]
PARSING = [*PARSED, "filtered", *CHAT[6:]]
PARSING_AZURE = [*PARSED, "filtered", *AZURE[6:]]
# The client parses what it has got of a response, even where a filter cut it off or there is nothing.
PARSING_RESPONSES = [*PARSED, "no schema", *CHAT[6:8], "no schema"]
ENDED = "nothing completed"
ANSWERED, ANSWERED_AZURE = [*RESPONSES, *CHAT[6:8], ENDED], [*RESPONSES, *AZURE[6:8], ENDED]
CLAUDE_ALL = [*CLAUDE, "nothing refusal", "nothing refusal", "nothing end_turn"]
GEMINI_ALL = [*GEMINI, "blocked SAFETY", "blocked SAFETY", "nothing STOP"]
NOVA_ALL = [*NOVA, GUARDRAIL, GUARDRAIL, "nothing end_turn"]
FORMS: dict[str, tuple[Callable[..., str], list[str]]] = {
    "openai chat": (openai_form(chat_create), CHAT),
    "openai chat, tokens counted": (openai_form(chat_counted), CHAT),
    "openai chat, async": (awaiting(chat_async), CHAT),
    "openai chat, helper": (openai_form(chat_helper), HELPED),
    "openai chat, helper with a schema": (openai_form(chat_helper_parsed), PARSING),
    "openai chat, parsed": (openai_form(chat_parse), PARSING),
    "azure chat": (azure_form(chat_create), AZURE),
    "azure chat, tokens counted": (azure_form(chat_counted), AZURE),
    "azure chat, helper": (azure_form(chat_helper), HELPED_AZURE),
    "azure chat, helper with a schema": (azure_form(chat_helper_parsed), PARSING_AZURE),
    "azure chat, parsed": (azure_form(chat_parse), PARSING_AZURE),
    "openai responses": (openai_form(responses_create), ANSWERED),
    "openai responses, helper": (openai_form(responses_helper), ANSWERED),
    "azure responses": (azure_form(responses_create), ANSWERED_AZURE),
    "azure responses, helper": (azure_form(responses_helper), ANSWERED_AZURE),
    "openai responses, helper with a schema": (openai_form(responses_helper_parsed), PARSING_RESPONSES),
    "openai responses, parsed": (openai_form(responses_parse), PARSING_RESPONSES),
    "anthropic": (closing(anthropic_client, claude_create), CLAUDE_ALL),
    "anthropic, helper": (closing(anthropic_client, claude_helper), CLAUDE_ALL),
    "anthropic, async": (awaiting(claude_async), CLAUDE_ALL),
    "gemini": (closing(gemini_client, gemini_create), GEMINI_ALL),
    "gemini, async": (awaiting(gemini_async), GEMINI_ALL),
    "bedrock": (closing(bedrock_client, bedrock_create), NOVA_ALL),
}


def seen(form: Callable[..., str], running: RunningSimulator, scenario: str) -> str:
    """Return what a client sees, errors that it raises included."""
    try:
        return form(running, scenario)
    except openai.BadRequestError as exc:
        return f"400 {exc.code}"
    except openai.ContentFilterFinishReasonError:
        return "filtered"
    except ValueError:
        return "no schema"


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("name", FORMS)
def test_each_client_sees_each_refusal_as_its_provider_sends_it(running: RunningSimulator, name: str) -> None:
    """Text, refusal, filter, block and silence arrive by every streaming form in the provider's own way."""
    form, expected = FORMS[name]
    found = {scenario: seen(form, running, scenario) for scenario in SCENARIOS}
    assert found == dict(zip(SCENARIOS, expected, strict=True))
