"""One exchange as the axes beyond refusal see it: the text, the calls, why it ended, what it took.

Only the first choice is read, as a program does.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from demur.model.exchange import Finish, RefusalPart, ToolCallPart

if TYPE_CHECKING:
    from demur.model.exchange import Exchange

__all__ = ["DIMENSIONS", "Step", "ToolCall", "features_of", "folded", "step_of"]

_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "‛": "'", "ʼ": "'", "“": '"', "”": '"', "‐": "-", "‑": "-"})


DIMENSIONS = (
    "tool_call_rate",
    "distinct_tool_frac",
    "stop_end_turn",
    "stop_tool_use",
    "stop_other",
    "output_len_log",
    "latency_log",
    "refusal_flag",
    "text_chars_log",
    "arg_keys_total_log",
    "error_token_flag",
    "numeric_token_density",
)
# Words of trouble and apology, on word boundaries; "no errors" is none.
_TROUBLE = re.compile(
    r"\b(?:(?P<no>no|without(?: any)?|zero|free of|0) )?(?:errors?|exceptions?|failed|fails|failure|unable|cannot|can't|couldn't"
    r"|won't|sorry|apolog(?:y|ies|i[sz]e|i[sz]ing)|not found|unfortunately)\b"
)
# Every word of trouble contains one of these: most responses have none, and need no closer look.
_TROUBLE_STEMS = (
    *("error", "exception", "fail", "unable", "cannot", "can't", "couldn't"),
    *("won't", "sorry", "apolog", "not found", "unfortunately"),
)
_NUMBER = re.compile(r"[^\w]*\d[\d.,:%/-]*[^\w]*")
# What providers call a stop, for formats that keep the word alone.
_STOP_WORDS = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "complete", "eos", "eos_token"), Finish.STOP),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), Finish.LENGTH),
    **dict.fromkeys(("tool", "tool_use", "tool_call", "tool_calls", "function_call"), Finish.TOOL),
    **{str(word): word for word in (Finish.CONTENT_FILTER, Finish.REFUSAL, Finish.ERROR)},
}
_MAX_SHAPE_DEPTH = 32


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that was called: its name, the shape of its arguments (keys and kinds), and how many keys there are."""

    name: str
    shape: str
    keys: int


@dataclass(frozen=True, slots=True)
class Step:
    """One exchange of a run. `stop` is our word for why it ended, `stop_raw` the provider's."""

    key: str
    prompt: str
    text: str
    calls: tuple[ToolCall, ...]
    stop: str
    stop_raw: str
    refused: bool
    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Tokens in and out, None where the provider did not say."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


def step_of(exchange: Exchange, key: str, *, refused: bool) -> Step:
    """Return the step of an exchange; `refused` is the verdict on it."""
    response = exchange.response
    choice = response.choices[0] if response and response.choices else None
    usage = response.usage if response else None
    finish = choice.finish if choice else Finish.UNKNOWN
    if finish is None:
        # Some formats keep the provider's word alone; `FinishReason.STOP` is how an SDK's enum prints.
        word = ((choice.finish_raw if choice else None) or "").strip().lower().rpartition(".")[2]
        finish = _STOP_WORDS.get(word, Finish.UNKNOWN)
    text = choice.text if choice else ""
    if choice and not text:
        # What a reader sees: the provider's refusal takes the place of the text.
        text = "\n".join(part.text for part in choice.parts if isinstance(part, RefusalPart))
    return Step(
        key,
        exchange.request.prompt if exchange.request else "",
        text,
        tuple(_step_call(part) for part in choice.parts if isinstance(part, ToolCallPart)) if choice else (),
        str(finish),
        (choice.finish_raw if choice else None) or str(finish),
        refused,
        usage.input_tokens if usage else None,
        usage.output_tokens if usage else None,
    )


# A response is folded once for all rules and features; only the latest few are kept.
@lru_cache(maxsize=8)
def folded(text: str) -> str:
    """Return a text in one form for comparing: compatibility form, no case, straight quotes, single spaces."""
    if text.isascii():
        # Nothing but case and white space differs, and most texts are plain: a tenth of the time.
        return " ".join(text.lower().split())
    # Folding case can undo the compatibility form, so it is made once before and once after.
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).translate(_STRAIGHT).casefold())
    return " ".join(plain.split())


def features_of(step: Step, latency_ms: float | None = None) -> tuple[float, ...]:
    """Return the twelve features of a response; what is not known is NaN, and its pair does not count there."""
    words = step.text.split()
    # Most words are letters alone, and need no closer look.
    numeric = sum(1 for word in words if not word.isalpha() and _NUMBER.fullmatch(word))
    # A format without stop reasons must not look like a run that stops for other reasons.
    unknown = step.stop == step.stop_raw == str(Finish.UNKNOWN)
    plain = folded(step.text)
    may_be = any(stem in plain for stem in _TROUBLE_STEMS)
    troubled = may_be and any(found["no"] is None for found in _TROUBLE.finditer(plain))
    stops = (step.stop == "stop", step.stop == "tool", step.stop not in ("stop", "tool"))
    return (
        float(len(step.calls)),
        len({call.name for call in step.calls}) / len(step.calls) if step.calls else 0.0,
        *(math.nan if unknown else float(so) for so in stops),
        math.nan if step.output_tokens is None else math.log1p(step.output_tokens),
        math.nan if latency_ms is None or not 0 <= latency_ms < math.inf else math.log1p(latency_ms),
        float(step.refused),
        math.log1p(len(step.text)),
        math.log1p(sum(call.keys for call in step.calls)),
        float(troubled),
        numeric / len(words) if words else 0.0,
    )


def _step_call(part: ToolCallPart) -> ToolCall:
    try:
        given: object = json.loads(part.arguments or "{}")
    except (ValueError, RecursionError):
        # Arguments that are not JSON are still a shape: a model that starts to send them has changed.
        return ToolCall(part.name, "unreadable", 0)
    # Providers write no arguments as `{}`, as nothing, or as null.
    given = {} if given is None else given
    return ToolCall(part.name, _shape(given), len(given) if isinstance(given, dict) else 0)


def _shape(value: object, depth: int = 0) -> str:  # noqa: PLR0911 - one per kind
    match value:
        case dict() | list() if depth >= _MAX_SHAPE_DEPTH:
            return "…"
        case dict():
            return "{" + ", ".join(f"{key}: {_shape(item, depth + 1)}" for key, item in sorted(value.items())) + "}"
        case list():
            return "[" + " | ".join(sorted({_shape(item, depth + 1) for item in value})) + "]"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case _:
            return "null"
