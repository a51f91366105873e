"""Which format is this trace? The registry, in the order in which formats are asked.

Laws: a format is recognised by fields that only it has; the more specific is asked first, and rows of plain columns last,
because every tool's export has some field that could be a column; no format is taken for another.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.formats import (
    braintrust,
    deepeval,
    flat_rows,
    inspect,
    langfuse,
    langfuse_export,
    langsmith,
    litellm,
    lm_eval,
    messages,
    openai_evals,
    promptfoo,
    shadow_log,
    sharegpt,
)
from demur.formats.batch import ANTHROPIC_BATCH, OPENAI_BATCH, OPENAI_RESPONSES_BATCH
from demur.formats.provider_log import ANTHROPIC, AZURE, BEDROCK, GEMINI, OPENAI_CHAT
from demur.formats.spans import openinference, openllmetry, otel, vercel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.formats.interface import TraceFormat
    from demur.wire.interface import JsonObject

__all__ = ["FORMATS", "format_named", "format_of", "format_of_all"]

_IN_ORDER: tuple[TraceFormat, ...] = (
    ANTHROPIC_BATCH,
    OPENAI_RESPONSES_BATCH,
    OPENAI_BATCH,
    shadow_log,
    litellm,
    langfuse,
    langfuse_export,
    vercel,
    openinference,
    otel,
    openllmetry,
    inspect,
    promptfoo,
    lm_eval,
    openai_evals,
    deepeval,
    braintrust,
    langsmith,
    AZURE,
    OPENAI_CHAT,
    ANTHROPIC,
    GEMINI,
    BEDROCK,
    sharegpt,
    messages,
    flat_rows,
)
FORMATS: Mapping[str, TraceFormat] = {known.NAME: known for known in _IN_ORDER}


def format_of(record: JsonObject) -> TraceFormat | None:
    """Return the first format that a record is of; None where none knows it."""
    return next((known for known in _IN_ORDER if known.sniffs(record)), None)


def format_of_all(records: Sequence[JsonObject]) -> TraceFormat | None:
    """Return the format that most records are of, the first asked where several are equal; None where none knows any.

    One odd row at the start of a file, such as an error in a provider's own shape, does not name the format of the others.
    """
    counts = {known.NAME: sum(map(known.sniffs, records)) for known in _IN_ORDER}
    best = max(counts.values())
    return next((FORMATS[name] for name, count in counts.items() if count == best), None) if best else None


def format_named(name: str) -> TraceFormat:
    """Return the format of this name; another name is an error that says which there are."""
    found = FORMATS.get(name.strip().lower().replace("_", "-"))
    if found is None:
        near = difflib.get_close_matches(name.lower(), FORMATS, n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(f"unknown trace format `{name}`", hint=f"{hint}there are {', '.join(sorted(FORMATS))}")
    return found
