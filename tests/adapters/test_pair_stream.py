"""Pairs read again are the pairs that were made, in the order of their sessions, and no more of them than asked for."""

from __future__ import annotations

import gzip
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.adapters.run_files import json_lines, layouts, questions
from tests.wire.traces import examples as made
from tests.wire.traces.example import QUESTION

from demur.adapters.config import InputLimits
from demur.adapters.engine import open_engine
from demur.adapters.pair_stream import draw_pairs, drawn_ids, most_pairs, run_ids, run_rows, stream_pairs
from demur.adapters.tallies import pair_runs
from demur.pipeline.ingest import Ingest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demur.adapters.engine import Engine, LoadedRun
    from demur.model.axes import PairedExchange
    from demur.model.exchange import Exchange

LIMITS = InputLimits()
LAYOUTS = ("jsonl", "blank lines", "gzip", "zstd", "array", "csv", "csv gzip", "tsv", "parquet")


@contextmanager
def paired(before: Path, after: Path) -> Iterator[tuple[Engine, tuple[LoadedRun, LoadedRun]]]:
    with open_engine() as engine:
        runs = tuple(
            engine.load(name, [str(path)], name=name, port=Ingest(), limits=LIMITS)
            for name, path in (("baseline", before), ("candidate", after))
        )
        pair_runs(engine, (runs[0], runs[1]), counted=("refused", "filtered"))
        yield engine, (runs[0], runs[1])


def said(exchange: Exchange) -> str:
    assert exchange.response is not None
    return exchange.response.choices[0].text


def read(before: Path, after: Path, *, most: int = 1000, seed: int = 0) -> list[PairedExchange]:
    with paired(before, after) as (engine, runs):
        draw_pairs(engine, seed=seed, most=most)
        return list(stream_pairs(engine, runs, limits=LIMITS))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_pair_has_its_own_two_exchanges(tmp_path: Path, layout: str) -> None:
    """Whatever the layout, and however the candidate's rows are shuffled, both sides are those of the key."""
    rows = questions(30, range(5), latency_ms=120, cost=0.5)
    changed = [{**row, "response": f"other {row['id']}", "latency_ms": 240} for row in reversed(rows)]
    found = read(
        layouts(tmp_path, rows)[layout], json_lines(tmp_path / "after.jsonl", [*changed, {"id": "z", "response": "x"}])
    )
    assert [pair.key for pair in found] == [f"q{i}" for i in range(30)]
    for row, pair in zip(rows, found, strict=True):
        assert (said(pair.baseline), said(pair.candidate)) == (row["response"], f"other {row['id']}")
        assert pair.baseline.request is not None
        assert pair.baseline.request.prompt == row["prompt"]
        assert (pair.baseline_latency_ms, pair.candidate_latency_ms, pair.candidate_cost) == (120, 240, 0.5)


def test_bad_rows_shift_nothing(tmp_path: Path) -> None:
    """Rows that cannot be read, or are no exchanges, leave the others with their own answers."""
    rows = questions(6, ())
    before = json_lines(tmp_path / "a.jsonl", [rows[0], {"x": 1}, *rows[1:3], {"response": 5}, *rows[3:]])
    after = json_lines(tmp_path / "b.jsonl", [7, *rows[4:], {"x": 1}, *rows[:4]])
    found = read(before, after)
    assert [said(pair.baseline) for pair in found] == [said(pair.candidate) for pair in found]
    assert [said(pair.baseline) for pair in found] == [row["response"] for row in rows]


def test_turns_keep_the_order_of_the_baseline(tmp_path: Path) -> None:
    """Sessions come with their turns in order, wherever the candidate has them."""
    rows = [{"id": f"{s}{t}", "session_id": s, "prompt": f"{s}{t}", "response": f"{t}"} for t in range(3) for s in "ab"]
    found = read(json_lines(tmp_path / "a.jsonl", rows), json_lines(tmp_path / "b.jsonl", sorted(rows, key=str)[::-1]))
    assert [pair.key for pair in found if pair.session == "b"] == ["b0", "b1", "b2"]
    assert [pair.key for pair in found] == [row["id"] for row in rows]


