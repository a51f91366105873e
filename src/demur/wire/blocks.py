"""How a provider says that a filter stopped a call where all that is left of it is an error: its codes and its sentences.

Every reader of errors asks here, since SDKs and gateways keep the code, or only the sentence, of what the provider answered.
"""

from __future__ import annotations

import re

import msgspec

from demur.model.exchange import Finish

__all__ = ["FILTER_WORDS", "MAX_ERROR_CHARS", "POLICY_CODES", "error_text", "finish_of_word", "is_block", "says_block"]

FILTER_WORDS = frozenset(
    {
        "content_filter",
        "content-filter",
        "content_filtered",
        "guardrail_intervened",
        "safety",
        "prohibited_content",
        "blocklist",
        "spii",
        "image_safety",
        "image_prohibited_content",
        "jailbreak",
        "model_armor",
        "error_toxic",
        "content_blocked",
        "blocked",
        "guardrail",
        "guardrails",
        "moderation",
        "filtered",
        "sensitive",
    }
)
"""What providers call a stop by a filter, in lower case, where a row does not say whose word it is."""
POLICY_CODES = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "image_content_policy_violation",
        "invalid_prompt",
        "misalignment_policy_violation",
        "moderation_blocked",
        "ResponsibleAIPolicyViolation",
    }
)
"""The codes by which OpenAI and Azure refuse a prompt."""
_REFUSAL_WORDS = frozenset({"refusal", "refused"})
MAX_ERROR_CHARS = 4000
_CODE_FIELDS = ("code", "type", "reason", "error_code")
_CODES = "|".join(sorted(POLICY_CODES))
# SDKs print the provider's body as JSON or as a Python dict, and loggers escape its quotes once more.
_SAID = re.compile(
    r"ResponsibleAIPolicyViolation|content_policy_violation|ContentPolicyViolationError"
    rf"|\\*[\"']code\\*[\"']:\s*\\*[\"'](?:{_CODES})\\*[\"']"
    # Azure OpenAI; OpenAI's reasoning models; OpenAI's images
    r"|content management policy"
    r"|your prompt was flagged"
    r"|rejected as a result of our safety system"
    # Anthropic; Bedrock; DeepSeek
    r"|output blocked by content filtering policy"
    r"|request has been blocked by our content filters"
    r"|content exists risk",
    re.IGNORECASE,
)


def finish_of_word(stop: str) -> Finish:
    """Return what a stop word means that is not one of its own provider's: another's filter or refusal, or unknown."""
    # `FinishReason.SAFETY` is how an SDK's enum prints.
    word = stop.strip().lower().rpartition(".")[2].replace("-", "_").replace(" ", "_")
    if word in FILTER_WORDS:
        return Finish.CONTENT_FILTER
    return Finish.REFUSAL if word in _REFUSAL_WORDS else Finish.UNKNOWN


def is_block(error: object) -> bool:
    """Return whether an error, as text or as an object with codes, is a filter's block and no failure."""
    codes = [error] if isinstance(error, str) else []
    if isinstance(error, dict):
        codes = [error[name] for name in _CODE_FIELDS if isinstance(error.get(name), str)]
    return any(_is_code(code) for code in codes) or says_block(error_text(error))


def says_block(text: str) -> bool:
    """Return whether the text of an error carries a policy's code, or a sentence by which a provider tells of a block."""
    return _SAID.search(text) is not None


def error_text(error: object) -> str:
    """Return an error as text, no longer than anybody reads."""
    return (error if isinstance(error, str) else msgspec.json.encode(error).decode())[:MAX_ERROR_CHARS]


def _is_code(word: str) -> bool:
    # `FinishReason.SAFETY` is how an SDK's enum prints.
    word = word.strip()
    return word in POLICY_CODES or word.lower().rpartition(".")[2] in FILTER_WORDS
