"""LiteLLM's payloads beyond the table of examples."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples as made
from tests.formats.example import REFUSAL, answer_of, read_all, read_one

from demur.detect.check import classify
from demur.errors import ShapeError
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


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (made.litellm({"object": "list", "data": []}, call_type="aembedding"), "a call without a text answer"),
        (made.litellm(made.chat("redacted-by-litellm")), "an answer that the logger redacted"),
    ],
)
def test_what_has_no_answer_to_judge_is_skipped(row: Any, why: str) -> None:
    """Embeddings and redacted answers are no exchanges."""
    assert read_all("litellm", row) == [Skipped(why)]


@pytest.mark.parametrize("response", [["x"], {"x": 1}])
def test_an_unknown_response_is_an_error(response: Any) -> None:
    """A response of no known shape is named."""
    with pytest.raises(ShapeError, match="`response`: expected a provider's response"):
        read_all("litellm", made.litellm(response))
