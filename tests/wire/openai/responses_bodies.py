"""Bodies of the Responses shape: rows of the provider table, errors and requests."""

from __future__ import annotations

from typing import Any

from tests.wire.openai.chat_bodies import NO, error

from demur.wire.fields import JsonObject

ASKED: Any = {"model": "gpt-x", "input": "hi"}


def text(words: str, **more: Any) -> JsonObject:
    """Return a text part."""
    return {"type": "output_text", "text": words, "annotations": [], **more}


def input_text(words: str) -> JsonObject:
    """Return a text part of a request."""
    return {"type": "input_text", "text": words}


def refusal(words: str = NO) -> JsonObject:
    """Return a refusal part."""
    return {"type": "refusal", "refusal": words}


def message(*content: JsonObject, **more: Any) -> JsonObject:
    """Return a message item."""
    head = {"id": "msg_abc", "type": "message", "role": "assistant", "status": "completed"}
    return {**head, "content": list(content), **more}


def reasoning(*words: str, **more: Any) -> JsonObject:
    """Return a reasoning item."""
    summary = [{"type": "summary_text", "text": w} for w in words]
    return {"id": "rs_abc", "type": "reasoning", "summary": summary, **more}


def body(*output: JsonObject, status: str = "completed", **more: Any) -> JsonObject:
    """Return a body as the API answers it."""
    head = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-x", "status": status}
    asked = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**head, "error": None, "incomplete_details": None, "output": list(output), **asked, **more}


LOOK = {"name": "look", "arguments": '{"q": "x"}'}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", **LOOK, "status": "completed"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
CITATION = {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "t", "url": "https://example.org"}
USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 8,
}
BODIES = {
    "plain": body(message(text("Hello there."))),
    "refusal": body(message(refusal())),
    "refusal after thought": body(reasoning(), message(refusal()), temperature=1.0),
    "text and refusal": body(message(text("Well."), refusal())),
    "two messages": body(message(text("Looking."), phase="commentary"), message(refusal(), id="msg_2")),
    "empty message": body(message(), message(text("Hi."))),
    "no output": body(),
    "filtered": body(message(text("Half")), status="incomplete", incomplete_details={"reason": "content_filter"}),
    "length": body(message(text("Half")), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    "thought": body(reasoning("Two and two.", encrypted_content="e"), message(text("Four.")), usage=USAGE),
    "tools": body(message(text("Let me look.")), CALL, {**CALL, "id": "fc_2", "call_id": "call_2"}),
    "search": body(SEARCH, message(text("It is so.", annotations=[CITATION]))),
    "failed": body(status="failed", error={"code": "server_error", "message": "oops"}),
    "bio": body(status="failed", error={"code": "bio_policy", "message": NO}),
    "failed in silence": body(status="failed"),
    "cancelled": body(status="cancelled"),
}
LENIENT = {
    "unknown part": body(message({"type": "hologram", "n": 1}, text("a"))),
    "unknown reason": body(message(text("Half")), status="incomplete", incomplete_details={"reason": "solar_flare"}),
}
ERRORS: dict[str, tuple[int, JsonObject]] = {
    "invalid prompt": (400, error(NO, type="invalid_request_error", param="input", code="invalid_prompt")),
    "no type": (400, error(NO, code="misalignment_policy_violation")),
    "rate limit": (429, error("slow down", type="requests", code="rate_limit_exceeded")),
}


TURNS: list[Any] = [
    {"role": "user", "content": "hi"},
    {"role": "user", "content": [input_text("see"), {"type": "input_image", "image_url": "data:,"}]},
    {"role": "developer", "content": [input_text("brief")], "type": "message"},
    message(text("Hello."), refusal(), id="msg_9"),
    {**CALL, "id": "fc_9"},
    {"type": "function_call_output", "call_id": "call_1", "output": "42"},
    {"type": "function_call_output", "call_id": "c", "output": [input_text("a"), {"type": "input_image"}]},
    {"type": "function_call_output", "call_id": "d", "output": ""},
    reasoning("Hm.", encrypted_content="e"),
    {"type": "item_reference", "id": "x"},
    {"type": "computer_call_output", "call_id": "y", "output": {"type": "screenshot"}},
    {"role": "assistant", "content": []},
    {"role": "assistant"},
    {"type": "function_call_output", "call_id": "e"},
    {"type": "function_call_output", "call_id": "f", "output": [{"type": "input_image"}]},
]
REQUESTS: dict[str, JsonObject] = {
    "plain": ASKED,
    "told": {"model": "m", "instructions": "Be kind.", "input": "hi", "stream": True, "store": False},
    "all items": {"model": "m", "instructions": "Be kind.", "input": TURNS, "tools": [{"type": "web_search"}]},
    "one image": {"model": "m", "input": [{"role": "user", "content": [{"type": "input_image"}]}]},
    "template": {"model": "m", "input": [], "instructions": [{"role": "user", "content": "x"}]},
}
