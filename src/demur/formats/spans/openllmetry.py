"""Are these spans of OpenLLMetry (Traceloop)? How they are read is the same for all spans: see `span_calls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.formats.spans.calls import convention_of, open_span_reader

if TYPE_CHECKING:
    from demur.wire.interface import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "openllmetry"

open_reader = open_span_reader


def sniffs(record: JsonObject) -> bool:
    """Return whether the first span that follows a convention follows this one."""
    return convention_of(record) == NAME
