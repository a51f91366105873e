"""One table of examples: batch files, providers' own logs, LiteLLM, Shadow's log, conversations, rows of columns."""

from __future__ import annotations

from typing import Any

from tests.formats.example import ANSWER, QUESTION, REFUSAL, Example

from demur.model.verdict import Outcome
from demur.wire.agentlog import record_id

ASKED = [{"role": "user", "content": QUESTION}]
SPOKEN = {"type": "output_text", "text": ANSWER, "annotations": []}


def chat(text: str | None = ANSWER, *, finish: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    """Return a chat completion."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choices = [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}]
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "gpt-4o-mini"}
    return {**body, "choices": choices, "usage": {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}}


def responses(part: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """Return a response of the Responses API."""
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    body = {"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "model": "gpt-4o", "status": "completed"}
    return {**body, "output": [item], "error": None, "incomplete_details": None, **extra}


def claude(text: str = ANSWER, *, stop: str = "end_turn") -> dict[str, Any]:
    """Return an Anthropic message."""
    body = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_sequence": None}
    content = [{"type": "text", "text": text}] if text else []
    return {**body, "content": content, "stop_reason": stop, "usage": {"input_tokens": 5, "output_tokens": 9}}


def gemini(text: str = ANSWER, *, finish: str = "STOP") -> dict[str, Any]:
    """Return a generateContent response."""
    parts = [{"text": text}] if text else []
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}
    return {"candidates": [candidate], "modelVersion": "gemini-2.5-flash", "responseId": "r1"}


def converse(text: str = ANSWER, *, stop: str = "end_turn") -> dict[str, Any]:
    """Return a Converse response."""
    usage = {"inputTokens": 5, "outputTokens": 9, "totalTokens": 14}
    message = {"role": "assistant", "content": [{"text": text}]}
    return {"output": {"message": message}, "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 7}}


AZURE_BLOCK = {
    "error": {
        "message": "The response was filtered",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True, "severity": "high"}},
        },
    }
}
SAFE = {"hate": {"filtered": False, "severity": "safe"}}


def azure(body: dict[str, Any]) -> dict[str, Any]:
    """Return a chat completion with Azure's annotations."""
    choices = [{**choice, "content_filter_results": SAFE} for choice in body["choices"]]
    return {**body, "choices": choices, "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": SAFE}]}


def openai_row(body: dict[str, Any] | None, *, status: int = 200, error: Any = None) -> tuple[dict[str, Any]]:
    """Return one row of OpenAI's batch output."""
    answer = None if body is None else {"status_code": status, "request_id": "req_1", "body": body}
    return ({"id": "batch_req_1", "custom_id": "q-1", "response": answer, "error": error},)


def claude_row(**result: Any) -> tuple[dict[str, Any]]:
    """Return one row of Anthropic's batch results."""
    return ({"custom_id": "q-1", "result": result},)


def litellm(response: Any = None, **fields: Any) -> tuple[dict[str, Any]]:
    """Return a standard logging payload."""
    own = {"id": "chatcmpl-1", "litellm_call_id": "6a4f", "call_type": "acompletion", "status": "success"}
    about = {"metadata": {"requester_metadata": {"custom_id": "q-1"}, "user_api_key_hash": None}, "trace_id": "t-1"}
    told = {"model": "gpt-4o-mini", "startTime": 1_700_000_000.5, "messages": ASKED, "session_id": "s-1"}
    return ({**own, **about, **told, "response": response, "guardrail_information": None, **fields},)


def agentlog(answer: dict[str, Any], kind: str = "chat_response") -> tuple[dict[str, Any], ...]:
    """Return a log of Shadow's: its metadata, a request, and what came of it."""
    payloads = (
        ("metadata", {"sdk": {"name": "shadow", "version": "2.5.0"}}),
        ("chat_request", {"model": "m", "messages": ASKED, "params": {"temperature": 0.5}}),
        (kind, answer),
    )
    records: list[dict[str, Any]] = []
    for of, payload in payloads:
        envelope = {"version": "0.1", "id": record_id(payload), "kind": of, "ts": "2026-04-28T10:00:00.000Z"}
        parent = records[-1]["id"] if records else None
        records.append({**envelope, "parent": parent, "meta": {"session_tag": "s-1"}, "payload": payload})
    return tuple(records)


