"""A run as a Shadow `.agentlog` on disk.

Laws: what the rows say of latency and tokens goes with them, what they do not say is not made up; a prompt that stands in the requests of
a batch is written as if it stood in the row. Rows keep their order and their sessions; ids of rows have no place in the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.errors import UsageError
from demur.model.exchange import Message, Request, TextPart
from demur.runs.row_measures import latency_of_row, usage_of_row
from demur.wire.agentlog import write_agentlog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from demur.model.run import Traced
    from demur.wire.agentlog import LoggedExchange

__all__ = ["write_agentlog_file"]


def write_agentlog_file(
    path: Path, rows: Iterable[Traced], *, format_name: str, ts: str, prompts: Mapping[str, str]
) -> None:
    """Write the rows of a run; `prompts` are what rows without one asked, by their ids."""
    lines = write_agentlog((_log_entry(row, format_name, prompts) for row in rows), ts=ts)
    try:
        with path.open("wb") as out:
            out.writelines(lines)
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{path}` cannot be written: {what}", hint="check the folder") from exc


def _log_entry(row: Traced, format_name: str, prompts: Mapping[str, str]) -> LoggedExchange:
    exchange = row.exchange
    asked = prompts.get(exchange.id or "")
    if exchange.request is None and asked is not None:
        model = exchange.response.model if exchange.response else ""
        exchange = replace(exchange, request=Request(model, (Message("user", (TextPart(asked),)),)))
    if exchange.response is not None:
        exchange = replace(exchange, response=replace(exchange.response, usage=usage_of_row(row)))
    return exchange, latency_of_row(row, format_name)
