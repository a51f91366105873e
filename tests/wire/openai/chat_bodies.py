"""Bodies of the chat shape: rows of the provider table, dialects, errors and requests."""

from __future__ import annotations

from typing import Any

from demur.wire.fields import JsonObject

NO = "I can't help with that."
ASKED: Any = {"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"q": "x"}'}}


def answer(index: int = 0, *, finish: str | None = "stop", **message: Any) -> JsonObject:
    """Return one choice."""
    return {"index": index, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}


def body(*choices: JsonObject, **more: Any) -> JsonObject:
    """Return a body as the API answers it."""
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-x"}
    return {**head, "choices": list(choices), **more}


def error(message: str = "no", **more: Any) -> JsonObject:
    """Return an error body."""
    return {"error": {"message": message, "type": None, "param": None, "code": None, **more}}


TOKENS = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
USAGE = {**TOKENS, "completion_tokens_details": {"reasoning_tokens": 2}}
STRICT = {
    "plain": body(answer(content="Hello there.")),
    "refusal": body(answer(refusal=NO)),
    "refusal beside text": body(answer(content="Well.", refusal=NO)),
    "filter stop": body(answer(content="Half an ans", finish="content_filter")),
    "filter stop without text": body(answer(finish="content_filter")),
    "tools": body(answer(content="Let me look.", tool_calls=[CALL, {**CALL, "id": "call_2"}], finish="tool_calls")),
    "two choices": body(answer(0, content="One."), answer(1, refusal=NO), usage=USAGE),
    "length": body(answer(content="Cut o", finish="length")),
    "extras": body(
        {**answer(content="Hi."), "logprobs": {"content": [{"token": "Hi", "logprob": -0.1, "top_logprobs": []}]}},
        usage=USAGE,
        service_tier="default",
        system_fingerprint="fp_1",
    ),
    "thoughts": body(answer(content="Four.", reasoning_content="Two and two.")),
    "no choices": body(),
}
LENIENT = {
    "custom tool": body(
        answer(tool_calls=[{"id": "c", "custom": {"input": "ls", "name": "sh"}, "type": "custom"}], finish="tool_calls")
    ),
    "unknown finish": body(answer(content="Hm.", finish="eos_token")),
    "Mistral length": body(answer(content="Hm", finish="model_length")),
    "Cohere v1 toxic": body(answer(content="Hm", finish="ERROR_TOXIC")),
    "failed": body(answer(finish="error")),
    "image in the answer": body(answer(content=[{"type": "image_url", "image_url": {"url": "data:,"}}])),
    "text, image, text": body(
        answer(content=[{"type": "text", "text": "a"}, {"type": "chart", "n": 1}, {"type": "text", "text": "b"}])
    ),
    "text with a cache mark": body(answer(content=[{"type": "text", "text": "a", "cache_control": {"type": "x"}}])),
    "audio": body(answer(audio={"id": "a", "data": "AAAA", "transcript": "Hi"})),
    "signed call": body(answer(tool_calls=[{**CALL, "extra_content": {"signature": "s"}}], finish="tool_calls")),
    "error beside choices": {**body(answer(content="Half", finish=None)), **error("broke", code="server_error")},
}
ERRORS = {
    "policy": (400, error(NO, code="content_policy_violation", type="invalid_request_error")),
    "invalid prompt": (400, error(NO, code="invalid_prompt")),
    "rate limit": (429, error("slow down", code="rate_limit_exceeded", type="requests")),
    "server": (500, error("oops", type="server_error")),
    "message only": (500, error("oops")),
    "with a head": (500, {"id": "gen-1", "model": "m", **error("oops", code=502, metadata={"provider": "x"})}),
}
BODIES = STRICT | LENIENT


TURNS: list[Any] = [
    {"role": "system", "content": "Be kind."},
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "hi", "name": "ann"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is this?", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:,"}},
            {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
            {"type": "file", "file": {"file_id": "f"}},
        ],
    },
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "42", "tool_call_id": "call_1"},
    {"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "tool_call_id": "c"},
    {"role": "tool", "content": [{"type": "image_url", "image_url": {}}], "tool_call_id": "d"},
    {"role": "assistant", "content": None, "refusal": NO, "audio": {"id": "a"}},
    {"role": "assistant", "content": "ok", "prefix": True},
    {"role": "user", "content": ""},
]
TOOLS = [{"type": "function"}]
REQUESTS: dict[str, JsonObject] = {
    "plain": ASKED,
    "all turns": {"model": "m", "messages": TURNS, "n": 2, "stream": True, "temperature": 0.5, "tools": TOOLS},
    "no model": {"messages": [{"role": "user", "content": "hi"}], "stream": False, "n": 1},
}
