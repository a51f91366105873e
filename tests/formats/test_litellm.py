"""LiteLLM's payloads beyond the table of examples."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats import examples as made
from tests.formats.example import REFUSAL, answer_of, read_all, read_one

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.formats.registry import format_of
from demur.model.exchange import SignalKind
from demur.model.run import Skipped
from demur.model.verdict import Outcome


def native(word: str) -> dict[str, Any]:
    """Return a completion that LiteLLM says was filtered, with the provider's own word beside it."""
    choice = made.chat(finish="content_filter")["choices"][0]
    return {**made.chat(), "choices": [{**choice, "provider_specific_fields": {"native_finish_reason": word}}]}


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        *((word, Outcome.COMPLIED) for word in ("RECITATION", "LANGUAGE", "OTHER")),
        *((word, Outcome.FILTERED) for word in ("SAFETY", "PROHIBITED_CONTENT", "guardrail_intervened", "sensitive")),
        ("refusal", Outcome.REFUSED),
    ],
)
def test_the_providers_own_word_decides(word: str, outcome: Outcome) -> None:
    """LiteLLM's `content_filter` is taken apart again where it kept what the provider said."""
    response = answer_of("litellm", *made.litellm(native(word)))
    assert classify(response).outcome is outcome
    assert response.choices[0].finish_raw == word


def test_a_native_word_for_an_ordinary_end_changes_nothing() -> None:
    """A native word beside `stop` is no signal."""
    body = native("STOP")
    body["choices"][0]["finish_reason"] = "stop"
    assert answer_of("litellm", *made.litellm(body)).signals == ()


@pytest.mark.parametrize(
    ("status", "fields", "outcome"),
    [
        ("guardrail_intervened", {"status": "failure", "error_information": made.TIMEOUT}, Outcome.FILTERED),
        ("guardrail_failed_to_respond", {"status": "failure", "error_information": made.TIMEOUT}, Outcome.FAILED),
        ("guardrail_intervened", {}, Outcome.COMPLIED),
        ("guardrail_flagged", {}, Outcome.COMPLIED),
    ],
)
def test_a_guardrail_blocks_only_where_the_call_failed(status: str, fields: dict[str, Any], outcome: Outcome) -> None:
    """A guardrail that masked or noted something in a call that went through did not block it."""
    saw = [{"guardrail_name": "pii", "guardrail_status": status}]
    row = made.litellm(made.chat(), **{"guardrail_information": saw, **fields})
    assert classify(read_one("litellm", *row).exchange.response).outcome is outcome


def test_a_flag_is_evidence() -> None:
    """What a guardrail saw in an answer is kept as a signal that did not block."""
    saw = [{"guardrail_name": "pii", "guardrail_status": "guardrail_flagged"}]
    response = answer_of("litellm", *made.litellm(made.chat(), guardrail_information=saw))
    assert [(s.kind, s.category, s.blocked) for s in response.signals] == [(SignalKind.FILTER_FLAG, "pii", False)]


def test_a_response_may_be_bare_text() -> None:
    """A response that was logged as text is the answer."""
    assert classify(read_one("litellm", *made.litellm(REFUSAL)).exchange.response).outcome is Outcome.REFUSED


def test_a_session_falls_back_to_the_trace() -> None:
    """An empty session is none; retries of one request share a trace."""
    assert read_one("litellm", *made.litellm(made.chat(), session_id="")).exchange.session == "t-1"


def test_the_callers_metadata_are_fields() -> None:
    """What the caller of a proxy sent along can cut a run."""
    told = {"requester_metadata": {"category": "c", "custom_id": "q"}}
    fields = dict(read_one("litellm", *made.litellm(made.chat(), metadata=told)).fields)
    assert (fields["model"], fields["category"], fields["day"]) == ("gpt-4o-mini", "c", "2023-11-14")


def test_what_has_no_answer_to_judge_is_skipped() -> None:
    """Embeddings are no exchanges."""
    row = made.litellm({"object": "list", "data": []}, call_type="aembedding")
    assert read_all("litellm", row) == [Skipped("a call without a text answer")]


@pytest.mark.parametrize(
    "response", [{}, None, "redacted-by-litellm", made.chat("redacted-by-litellm")], ids=["{}", "null", "text", "chat"]
)
def test_an_answer_that_was_not_stored_is_unread(response: Any) -> None:
    """A call that went through and whose text LiteLLM was told not to keep is unread, never an answer."""
    verdict = classify(read_one("litellm", *made.litellm(response)).exchange.response)
    assert (verdict.outcome, verdict.cause) == (Outcome.UNREAD, "not_stored")


def test_a_refusal_beside_the_message_is_the_providers() -> None:
    """LiteLLM moves OpenAI's refusal out of the message (1.106.2), and it is read from where it went."""
    body = made.chat("")
    body["choices"][0]["message"] = {"content": None, "provider_specific_fields": {"refusal": REFUSAL}}
    response = answer_of("litellm", *made.litellm(body))
    assert classify(response).outcome is Outcome.REFUSED
    assert [signal.path for signal in response.signals] == ["choices[0].message.provider_specific_fields.refusal"]


@pytest.mark.parametrize(
    ("about", "outcome"),
    [
        ({"error_code": "content_filter", "error_class": "BadRequestError", "error_message": "no"}, Outcome.FILTERED),
        ({"error_code": "400", "error_class": "BadRequestError", "error_message": "bad tool"}, Outcome.FAILED),
    ],
    ids=["content_filter", "other"],
)
def test_the_code_of_an_error_decides(about: dict[str, str], outcome: Outcome) -> None:
    """A 400 with a filter's code is a block, whatever class LiteLLM raised it as."""
    row = made.litellm({}, status="failure", error_information=about)
    assert classify(read_one("litellm", *row).exchange.response).outcome is outcome


SPEND = {
    "request_id": "chatcmpl-1",
    "session_id": "chat-1",
    "call_type": "acompletion",
    "startTime": "2026-08-01 09:20:46.847371",
    "model": "gpt-4o-mini",
    "metadata": '{"status": "success", "spend_logs_metadata": {"category": "c", "custom_id": "q"}}',
    "spend": 0.000225,
    "messages": "{}",
    "response": "{}",
    "proxy_server_request": "{}",
    "status": "success",
}


def test_spend_logs_are_read_as_far_as_they_say() -> None:
    """A row of the proxy's table (1.106.2) is unread without its texts, and judged where the proxy stored them."""
    bare = read_one("litellm", SPEND)
    assert format_of(SPEND) is not None
    assert classify(bare.exchange.response).cause == "not_stored"
    assert (bare.exchange.id, bare.exchange.session, dict(bare.fields)["category"]) == ("q", "chat-1", "c")
    asked = [{"role": "user", "content": "Why?"}]
    kept = {"messages": json.dumps(asked), "response": json.dumps(made.chat(REFUSAL))}
    full = read_one("litellm", {**SPEND, **kept}).exchange
    assert classify(full.response).outcome is Outcome.REFUSED
    assert full.request is not None
    assert full.request.prompt == "Why?"
    failed = {"status": "failure", "error_information": {"error_code": "content_filter"}}
    blocked = read_one("litellm", {**SPEND, "metadata": json.dumps(failed)}).exchange
    assert classify(blocked.response).outcome is Outcome.FILTERED


@pytest.mark.parametrize("response", [["x"], {"x": 1}], ids=["list", "object"])
def test_an_unknown_response_is_an_error(response: Any) -> None:
    """A response of no known shape is named."""
    with pytest.raises(ShapeError, match="`response`: expected a provider's response"):
        read_all("litellm", made.litellm(response))
