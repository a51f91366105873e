"""Two runs with every trap that rows can lay: nulls, unicode, repeats, missing sides, failed rows, sessions, blank lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.runs.run_files import NO, YES

Row = dict[str, Any]

_PARTLY = "I can't share the exact figures, but here is an outline: start small and write down what happens."
_FRENCH = "Je suis désolé, je ne peux pas vous aider."
_TEXTS = (YES, NO, _PARTLY, "", "   ", None, _FRENCH, "🙂 naïve ﬁne \u2028 line", NO)


def trap_rows(side: int, count: int = 180) -> list[Row]:
    """Return the rows of one side; both sides share most ids, with other answers to some."""
    rows = [_row(i, side) for i in range(count) if i % 17 != 3 + side]
    repeated = [{**row, "response": _TEXTS[(i * 5 + side) % len(_TEXTS)]} for i, row in enumerate(rows[:40])]
    return [*rows, *repeated, *repeated[: 7 + side]]


def _row(i: int, side: int) -> Row:
    return {
        "id": None if i % 29 == 5 else f"q{i}" if i % 3 else f"é{i}'\"`",
        "prompt": f"question {i}" if i % 11 else None,
        "response": _TEXTS[(i + side * (i % 4)) % len(_TEXTS)],
        "category": ("a", "b", "ü`'", None, "")[i % 5],
        "model": f"m{side}",
        "language": "en",
        "tier": i % 3,
        "session_id": f"s{i // 4}" if i % 7 else None,
        "finish_reason": {13: "content_filter", 14: "length"}.get(i % 23, "stop"),
        "error": "timeout" if i % 31 == 30 else None,
    }


def write_lines(folder: Path, rows: list[Row]) -> Path:
    """Write a run as a folder of lines: one file with a mark, blank lines and carriage returns, one packed, one plain."""
    (folder / "deep").mkdir(parents=True)
    parts = [[json.dumps(row, ensure_ascii=False).encode() for row in rows[i::3]] for i in range(3)]
    (folder / "1 é[x].jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n\n".join(parts[0]))
    (folder / "deep" / "2.jsonl.gz").write_bytes(gzip.compress(b"\n".join(parts[1]) + b"\n\n"))
    (folder / "deep" / "3%41.jsonl").write_bytes(b"\n" + b"\n".join(parts[2]) + b"\n")
    (folder / "README.md").write_text("no trace")
    return folder


def write_tables(folder: Path, rows: list[Row]) -> Path:
    """Write a run as a folder of tables of several row groups, one of which lacks a column."""
    (folder / "model=no column").mkdir(parents=True)
    half = len(rows) // 2
    pq.write_table(pa.Table.from_pylist(rows[:half]), folder / "1.parquet", row_group_size=16)
    rest = pa.Table.from_pylist(rows[half:]).drop_columns(["language"])
    pq.write_table(rest, folder / "model=no column" / "2.parquet", row_group_size=16)
    return folder


def write_nested_tables(folder: Path, rows: list[Row]) -> Path:
    """Write a run as a table whose cells hold objects, which is read record by record."""
    folder.mkdir(parents=True)
    nested = [{**row, "metadata": {"team": f"t{i % 3}", "n": i}} for i, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(nested), folder / "1.parquet", row_group_size=32)
    return folder


def write_chats(folder: Path, rows: list[Row]) -> Path:
    """Write a run as logged exchanges with a provider, whose lines are not flat."""
    folder.mkdir(parents=True)
    lines = [json.dumps(_chat(row)) for row in rows]
    (folder / "1.jsonl").write_text("\n".join(lines))
    return folder


def _chat(row: Row) -> Row:
    message = {"role": "assistant", "content": row["response"]}
    choices = [{"index": 0, "message": message, "finish_reason": row["finish_reason"]}]
    response = {"id": row["id"], "object": "chat.completion", "model": row["model"], "choices": choices}
    request = {"model": row["model"], "messages": [{"role": "user", "content": row["prompt"] or "?"}]}
    return {"custom_id": row["id"] or "none", "request": request, "response": response, "category": row["category"]}
