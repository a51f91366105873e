"""Which convention does each span of a document follow, and what calls do they tell of?

One document may hold spans of several instrumentations. Laws: each span is read by the convention that it follows, whichever
format the document was taken for; a document is of the format of its first span that follows any, and plain `otel` where
none does; the AI SDK is asked before OpenTelemetry, some of whose attributes it writes too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.formats.interface import stateless
from demur.formats.spans.genai_attributes import read_genai, reads_genai, reads_openllmetry
from demur.formats.spans.openinference_attributes import read_openinference, reads_openinference
from demur.formats.spans.span import holds_spans, spans_in
from demur.formats.spans.vercel_attributes import read_vercel, reads_vercel
from demur.model.run import Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from demur.formats.spans.span import Span
    from demur.model.run import Traced
    from demur.wire.interface import JsonObject

__all__ = ["convention_of", "open_span_reader"]

_CONVENTIONS: tuple[tuple[str, Callable[[Mapping[str, Any]], bool], Callable[[Span], Traced | Skipped]], ...] = (
    ("vercel", reads_vercel, read_vercel),
    ("openinference", reads_openinference, read_openinference),
    ("openllmetry", reads_openllmetry, read_genai),
    ("otel", reads_genai, read_genai),
)


def convention_of(record: JsonObject) -> str | None:
    """Return the name of the format that a document of spans is of; None where it is none."""
    if not holds_spans(record):
        return None
    names = (name for span in spans_in(record) for name, reads, _ in _CONVENTIONS if reads(span.attributes))
    return next(names, "otel")


def _read_spans(record: JsonObject) -> Iterator[Traced | Skipped]:
    if not holds_spans(record):
        raise ShapeError(
            "expected spans, got something else", hint="a document has `resourceSpans`, a span `attributes`"
        )
    for span in spans_in(record):
        read = next((read for _, reads, read in _CONVENTIONS if reads(span.attributes)), None)
        try:
            yield Skipped("a span that is no model call") if read is None else read(span)
        except ShapeError as exc:
            # One spoilt span does not spoil those after it.
            yield Skipped(f"unreadable: {exc.what}")


open_span_reader = stateless(_read_spans)
