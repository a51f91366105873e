"""What is written of runs: every verdict of a scan, every pair of a comparison, and a run as a Shadow `.agentlog`.

Verdicts and pairs hold no texts. A row can be found again by its file and its line, or, in a table that DuckDB read, by its number
among the rows of the file (`row`, from 1 on).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.errors import UsageError
from demur.model.exchange import Message, Request, TextPart
from demur.runs.sql import DUCKDB, literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from demur.model.run import Traced
    from demur.runs.engine import Engine, LoadedRun
    from demur.wire.agentlog import LoggedExchange

__all__ = ["verdict_file", "write_agentlog_file", "write_pairs", "write_verdicts"]

_WRITERS = {".parquet": "FORMAT parquet, COMPRESSION zstd", ".jsonl": "FORMAT json", ".ndjson": "FORMAT json"}
# A field of the run that has one of these names is written under another: it must not hide a column of ours.
_OURS = frozenset({"run", "source", "line", "row", "id", "session", "outcome", "score", "reason", "cause"})


def verdict_file(path: Path) -> str:
    """Return how a file of that name is written; an ending that says nothing is an error."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise UsageError(f"`{path}` names no format", hint=f"end it in {' or '.join(sorted(_WRITERS))}")
    return writer


def write_verdicts(engine: Engine, runs: Sequence[LoadedRun], path: Path) -> None:
    """Write one row an exchange: where it stands, its keys, its verdict and its fields."""
    parts = []
    for run in runs:
        fields = "".join(
            f", {DUCKDB.field(name)} AS {DUCKDB.name(f'field_{name}' if name.lower() in _OURS else name)}"
            for name in run.fields
        )
        parts.append(
            f"SELECT {literal(run.name)} AS run, {_source(run, 'source')} AS source, line, {_place_in_file(run, '')} AS row, id, session, "
            f"outcome, score, reason, cause{fields} FROM {run.table}"
        )
    _copy(engine, " UNION ALL ".join(parts), path)


def write_pairs(engine: Engine, runs: tuple[LoadedRun, LoadedRun], path: Path) -> None:
    """Write one row a pair: its key and what came out on each side."""
    first, second = runs
    query = (
        f"SELECT key, k AS repeat, b.outcome AS baseline_outcome, c.outcome AS candidate_outcome, "
        f"b.score AS baseline_score, c.score AS candidate_score, {_source(first, 'b.source')} AS baseline_source, "
        f"b.line AS baseline_line, {_place_in_file(first, 'b.')} AS baseline_row, {_source(second, 'c.source')} AS candidate_source, "
        f"c.line AS candidate_line, {_place_in_file(second, 'c.')} AS candidate_row FROM pairs LEFT JOIN {first.table} b ON b.rowid = base "
        f"LEFT JOIN {second.table} c ON c.rowid = cand ORDER BY key, k"
    )
    _copy(engine, query, path)


def _copy(engine: Engine, query: str, path: Path) -> None:
    import duckdb

    try:
        engine.ask(f"COPY ({query}) TO {literal(str(path.absolute()))} ({verdict_file(path)})")
    except duckdb.IOException as exc:
        raise UsageError(f"`{path}` cannot be written", hint="check the folder") from exc


def _source(run: LoadedRun, column: str) -> str:
    """Return the name of a row's file: the list of a run's files is short."""
    names = ", ".join(literal(source.name) for source in run.sources)
    return f"([{names}])[{column} + 1]"


def _place_in_file(run: LoadedRun, side: str) -> str:
    """Return the place of a row among those of its file."""
    starts = ", ".join(map(str, run.starts))
    return f"{side}rowid - ([{starts}])[{side}source + 1] + 1"


def write_agentlog_file(
    path: Path, rows: Iterable[Traced], *, format_name: str, ts: str, prompts: Mapping[str, str]
) -> None:
    """Write the rows of a run; `prompts` are what rows without one asked, by their ids."""
    from demur.wire.agentlog import write_agentlog

    # What rows do not say of latency and tokens is not made up.
    lines = write_agentlog((_log_entry(row, format_name, prompts) for row in rows), ts=ts)
    try:
        with path.open("wb") as out:
            out.writelines(lines)
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{path}` cannot be written: {what}", hint="check the folder") from exc


def _log_entry(row: Traced, format_name: str, prompts: Mapping[str, str]) -> LoggedExchange:
    from demur.runs.row_measures import latency_of_row, usage_of_row

    exchange = row.exchange
    asked = prompts.get(exchange.id or "")
    if exchange.request is None and asked is not None:
        model = exchange.response.model if exchange.response else ""
        # An agentlog request names a model; of a batch only the response does.
        exchange = replace(exchange, request=Request(model, (Message("user", (TextPart(asked),)),)))
    if exchange.response is not None:
        exchange = replace(exchange, response=replace(exchange.response, usage=usage_of_row(row)))
    return exchange, latency_of_row(row, format_name)
