"""The trace formats, in the order in which a record is tried against them.

The more specific formats come first and rows of plain columns last, since every tool's export has some field that could be a column.
A format's module is imported only once a record has one of its fields: most runs are of one format.
"""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING

from demur.errors import ShapeError, UsageError
from demur.wire.flat import RESPONSE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.formats.interface import TraceFormat, TraceReader
    from demur.wire.fields import JsonObject

__all__ = ["FORMATS", "ListedFormat", "format_named", "format_of", "format_of_all", "unknown_format"]

_NAMES_SHOWN = 12


class ListedFormat:
    """A trace format whose module is imported when it is first needed.

    A record can be of the format only if it has one of `fields`, holds an object or a list in one of `nested`, or has a field that
    begins with `prefix`; the format's own `sniffs` then decides.
    """

    def __init__(
        self, name: str, home: str, *, fields: Sequence[str] = (), nested: Sequence[str] = (), prefix: str | None = None
    ) -> None:
        """Keep where the format is: `home` is a module of this package, or a value in one (`module:NAME`)."""
        self.NAME = name
        self._home = home
        self._fields = frozenset(fields)
        self._nested = tuple(nested)
        self._prefix = prefix
        self._loaded: TraceFormat | None = None

    def load(self) -> TraceFormat:
        """Return the format itself."""
        if self._loaded is None:
            module, _, value = self._home.partition(":")
            found = import_module(f"demur.formats.{module}")
            self._loaded = getattr(found, value) if value else found
        assert self._loaded is not None  # noqa: S101 — set above
        return self._loaded

    def sniffs(self, record: JsonObject) -> bool:
        """Return whether a record is of this format."""
        possible = (
            not self._fields.isdisjoint(record)
            or any(isinstance(record.get(name), dict | list) for name in self._nested)
            or (self._prefix is not None and any(name.startswith(self._prefix) for name in record))
        )
        return possible and self.load().sniffs(record)

    def open_reader(self) -> TraceReader:
        """Return a reader for one file."""
        return self.load().open_reader()


_BATCH = ("custom_id",)
_SPANS = ("resourceSpans", "resource_spans", "resourceLogs", "attributes")
_SPAN_PREFIX = "attributes."
# A provider's response is the row itself or an object that the row holds.
_BODY = ("choices", "output", "content", "candidates", "promptFeedback", "prompt_feedback", "error", "Error")
_BODY_HOLDERS = ("response", "body", "result", "completion", "response_body")

FORMATS: Mapping[str, ListedFormat] = {
    known.NAME: known
    for known in (
        ListedFormat("anthropic-batch", "batch:ANTHROPIC_BATCH", fields=_BATCH),
        ListedFormat("openai-responses-batch", "batch:OPENAI_RESPONSES_BATCH", fields=_BATCH),
        ListedFormat("openai-batch", "batch:OPENAI_BATCH", fields=_BATCH),
        ListedFormat("agentlog", "shadow_log", nested=("payload",)),
        ListedFormat("garak", "garak", fields=("entry_type",)),
        ListedFormat("litellm", "litellm", fields=("call_type",)),
        ListedFormat("langfuse", "langfuse", fields=("traceId",), nested=("observations", "data", "batch")),
        ListedFormat("langfuse-export", "langfuse:LANGFUSE_EXPORT", fields=("trace_id",)),
        ListedFormat("vercel", "otel:VERCEL", nested=_SPANS, prefix=_SPAN_PREFIX),
        ListedFormat("openinference", "otel:OPENINFERENCE", nested=_SPANS, prefix=_SPAN_PREFIX),
        ListedFormat("otel", "otel:OTEL", nested=_SPANS, prefix=_SPAN_PREFIX),
        ListedFormat("openllmetry", "otel:OPENLLMETRY", nested=_SPANS, prefix=_SPAN_PREFIX),
        ListedFormat("inspect", "inspect", nested=("eval", "output")),
        ListedFormat("promptfoo", "promptfoo", nested=("results", "prompt")),
        ListedFormat("lm-eval", "lm_eval", nested=("resps",)),
        ListedFormat("openai-evals", "openai_evals", fields=("final_report",), nested=("spec", "data")),
        ListedFormat("deepeval", "deepeval", nested=("testRunData", "testCases", "conversationalTestCases")),
        ListedFormat("braintrust", "braintrust", fields=("root_span_id",)),
        ListedFormat("langsmith", "langsmith", fields=("run_type",), nested=("post", "patch")),
        ListedFormat("mt-bench", "benchmarks:MT_BENCH", nested=("choices",)),
        ListedFormat("arena-hard", "benchmarks:ARENA_HARD", nested=("choices", "messages")),
        ListedFormat("jailbreakbench", "benchmarks:JAILBREAKBENCH", nested=("jailbreaks",)),
        ListedFormat("preference", "benchmarks:PREFERENCE", fields=("chosen",)),
        ListedFormat("helm", "benchmarks:HELM", nested=("request_states",)),
        ListedFormat("tau-bench", "trajectories:TAU_BENCH", fields=("messages_display",), nested=("traj",)),
        ListedFormat("swe-agent", "trajectories:SWE_AGENT", nested=("trajectory",)),
        ListedFormat("pyrit", "trajectories:PYRIT", fields=("converted_value", "original_value")),
        ListedFormat("azure", "provider_log:AZURE", fields=_BODY, nested=_BODY_HOLDERS),
        ListedFormat("openai-chat", "provider_log:OPENAI_CHAT", fields=_BODY, nested=_BODY_HOLDERS),
        ListedFormat("anthropic", "provider_log:ANTHROPIC", fields=_BODY, nested=_BODY_HOLDERS),
        ListedFormat("gemini", "provider_log:GEMINI", fields=_BODY, nested=_BODY_HOLDERS),
        ListedFormat("bedrock", "provider_log:BEDROCK", fields=_BODY, nested=_BODY_HOLDERS),
        ListedFormat("sharegpt", "messages:SHAREGPT", nested=("conversations",)),
        ListedFormat("messages", "messages", nested=("messages", "completion")),
        ListedFormat("flat", "flat_rows", fields=(*RESPONSE_FIELDS, "error")),
    )
}


def format_of(record: JsonObject) -> TraceFormat | None:
    """Return the first format that a record is of; None where none knows it."""
    return next((known for known in FORMATS.values() if known.sniffs(record)), None)


def format_of_all(records: Sequence[JsonObject]) -> TraceFormat | None:
    """Return the format that most records are of, the first in the list where several are equal; None where none knows any.

    One odd row at the start of a file, such as an error in a provider's own format, does not name the format of the others.
    """
    counts = {name: sum(map(known.sniffs, records)) for name, known in FORMATS.items() if name != "flat"}
    # Rows of columns are what no other format knows: any tool's row may have a field that could be a column.
    counts["flat"] = sum(known is FORMATS["flat"] for known in map(format_of, records))
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


def unknown_format(record: JsonObject) -> ShapeError:
    """Return the error for rows that no format knows: the columns that they have, and how to say which of them is what."""
    there = ", ".join(f"`{name}`" for name in list(record)[:_NAMES_SHOWN]) or "of an empty object"
    hint = "name the column of the responses with --response-field, or the format with --format"
    return ShapeError(f"no trace format has the columns {there}", hint=hint)
