"""The small endpoints: models, moderations, counts of tokens.

A moderation is the verdict of the prompt detector under OpenAI's names.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from demur.model.exchange import Shape
from demur.simulate.reply import count_tokens
from demur.simulate.scenario import builtin_scenarios

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.detect.interface import PromptJudge
    from demur.wire.fields import JsonObject

__all__ = ["model_body", "models_body", "moderation_body", "tokens_body"]

_CREATED_S = 1_750_000_000
_CREATED = "2025-06-15T15:06:40Z"
_MODERATED = {
    "harassment": ("harassment", "privacy"),
    "harassment/threatening": (),
    "hate": ("hate",),
    "hate/threatening": (),
    "illicit": ("illegal", "fraud", "cyber", "drugs", "weapons"),
    "illicit/violent": ("weapons",),
    "self-harm": ("self_harm",),
    "self-harm/instructions": (),
    "self-harm/intent": (),
    "sexual": ("sexual",),
    "sexual/minors": ("sexual_minors",),
    "violence": ("violence",),
    "violence/graphic": (),
}


def models_body(known: tuple[str, ...], shape: Shape) -> JsonObject:
    """Return the list of models."""
    # Where any model is accepted the scenarios are listed, since their names are models too.
    listed = [model_body(name, shape) for name in known or ("demur-simulator", *builtin_scenarios())]
    if shape is Shape.GEMINI:
        return {"models": listed}
    if shape is Shape.ANTHROPIC:
        return {"data": listed, "has_more": False, "first_id": listed[0]["id"], "last_id": listed[-1]["id"]}
    return {"object": "list", "data": listed}


def model_body(name: str, shape: Shape) -> JsonObject:
    """Return what is said of one model."""
    if shape is Shape.GEMINI:
        methods = ["generateContent", "countTokens"]
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
    if shape is Shape.ANTHROPIC:
        return {"type": "model", "id": name, "display_name": name, "created_at": _CREATED}
    return {"id": name, "object": "model", "created": _CREATED_S, "owned_by": "demur"}


def moderation_body(given: object, model: object, *, judge: PromptJudge) -> JsonObject | None:
    """Return the verdicts on a text, a list of texts, or the parts of one message; None where it is none of these."""
    texts = list(_moderated_texts(given))
    if not texts or None in texts:
        return None
    results = [_result(text, judge) for text in texts if text is not None]
    key = blake2b("\0".join(text or "" for text in texts).encode("utf-8", "replace"), digest_size=12).hexdigest()
    name = model if isinstance(model, str) else "omni-moderation-latest"
    return {"id": f"modr-{key}", "model": name, "results": results}


def tokens_body(text: str, shape: Shape) -> JsonObject:
    """Return about how many tokens a request has."""
    return {"totalTokens" if shape is Shape.GEMINI else "input_tokens": count_tokens(text)}


def _moderated_texts(given: object) -> Iterator[str | None]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, list) and given and all(isinstance(item, dict) for item in given):
        parts = [item.get("text") for item in given if item.get("type") == "text"]
        yield "\n".join(part for part in parts if isinstance(part, str))
    elif isinstance(given, list):
        yield from (item if isinstance(item, str) else None for item in given)


def _result(text: str, judge: PromptJudge) -> JsonObject:
    verdict = judge.judge(text)
    flags = {name: not set(verdict.harm).isdisjoint(kinds) for name, kinds in _MODERATED.items()}
    scores = {name: round(verdict.harm_score, 6) if flag else 0.0 for name, flag in flags.items()}
    applied = {name: ["text"] if flag else [] for name, flag in flags.items()}
    return {
        "flagged": bool(verdict.harm),
        "categories": flags,
        "category_scores": scores,
        "category_applied_input_types": applied,
    }
