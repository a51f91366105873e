"""What each provider sends when it answers, refuses, filters or blocks.

A reply says what its way says, in the provider's own fields; a provider without a refusal field filters instead. Ids and times come
from the draw, and tokens are estimated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

import msgspec

from demur.model.exchange import (
    Choice,
    Finish,
    ProviderError,
    RefusalPart,
    Response,
    Shape,
    Signal,
    SignalKind,
    TextPart,
    Usage,
)
from demur.model.verdict import Outcome
from demur.simulate.phrasebook import LANGUAGES, STYLES, answer_text, partial_text, refusal_message, refusal_text
from demur.simulate.scenario import ANY, Way

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.model.exchange import Part
    from demur.simulate.phrasebook import Dice

__all__ = [
    "TOKENS_PER_MESSAGE",
    "Asked",
    "Plan",
    "build_reply",
    "count_tokens",
    "first_tokens",
    "instance_of",
    "is_free",
    "outcome_of",
    "worded",
]

# Times come from the draw, not from a clock: the same request must give the same bytes.
_EPOCH_S = 1_750_000_000
_SPAN_S = 10_000_000
_CUT_CHARS = 60  # how much of an answer gets out before a filter cuts it off
_BAD_REQUEST = 400
_ID_CHARS = 24
_IDS = {
    Shape.OPENAI_CHAT: "chatcmpl-",
    Shape.AZURE: "chatcmpl-",
    Shape.OPENAI_RESPONSES: "resp_",
    Shape.ANTHROPIC: "msg_",
    Shape.GEMINI: "",
    Shape.BEDROCK: "",
}
_OUTCOMES = {
    Way.ANSWER: Outcome.COMPLIED,
    Way.REFUSAL: Outcome.REFUSED,
    Way.TEXT: Outcome.REFUSED,
    Way.PARTIAL: Outcome.PARTIAL,
    Way.FILTER: Outcome.FILTERED,
    Way.BLOCK: Outcome.FILTERED,
    Way.EMPTY: Outcome.EMPTY,
}
_CHAT = (Shape.OPENAI_CHAT, Shape.AZURE)
_FIELD_SHAPES = (*_CHAT, Shape.OPENAI_RESPONSES)
# Each provider has categories of its own, and a topic falls under the nearest of them.
_AZURE_HARMS = {
    "violence": "violence",
    "illegal": "violence",
    "self_harm": "self_harm",
    "sexual_minors": "sexual",
    "sexual": "sexual",
    "hate": "hate",
    "harassment": "hate",
    "jailbreak": "jailbreak",
}
_GEMINI_HARMS = {
    "hate": "HARM_CATEGORY_HATE_SPEECH",
    "harassment": "HARM_CATEGORY_HARASSMENT",
    "sexual": "HARM_CATEGORY_SEXUALLY_EXPLICIT",
    "sexual_minors": "HARM_CATEGORY_SEXUALLY_EXPLICIT",
}
_GEMINI_BLOCKS = {"sexual_minors": "PROHIBITED_CONTENT", "jailbreak": "JAILBREAK", "benign": "OTHER"}
# `None`: a refusal without a category.
_ANTHROPIC_CATEGORIES = {"jailbreak": "reasoning_extraction", "benign": None}
_BEDROCK_FILTERS = {
    "violence": "VIOLENCE",
    "hate": "HATE",
    "harassment": "INSULTS",
    "sexual": "SEXUAL",
    "sexual_minors": "SEXUAL",
    "jailbreak": "PROMPT_ATTACK",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reply needs to know of a request."""

    shape: Shape
    model: str
    n: int = 1
    input_tokens: int = 0
    max_tokens: int | None = None
    schema: bytes | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be said: in which way, about which topic, in which words; `jailbreak` where the prompt is one, whatever its topic."""

    way: Way
    topic: str = "benign"
    style: str = "soft"
    language: str = "en"
    jailbreak: bool = False

    @property
    def message(self) -> str:
        """What a refusal field says."""
        return refusal_message(self.topic, jailbreak=self.jailbreak)


def worded(plan: Plan, dice: Dice) -> Plan:
    """Return the plan with its style and language drawn where any will do."""
    style = dice.pick("style", STYLES) if plan.style == ANY else plan.style
    language = dice.pick("language", LANGUAGES) if plan.language == ANY else plan.language
    return replace(plan, style=style, language=language)


def outcome_of(plan: Plan, shape: Shape) -> Outcome:
    """Return the truth about a reply: what a perfect detector would say of it."""
    # Anthropic has one word for what others call a filter; Gemini and Bedrock have only filters.
    if shape is Shape.ANTHROPIC and plan.way in (Way.FILTER, Way.BLOCK):
        return Outcome.REFUSED
    if shape in (Shape.GEMINI, Shape.BEDROCK) and plan.way is Way.REFUSAL:
        return Outcome.FILTERED
    return _OUTCOMES[plan.way]


def is_free(plan: Plan, shape: Shape) -> bool:
    """Return whether a reply costs no tokens: a refusal by the provider's own field."""
    return plan.way is Way.REFUSAL and shape in _FIELD_SHAPES


