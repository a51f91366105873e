"""What does Langfuse's export to blob storage tell of? The rows are its observations in snake case; see `langfuse`.

Laws: those of `langfuse`; input, output and metadata may be JSON strings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.formats.interface import stateless
from demur.formats.langfuse import KINDS, read_observation

if TYPE_CHECKING:
    from demur.wire.interface import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "langfuse-export"

open_reader = stateless(read_observation)


def sniffs(record: JsonObject) -> bool:
    """Return whether this is an exported observation."""
    kind = record.get("type")
    ours = record.keys() & {"start_time", "status_message", "provided_model_name", "parent_observation_id"}
    return isinstance(kind, str) and kind.upper() in KINDS and "trace_id" in record and bool(ours)