def payload(*parts: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    """Return the payload of a chat response."""
    return {"model": "m", "content": list(parts), "stop_reason": stop, "latency_ms": 7, "usage": {"output_tokens": 3}}


def text_part(text: str = ANSWER) -> dict[str, Any]:
    """Return a text part."""
    return {"type": "text", "text": text}


LOGGED = {"messages": ASKED, "session_id": "s-1"}
NATIVE = {"provider_specific_fields": {"native_finish_reason": "RECITATION"}}
RECITATION = {**chat(finish="content_filter"), "choices": [{**chat(finish="content_filter")["choices"][0], **NATIVE}]}
CLAUDE_ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
POLICY = {"error_class": "ContentPolicyViolationError", "error_code": "400", "error_message": "blocked"}
TIMEOUT = {"error_class": "Timeout", "error_code": "408", "error_message": "too slow"}
COMPLIED, REFUSED, FILTERED, FAILED = Outcome.COMPLIED, Outcome.REFUSED, Outcome.FILTERED, Outcome.FAILED

RATE_LIMIT = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}
EXPIRED = {"code": "batch_expired", "message": "This request could not be executed"}
FILTER_STOP = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
SERVER_ERROR = {**responses(SPOKEN), "output": [], "status": "failed", "error": {"code": "server_error"}}
REFUSAL_PART = {"type": "refusal", "refusal": REFUSAL}


def of_batch(name: str, what: str, records: tuple[dict[str, Any], ...], outcome: Outcome) -> Example:
    """Return an example of a batch file, which has the caller's id and no prompt."""
    return Example(name, what, records, outcome, "q-1", prompt=None)