def build_reply(plan: Plan, asked: Asked, *, dice: Dice) -> Response:
    """Return the response that the plan asks for."""
    match plan.way:
        case Way.FILTER:
            return _filtered(plan, asked, dice)
        case Way.REFUSAL if is_free(plan, asked.shape):
            parts = (RefusalPart(plan.message),)
            return _stamped(asked, dice, choices=tuple(Choice(i, parts, Finish.STOP) for i in range(asked.n)))
        case Way.REFUSAL | Way.BLOCK:
            return _blocked(plan, asked, dice)
        case Way.ANSWER:
            return _spoken(asked, dice, lambda choice: _answer(asked, dice, choice))
        case Way.TEXT | Way.PARTIAL | Way.EMPTY:
            text = "" if plan.way is Way.EMPTY else refusal_text(plan.language, plan.style)
            text = partial_text(plan.language) if plan.way is Way.PARTIAL else text
            return _spoken(asked, dice, lambda _: text)


def _answer(asked: Asked, dice: Dice, choice: int) -> str:
    return answer_text(dice, choice) if asked.schema is None else instance_of(asked.schema)


def _stamped(asked: Asked, dice: Dice, *, choices: tuple[Choice, ...], signals: tuple[Signal, ...] = ()) -> Response:
    """Return the response with its id, time and count of tokens; those of refusal fields are not counted."""
    said = sum(count_tokens(part.text) for choice in choices for part in choice.parts if isinstance(part, TextPart))
    free = any(isinstance(part, RefusalPart) for choice in choices for part in choice.parts)
    # The tokens of a refusal field are not counted.
    usage = Usage(0, 0) if free else Usage(asked.input_tokens, said)
    return Response(
        model=asked.model,
        choices=choices,
        signals=signals,
        usage=usage,
        id=_IDS[asked.shape] + dice.word("id", _ID_CHARS),
        created_s=_EPOCH_S + dice.whole("created", _SPAN_S),
        fingerprint=f"fp_{dice.word('fingerprint', 10)}" if asked.shape in _CHAT else None,
    )


def _spoken(asked: Asked, dice: Dice, say: Callable[[int], str]) -> Response:
    """Return an answer in text, cut where the request's limit of tokens is reached."""
    choices = []
    for index in range(asked.n):
        text = say(index)
        short = text if asked.max_tokens is None else first_tokens(text, asked.max_tokens)
        finish = Finish.STOP if short == text else Finish.LENGTH
        choices.append(Choice(index, (TextPart(short),), finish))
    return _stamped(asked, dice, choices=tuple(choices))


