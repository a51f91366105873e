"""Records to judged rows: the same verdicts as `check`, whatever the way."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from tests.runs.run_files import NO, YES

from demur.detect.batch import BatchJudge
from demur.detect.check import check, judge_named, judge_with
from demur.errors import JsonError
from demur.runs.ingest import Ingest, Judged, key_of_prompt

ROWS: list[dict[str, Any]] = [
    {"id": "a", "prompt": "p", "response": NO, "category": "x"},
    {"id": "b", "prompt": " p ", "response": YES, "finish_reason": "stop"},
    {"id": 3, "response": YES, "finish_reason": "content_filter"},
    {"id": "d", "response": YES, "refusal": "no"},
    {"id": "e", "response": YES, "is_refusal": "yes", "metadata": {"category": "y"}},
    {"id": "f", "response": None},
    {"id": "g", "response": ""},
    {"id": "h", "response": YES, "error": "timeout"},
    {"id": "i", "response": "\u200b\u200b"},
    {"id": "j", "response": f"{YES} " * 40},
]


def block(rows: list[Any]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def table(judged: Judged) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = judged.rows.to_pylist()
    return rows


@pytest.mark.parametrize("judge", [None, judge_named("shadow"), judge_with(refused=0.9, complied=0.5)])
def test_verdicts_are_those_of_check(judge: Any) -> None:
    """Every row's outcome, score, reason and cause are what `check` says of it."""
    found = table(Ingest(judge=BatchJudge(judge)).lines((1, block(ROWS))))
    for row, said in zip(ROWS, found, strict=True):
        told = {k: v for k, v in row.items() if k != "is_refusal"}
        verdict = check({**told, "refusal": True} if "is_refusal" in row else told, judge=judge)
        if row["id"] == "d":
            verdict = check({"response": YES}, judge=judge)
        assert (said["outcome"], said["reason"], said["cause"]) == (verdict.outcome, verdict.reason, verdict.cause)
        assert said["score"] == pytest.approx(verdict.score, abs=1e-9)


def test_rows_have_keys_lines_and_fields() -> None:
    """Lines count from the block's first, prompts differ by more than white space at their ends, fields are as asked."""
    ingest = Ingest(fields=("category", "gone"))
    found = table(ingest.lines((11, block(ROWS))))
    assert [row["line"] for row in found] == list(range(11, 21))
    assert [row["id"] for row in found][:3] == ["a", "b", "3"]
    assert found[0]["prompt"] == found[1]["prompt"] == key_of_prompt("p")
    assert [row["field:category"] for row in found] == ["x", None, None, None, "y", None, None, None, None, None]
    assert {row["field:gone"] for row in found} == {None}
    assert key_of_prompt("p") != key_of_prompt("q")
    assert (key_of_prompt(None), key_of_prompt(" \n")) == (None, None)


def test_texts_go_no_further() -> None:
    """No column of judged rows holds what was asked or answered."""
    rows = [{"id": "a", "prompt": "a secret question", "response": f"a secret answer. {NO}"}]
    assert "secret" not in str(Ingest(fields=("category",)).lines((1, block(rows))).rows.to_pydict())


def test_what_cannot_be_read_stands_beside_the_rows() -> None:
    """Bad lines are errors with their line, an answer that is no text is unread, and the others are read."""
    data = block(ROWS[:1]) + b'\n{\n[]\n{"response": 7}\n{"x": 1}\n\n\xff\n' + block(ROWS[1:2])
    judged = Ingest().lines((1, data))
    assert [(row["line"], row["outcome"]) for row in table(judged)][1:2] == [(4, "unread")]
    assert [row["line"] for row in table(judged)] == [1, 4, 8]
    assert [error.line for error in judged.errors] == [2, 3, 5, 7]
    assert dict(judged.skipped) == {}


def test_blocks_and_records_are_the_same_rows() -> None:
    """Lines in blocks, lines one by one and the pickled judge give the same rows."""
    ingest = Ingest(fields=("category",))
    whole = table(ingest.lines((1, block(ROWS))))
    sent = pickle.loads(pickle.dumps(ingest))  # noqa: S301 — our own bytes
    halves = table(ingest.lines((1, block(ROWS[:4])))) + table(sent.lines((5, block(ROWS[4:]))))
    single = [row for judged in ingest.records(enumerate(ROWS, 1)) for row in table(judged)]
    assert whole == halves == single


def test_columns_are_judged_like_lines() -> None:
    """A table's rows get the verdicts and prompt keys of the same rows as lines."""
    rows = [row for row in ROWS if "is_refusal" not in row and "refusal" not in row]
    names = ("response", "prompt", "finish_reason", "refusal", "error")
    batch = pa.RecordBatch.from_pydict({n: pa.array([row.get(n) for row in rows], pa.string()) for n in names})
    lines = table(Ingest().lines((1, block(rows))))
    assert Ingest().columns(batch).to_pylist() == [
        {name: line[name] for name in ("prompt", "outcome", "score", "reason", "cause")} for line in lines
    ]


def test_a_changed_payload_is_found() -> None:
    """Where ids are to be verified, a record whose id is not the hash of its payload is an error."""
    record = {"version": "0.1", "kind": "metadata", "id": "sha256:00", "parent": None, "payload": {"a": 1}}
    (judged,) = Ingest(format="agentlog", verify=True).records([(4, record)])
    assert [(type(error), error.line) for error in judged.errors] == [(JsonError, 4)]
    (judged,) = Ingest(format="agentlog").records([(4, record)])
    assert judged.errors == ()
