"""Blocks that are known by an error alone, in every reader of errors."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples as logged
from tests.formats import examples_tools as made
from tests.formats.example import read_one

from demur.detect.check import check, classify
from demur.wire.blocks import is_block

SENTENCES = {
    "azure": "Error code: 400 - The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "openai": "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
    "openai_images": "Your request was rejected as a result of our safety system.",
    "anthropic": "Output blocked by content filtering policy",
    "bedrock": "ValidationException: This request has been blocked by our content filters.",
    "deepseek": "Error code: 400 - {'error': {'message': 'Content Exists Risk', 'type': 'invalid_request_error'}}",
    "escaped": 'failed: {\\"error\\": {\\"code\\": \\"content_filter\\"}}',
}
FAILURES = ("Error code: 429 - slow down", "the model's policy file was not found", "connection reset", "")


def _rows(message: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return a failed call with this message in the form of each tool."""
    failed = {"status": "failure", "error_information": {"error_class": "BadRequestError", "error_message": message}}
    return {
        "flat": ("flat", {"prompt": "Why?", "response": None, "error": message}),
        "flat_object": ("flat", {"prompt": "Why?", "response": None, "error": {"message": message}}),
        "openai": ("openai-chat", {"error": {"message": message, "type": "invalid_request_error"}}),
        "inspect": ("inspect", made.inspect_sample(output=made.NO_OUTPUT, error={"message": message})),
        "inspect_marked": (
            "inspect",
            made.inspect_sample([{"type": "text", "text": message, "refusal": True}], stop="content_filter"),
        ),
        "otel": ("otel", made.traced(made.UNANSWERED, message)),
        "openinference": ("openinference", made.traced(made.phoenix(), message)),
        "vercel": ("vercel", made.traced(made.ai_sdk(), message)),
        "litellm": ("litellm", logged.litellm({}, **failed)[0]),
        "langfuse": ("langfuse", made.observation(output=None, level="ERROR", statusMessage=message)),
        "langsmith": ("langsmith", made.langsmith_run(None, error=message)),
    }


@pytest.mark.parametrize("provider", SENTENCES)
def test_a_sentence_is_enough(provider: str) -> None:
    """A filter's block is `filtered` where only the provider's sentence is left of it, whoever kept it."""
    for tool, (name, record) in _rows(SENTENCES[provider]).items():
        assert classify(read_one(name, record).exchange.response).outcome == "filtered", tool


def test_anthropics_own_error_is_read_alike() -> None:
    """Anthropic's body has no code for a filter on the output, only its sentence."""
    error = {"type": "invalid_request_error", "message": SENTENCES["anthropic"]}
    assert check({"type": "error", "error": error}).outcome == "filtered"
    assert check({"type": "error", "error": {**error, "message": "max_tokens: too large"}}).outcome == "failed"


@pytest.mark.parametrize("error", FAILURES, ids=["limit", "policy_file", "network", "nothing"])
def test_other_errors_are_failures(error: str) -> None:
    """An error that tells of no filter is no block."""
    assert not is_block(error)
    assert not is_block({"message": error, "code": None})


@pytest.mark.parametrize("code", ["content_filter", "FinishReason.SAFETY", "invalid_prompt", "PROHIBITED_CONTENT"])
def test_a_code_is_enough(code: str) -> None:
    """A policy's code is a block by itself, bare or in an error's object."""
    assert is_block(code)
    assert is_block({"code": code, "message": "no"})
    assert is_block({"error_code": code})