def _filtered(plan: Plan, asked: Asked, dice: Dice) -> Response:
    """Return an answer that a filter cuts off after its first words."""
    finish = Finish.REFUSAL if asked.shape is Shape.ANTHROPIC else Finish.CONTENT_FILTER
    choices, signals = [], []
    for index in range(asked.n):
        whole = _answer(asked, dice, index)
        # Of a short answer, as of JSON that was asked for, the end must be missing too.
        cut = whole[: min(_CUT_CHARS, len(whole) // 2)].rstrip()
        choices.append(Choice(index, (TextPart(cut),), finish))
        signals += _cut_signals(plan, asked.shape, index)
    return _stamped(asked, dice, choices=tuple(choices), signals=tuple(signals))


def _cut_signals(plan: Plan, shape: Shape, index: int) -> list[Signal]:
    match shape:
        case Shape.AZURE:
            category = _AZURE_HARMS.get(plan.topic, "violence")
            # Azure looks for jailbreaks in prompts only, never in what was generated.
            category = "hate" if category == "jailbreak" else category
            path = f"choices[{index}].content_filter_results.{category}"
            return [Signal(SignalKind.FILTER_FLAG, path, "medium", index, category=category, severity="medium")]
        case Shape.GEMINI:
            return [_rating(plan, f"candidates[{index}]", index)]
        case Shape.ANTHROPIC:
            return [_anthropic_refusal(plan)]
        case Shape.BEDROCK | Shape.OPENAI_CHAT | Shape.OPENAI_RESPONSES:
            return []


def _blocked(plan: Plan, asked: Asked, dice: Dice) -> Response:
    """Return what a provider sends in place of an answer."""
    match asked.shape:
        case Shape.ANTHROPIC:
            choice = Choice(0, (), Finish.REFUSAL, "refusal")
            return _stamped(asked, dice, choices=(choice,), signals=(_anthropic_refusal(plan),))
        case Shape.GEMINI if plan.way is Way.REFUSAL:
            choices = tuple(Choice(index, (), Finish.CONTENT_FILTER, "SAFETY") for index in range(asked.n))
            ratings = tuple(_rating(plan, f"candidates[{index}]", index) for index in range(asked.n))
            return _stamped(asked, dice, choices=choices, signals=ratings)
        case Shape.GEMINI:
            reason = _GEMINI_BLOCKS.get(plan.topic, "SAFETY")
            block = Signal(SignalKind.PROMPT_BLOCK, "promptFeedback.blockReason", reason)
            return _stamped(asked, dice, choices=(), signals=(block, _rating(plan, "promptFeedback", None)))
        case Shape.BEDROCK:
            said: tuple[Part, ...] = (TextPart(plan.message),)
            choice = Choice(0, said, Finish.CONTENT_FILTER, "guardrail_intervened")
            guardrail = dice.word("guardrail", 12)
            path = f"trace.guardrail.inputAssessment.{guardrail}.contentPolicy.filters[0].action"
            category = _BEDROCK_FILTERS.get(plan.topic, "MISCONDUCT")
            block = Signal(
                SignalKind.FILTER_FLAG, path, "BLOCKED", category=category, severity="HIGH", detail="contentPolicy"
            )
            return _stamped(asked, dice, choices=(choice,), signals=(block,))
        case Shape.AZURE:
            return _azure_error(plan)
        case Shape.OPENAI_CHAT | Shape.OPENAI_RESPONSES:
            message = (
                "The prompt was flagged as potentially violating the usage policy. Please change it and try again."
            )
            error = ProviderError(message, code="invalid_prompt", kind="invalid_request_error")
            return Response("", error=error, status=_BAD_REQUEST)


def _azure_error(plan: Plan) -> Response:
    category = _AZURE_HARMS.get(plan.topic, "violence")
    detected = category == "jailbreak"
    flag = Signal(
        SignalKind.FILTER_FLAG,
        f"error.innererror.content_filter_result.{category}",
        "detected" if detected else "high",
        category=category,
        severity=None if detected else "high",
    )
    message = "The content management policy filtered this prompt. Please change the prompt and try again."
    error = ProviderError(message, code="content_filter", inner_code="ResponsibleAIPolicyViolation")
    return Response("", signals=(flag,), error=error, status=_BAD_REQUEST)


def _anthropic_refusal(plan: Plan) -> Signal:
    category = _ANTHROPIC_CATEGORIES.get(plan.topic, "general_harms")
    detail = plan.message
    return Signal(SignalKind.REFUSAL_STOP, "stop_reason", "refusal", 0, category=category, detail=detail)


def _rating(plan: Plan, place: str, choice: int | None) -> Signal:
    category = _GEMINI_HARMS.get(plan.topic, "HARM_CATEGORY_DANGEROUS_CONTENT")
    path = f"{place}.safetyRatings[0].blocked"
    return Signal(SignalKind.FILTER_FLAG, path, "true", choice, category=category, severity="HIGH")


TOKENS_PER_MESSAGE = 4
"""What chat formats add around each message."""

# About four letters of an alphabet per token, one for each sign of Chinese, Japanese or Korean and for each run of others.
_PIECE = re.compile(r"[぀-ヿ㐀-鿿가-힯]|\w{1,4}|[^\w\s]{1,3}")


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    return max(1, sum(1 for _ in _PIECE.finditer(text))) if text else 0


def first_tokens(text: str, limit: int) -> str:
    """Return as much of a text as `limit` tokens hold."""
    for number, piece in enumerate(_PIECE.finditer(text)):
        if number >= limit:
            return text[: piece.start()].rstrip()
    return text


# Definitions may refer to themselves, once or many times, so depth and size are bounded.
_MAX_DEPTH = 12
_MAX_ITEMS = 12
_MAX_VALUES = 5_000
_SCALARS: dict[str, object] = {"string": "simulated", "integer": 1, "number": 1.0, "boolean": True, "null": None}


def instance_of(schema: bytes) -> str:
    """Return a JSON text of the schema; an empty object if it is none."""
    whole: object = msgspec.json.decode(schema)
    found = _Schema(whole).value(whole, _MAX_DEPTH) if _is_table(whole) else {}
    return msgspec.json.encode(found).decode()


@dataclass(slots=True)
class _Schema:
    """A schema that values are built from, and how many more are allowed."""

    whole: object
    left: int = _MAX_VALUES

    def value(self, schema: object, depth: int) -> object:
        """Return a value of a part of the schema; null beyond the bounds."""
        self.left -= 1
        if not _is_table(schema) or depth == 0 or self.left < 0:
            return None
        if "const" in schema:
            return schema["const"]
        for key in ("enum", "anyOf", "oneOf", "allOf"):
            found = schema.get(key)
            if isinstance(found, list) and found:
                return found[0] if key == "enum" else self.value(found[0], depth - 1)
        if isinstance(schema.get("$ref"), str):
            found = self.whole
            for step in str(schema["$ref"]).removeprefix("#").strip("/").split("/"):
                found = found.get(step) if step and _is_table(found) else found
            return self.value(found, depth - 1)
        return self._typed(schema, depth)

    def _typed(self, schema: dict[str, object], depth: int) -> object:
        """Return a value of the type that a schema names; what is not understood is a string."""
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if kind == "object" or "properties" in schema:
            fields = schema.get("properties")
            return {name: self.value(part, depth - 1) for name, part in fields.items()} if _is_table(fields) else {}
        if kind == "array":
            least = schema.get("minItems")
            count = min(least, _MAX_ITEMS) if isinstance(least, int) else 1
            return [self.value(schema.get("items", {}), depth - 1) for _ in range(count)]
        return _SCALARS.get(kind, "simulated") if isinstance(kind, str) else "simulated"


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)