def test_a_sample_has_whole_sessions_and_is_the_same_for_a_seed(tmp_path: Path) -> None:
    """No more pairs than asked for, no session torn, the same whatever the order of rows, another one for another seed."""
    rows = [{"id": f"{i}", "session_id": f"s{i // 4}", "prompt": f"{i}", "response": "ok"} for i in range(200)]
    path, turned = json_lines(tmp_path / "a.jsonl", rows), json_lines(tmp_path / "b.jsonl", rows[::-1])
    first, same, other = (
        {pair.key for pair in read(path, after, most=50, seed=seed)}
        for after, seed in ((path, 0), (turned, 0), (path, 1))
    )
    assert len(first) == 48
    assert first == same != other
    sessions = {int(key) // 4 for key in first}
    assert first == {str(i) for i in range(200) if i // 4 in sessions}


def test_one_session_beyond_the_limit_is_cut(tmp_path: Path) -> None:
    """Where no session fits, the first rows of one are read, so that something is."""
    rows = [{"id": f"{i}", "session_id": "s", "prompt": f"{i}", "response": "ok"} for i in range(20)]
    path = json_lines(tmp_path / "a.jsonl", rows)
    with paired(path, path) as (engine, _):
        drawn = draw_pairs(engine, most=5)
    assert (drawn.pairs, drawn.read) == (20, 5)


def test_long_rows_lower_the_limit(tmp_path: Path) -> None:
    """The limit is 200,000 pairs, and fewer where rows are long, packed or not."""
    short = json_lines(tmp_path / "a.jsonl", questions(10, ()))
    long = json_lines(tmp_path / "b.jsonl", questions(10, (), note="x" * 50_000))
    packed = tmp_path / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(short.read_bytes()))
    with paired(short, short) as (_, runs):
        assert most_pairs(runs) == 200_000
        sources = tuple(replace(source, compression="gzip", size_bytes=10_000 * 10) for source in runs[1].sources)
        assert most_pairs((runs[0], replace(runs[1], sources=sources))) < (1 << 30) / 50_000
    with paired(short, long) as (_, runs):
        assert 20_000 < most_pairs(runs) < 22_000


def test_a_log_whose_lines_need_each_other(tmp_path: Path) -> None:
    """An answer that names its question by id is read with it."""
    path = json_lines(tmp_path / "a.agentlog", made.agentlog(made.payload(made.text_part("Paris."))))
    (pair,) = read(path, path)
    assert said(pair.candidate) == "Paris."
    assert pair.baseline.request is not None
    assert pair.baseline.request.prompt == QUESTION


def test_the_prompts_of_a_batch_are_those_of_its_requests(tmp_path: Path) -> None:
    """A row without a prompt has the one that its request asked; the ids to look for are those of the drawn rows."""
    path = json_lines(tmp_path / "a.jsonl", [{"id": f"q{i}", "response": "ok"} for i in range(3)])
    with paired(path, path) as (engine, runs):
        draw_pairs(engine)
        assert drawn_ids(engine, runs) == run_ids(engine, runs[0]) == {"q0", "q1", "q2"}
        found = list(stream_pairs(engine, runs, limits=LIMITS, prompts={"q1": "Why?"}, shown_key=str.upper))
    asked = {pair.key: pair.candidate.request.prompt for pair in found if pair.candidate.request}
    assert asked == {"Q1": "Why?"}


def test_all_rows_of_a_run_in_order(tmp_path: Path) -> None:
    """Every exchange of every file, in the order of the files."""
    rows = questions(7, ())
    path = json_lines(tmp_path / "a.jsonl", rows)
    with paired(path, path) as (_, runs):
        assert [row.exchange.id for row in run_rows(runs[0], limits=LIMITS)] == [row["id"] for row in rows]