BATCHES = (
    of_batch("openai-batch", "answer", openai_row(chat()), COMPLIED),
    of_batch("openai-batch", "refusal text", openai_row(chat(REFUSAL)), REFUSED),
    of_batch("openai-batch", "refusal field", openai_row(chat(None, refusal=REFUSAL)), REFUSED),
    of_batch("openai-batch", "filter", openai_row(chat("", finish="content_filter")), FILTERED),
    of_batch("openai-batch", "blocked prompt", openai_row(AZURE_BLOCK, status=400), FILTERED),
    of_batch("openai-batch", "error", openai_row(RATE_LIMIT, status=429), FAILED),
    of_batch("openai-batch", "expired", openai_row(None, error=EXPIRED), FAILED),
    of_batch("openai-batch", "a status alone", openai_row({}, status=500), FAILED),
    of_batch("openai-responses-batch", "answer", openai_row(responses(SPOKEN)), COMPLIED),
    of_batch("openai-responses-batch", "refusal", openai_row(responses(REFUSAL_PART)), REFUSED),
    of_batch("openai-responses-batch", "filter", openai_row(responses(SPOKEN, **FILTER_STOP)), FILTERED),
    of_batch("openai-responses-batch", "error", openai_row(SERVER_ERROR), FAILED),
    of_batch("anthropic-batch", "answer", claude_row(type="succeeded", message=claude()), COMPLIED),
    of_batch("anthropic-batch", "refusal", claude_row(type="succeeded", message=claude("", stop="refusal")), REFUSED),
    of_batch("anthropic-batch", "error", claude_row(type="errored", error=CLAUDE_ERROR), FAILED),
    of_batch("anthropic-batch", "bare error", claude_row(type="errored", error=CLAUDE_ERROR["error"]), FAILED),
    of_batch("anthropic-batch", "canceled", claude_row(type="canceled"), FAILED),
    of_batch("anthropic-batch", "expired", claude_row(type="expired"), FAILED),
)
AZURE_ERROR = {"code": "429", "message": "slow", "innererror": {"code": "X"}}
GEMINI_ASKED = [{"role": "user", "parts": [{"text": QUESTION}]}]
GEMINI_BLOCK = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
GEMINI_ERROR = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
BEDROCK_ASKED = [{"role": "user", "content": [{"text": QUESTION}]}]
BEDROCK_ERROR = {"Error": {"Code": "ThrottlingException", "Message": "slow"}}
LOGS = (
    Example("openai-chat", "answer", ({**chat(), **LOGGED},), COMPLIED, session="s-1"),
    Example("openai-chat", "bare", (chat(),), COMPLIED, prompt=None),
    Example("openai-chat", "held", ({"id": "q-1", **LOGGED, "response": chat()},), COMPLIED, "q-1", "s-1"),
    Example("openai-chat", "a response's id", ({"id": "chatcmpl-1", "request": LOGGED, "response": chat()},), COMPLIED),
    Example("openai-chat", "refusal", ({**chat(None, refusal="No."), "prompt": QUESTION},), REFUSED),
    Example("openai-chat", "filter", ({**chat("", finish="content_filter"), **LOGGED},), FILTERED, session="s-1"),
    Example(
        "openai-chat",
        "error",
        ({"id": "q-1", "messages": ASKED, "error": {"message": "slow", "type": "requests", "code": "429"}},),
        FAILED,
        # The row is the error body itself, so that its id could be the provider's.
        None,
    ),
    Example(
        "openai-chat", "Responses API", ({"custom_id": 7, "input": QUESTION, **responses(REFUSAL_PART)},), REFUSED, "7"
    ),
    Example("azure", "answer", ({**azure(chat()), **LOGGED},), COMPLIED, session="s-1"),
    Example("azure", "refusal", ({"messages": ASKED, "response": azure(chat(REFUSAL))},), REFUSED),
    Example("azure", "filter", ({**azure(chat("", finish="content_filter")), "messages": ASKED},), FILTERED),
    Example("azure", "blocked prompt", ({"id": "q-1", "messages": ASKED, "response": AZURE_BLOCK},), FILTERED, "q-1"),
    Example("azure", "error", ({"messages": ASKED, "response": {"error": AZURE_ERROR}},), FAILED),
    Example("anthropic", "answer", ({**claude(), **LOGGED},), COMPLIED, session="s-1"),
    Example("anthropic", "refusal", ({"request": LOGGED, "response": claude("", stop="refusal")},), REFUSED),
    Example("anthropic", "error", ({"messages": ASKED, "response": CLAUDE_ERROR},), FAILED),
    Example(
        "gemini",
        "answer",
        ({**gemini(), "contents": GEMINI_ASKED, "metadata": {"session": "s-1"}},),
        COMPLIED,
        session="s-1",
    ),
    Example("gemini", "refusal", ({**gemini(REFUSAL), "prompt": QUESTION},), REFUSED),
    Example("gemini", "filter", ({**gemini("", finish="SAFETY"), "prompt": QUESTION},), FILTERED),
    Example("gemini", "recitation is no filter", ({**gemini(finish="RECITATION"), "prompt": QUESTION},), COMPLIED),
    Example("gemini", "blocked prompt", ({"prompt": QUESTION, "response": GEMINI_BLOCK},), FILTERED),
    Example("gemini", "error", ({"prompt": QUESTION, "response": GEMINI_ERROR},), FAILED),
    Example("bedrock", "answer", ({**converse(), "modelId": "m", "messages": BEDROCK_ASKED},), COMPLIED),
    Example("bedrock", "refusal", ({"id": 3, "prompt": QUESTION, "response": converse(REFUSAL)},), REFUSED, "3"),
    Example("bedrock", "filter", ({"prompt": QUESTION, **converse("", stop="guardrail_intervened")},), FILTERED),
    Example("bedrock", "error", ({"prompt": QUESTION, "response": BEDROCK_ERROR},), FAILED),
)
TOOLS = (
    Example("litellm", "answer", litellm(chat()), COMPLIED, "q-1", "s-1"),
    Example("litellm", "refusal", litellm(chat(None, refusal="No.")), REFUSED, "q-1", "s-1"),
    Example("litellm", "filter", litellm(chat("", finish="content_filter")), FILTERED, "q-1", "s-1"),
    Example("litellm", "recitation is no filter", litellm(RECITATION), COMPLIED, "q-1", "s-1"),
    Example("litellm", "policy", litellm({}, status="failure", error_information=POLICY), FILTERED, "q-1", "s-1"),
    Example("litellm", "error", litellm({}, status="failure", error_information=TIMEOUT), FAILED, "q-1", "s-1"),
    Example("litellm", "an answer that was not stored", litellm({}), Outcome.UNREAD, "q-1", "s-1"),
    Example("agentlog", "answer", agentlog(payload(text_part())), COMPLIED, session="s-1"),
    Example("agentlog", "refusal text", agentlog(payload(text_part(REFUSAL))), REFUSED, session="s-1"),
    Example("agentlog", "refusal stop", agentlog(payload(stop="refusal")), REFUSED, session="s-1"),
    Example("agentlog", "refusal part", agentlog(payload(REFUSAL_PART)), REFUSED, session="s-1"),
    Example("agentlog", "filter", agentlog(payload(stop="content_filter")), FILTERED, session="s-1"),
    Example(
        "agentlog", "error", agentlog({"source": "llm", "code": "x", "message": "y"}, "error"), FAILED, None, "s-1"
    ),
    Example("agentlog", "unanswered", agentlog(payload())[:2], FAILED, session="s-1"),
)
SAID = {"role": "assistant", "content": ANSWER}
HUMAN = {"from": "human", "value": QUESTION}
BY_ROLES = [("system", "Be kind."), ("user", QUESTION), ("assistant", REFUSAL)]
ROWS = (
    Example(
        "messages",
        "answer",
        ({"id": "q-1", "conversation_id": "s-1", "messages": [*ASKED, SAID]},),
        COMPLIED,
        "q-1",
        "s-1",
    ),
    Example("messages", "refusal", ({"messages": [*ASKED, {**SAID, "content": REFUSAL}]},), REFUSED),
    Example(
        "messages", "refusal field", ({"messages": [*ASKED, {**SAID, "content": None, "refusal": REFUSAL}]},), REFUSED
    ),
    Example(
        "messages",
        "prompt and completion",
        ({"prompt": ASKED, "completion": [{**SAID, "content": [text_part()]}]},),
        COMPLIED,
    ),
    Example("messages", "no answer", ({"messages": ASKED},), FAILED),
    Example("messages", "null answer", ({"messages": [*ASKED, {**SAID, "content": None}]},), FAILED),
    Example(
        "sharegpt",
        "answer",
        ({"id": "q-1", "conversations": [HUMAN, {"from": "gpt", "value": ANSWER}]},),
        COMPLIED,
        "q-1",
        "q-1",
    ),
    Example(
        "sharegpt", "refusal", ({"conversations": [{"from": who, "value": text} for who, text in BY_ROLES]},), REFUSED
    ),
    Example("sharegpt", "no answer", ({"conversations": [HUMAN]},), FAILED),
    Example(
        "flat", "answer", ({"id": 1, "question": QUESTION, "answer": ANSWER, "session_id": 2},), COMPLIED, "1", "2"
    ),
    Example("flat", "refusal text", ({"prompt": QUESTION, "response": REFUSAL},), REFUSED),
    Example("flat", "messages as the prompt", ({"messages": ASKED, "response": ANSWER},), COMPLIED),
    Example("flat", "refusal flag", ({"prompt": QUESTION, "response": "No.", "refusal": True},), REFUSED),
    Example("flat", "is_refusal", ({"prompt": QUESTION, "response": ANSWER, "is_refusal": "True"},), REFUSED),
    Example("flat", "label", ({"prompt": QUESTION, "response": ANSWER, "label": True},), REFUSED),
    Example("flat", "a label that is a word", ({"prompt": QUESTION, "response": ANSWER, "label": "yes"},), COMPLIED),
    Example("flat", "filter", ({"prompt": QUESTION, "response": "", "finish_reason": "content_filter"},), FILTERED),
    Example("flat", "error", ({"prompt": QUESTION, "response": None, "error": "timeout"},), FAILED),
    Example("flat", "null answer", ({"prompt": QUESTION, "response": None},), FAILED),
)
EXAMPLES: tuple[Example, ...] = (*BATCHES, *LOGS, *TOOLS, *ROWS)
