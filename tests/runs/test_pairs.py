"""Pairs read again are the pairs that were made, in the order of their sessions, and no more of them than asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tests.formats import examples as made
from tests.formats.example import QUESTION
from tests.runs.run_files import json_lines, layouts, questions

from demur.axes.steps import step_of
from demur.io.files import InputLimits
from demur.model.comparison import AxisSide, ShownTexts
from demur.model.exchange import Exchange
from demur.runs.counting import pair_runs
from demur.runs.engine import Engine, LoadedRun, open_engine
from demur.runs.ingest import Ingest
from demur.runs.pairs import StreamedPairs, draw_pairs, drawn_ids, max_pairs, run_ids, run_rows, stream_pairs

LIMITS = InputLimits()
LAYOUTS = ("jsonl", "blank lines", "gzip", "zstd", "array", "csv", "csv gzip", "tsv", "parquet")


@dataclass(frozen=True)
class Pair:
    """A pair as it was read."""

    key: str
    session: int
    cluster: int
    baseline: AxisSide
    candidate: AxisSide


def exchanges(sides: Iterable[AxisSide]) -> list[AxisSide]:
    """The work of these tests: to keep what they are given."""
    return list(sides)


def pairs_of(streamed: StreamedPairs, cluster: str | None = None) -> list[Pair]:
    names = streamed.names(cluster=cluster)
    sides = []
    for side in (0, 1):
        found: dict[int, AxisSide] = {}
        for places, given in streamed.measured(side, exchanges):
            found |= dict(zip(places.tolist(), given, strict=True))
        sides.append(found)
    rows = zip(names.keys, names.session.tolist(), names.cluster.tolist(), strict=True)
    return [Pair(*row, sides[0][at], sides[1][at]) for at, row in enumerate(rows)]


@contextmanager
def paired(
    before: Path, after: Path, *, cluster: str | None = None, fields: tuple[str, ...] = (), jobs: int = 1
) -> Iterator[tuple[Engine, tuple[LoadedRun, LoadedRun]]]:
    with open_engine(jobs=jobs) as engine:
        runs = tuple(
            engine.load(name, [str(path)], name=name, port=Ingest(fields=fields), limits=LIMITS)
            for name, path in (("baseline", before), ("candidate", after))
        )
        pair_runs(engine, (runs[0], runs[1]), counted=("refused", "filtered"), cluster=cluster)
        yield engine, (runs[0], runs[1])


def turns(sessions: str, numbers: Iterable[int], response: str = "ok") -> list[dict[str, str]]:
    """Return rows of sessions, each with the turns of these numbers, one session after the other."""
    names = [(s, f"{s}{t}") for s in sessions for t in numbers]
    return [{"id": name, "session_id": s, "prompt": name, "response": response} for s, name in names]


def said(side: AxisSide) -> str:
    assert side.exchange.response is not None
    return side.exchange.response.choices[0].text


def asked(exchange: Exchange) -> str | None:
    return exchange.request.prompt if exchange.request else None


def read(before: Path, after: Path, *, most: int = 1000, seed: int = 0, jobs: int = 1) -> list[Pair]:
    with paired(before, after, jobs=jobs) as (engine, runs):
        draw_pairs(engine, seed=seed, most=most)
        return pairs_of(stream_pairs(engine, runs, limits=LIMITS))


@pytest.mark.heavy
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_pair_has_its_own_two_exchanges(tmp_path: Path, layout: str) -> None:
    """Whatever the layout, and however the candidate's rows are shuffled, both sides are those of the key."""
    rows = questions(30, range(5), latency_ms=120, cost=0.5)
    changed = [{**row, "response": f"other {row['id']}", "latency_ms": 240} for row in reversed(rows)]
    after = json_lines(tmp_path / "after.jsonl", [*changed, {"id": "z", "response": "x"}])
    found = read(layouts(tmp_path, rows)[layout], after)
    assert [pair.key for pair in found] == [f"q{i}" for i in range(30)]
    for row, pair in zip(rows, found, strict=True):
        assert (said(pair.baseline), said(pair.candidate)) == (row["response"], f"other {row['id']}")
        assert asked(pair.baseline.exchange) == row["prompt"]
        assert (pair.baseline.latency_ms, pair.candidate.latency_ms, pair.candidate.cost) == (120, 240, 0.5)


def test_bad_rows_shift_nothing(tmp_path: Path) -> None:
    """Rows that cannot be read, or are no exchanges, leave the others with their own answers."""
    rows = questions(6, ())
    before = json_lines(tmp_path / "a.jsonl", [rows[0], {"x": 1}, *rows[1:3], {"response": 5}, *rows[3:]])
    after = json_lines(tmp_path / "b.jsonl", [7, *rows[4:], {"x": 1}, *rows[:4]])
    found = read(before, after)
    assert [(said(pair.baseline), said(pair.candidate)) for pair in found] == [(row["response"],) * 2 for row in rows]


def test_turns_keep_the_order_of_the_baseline(tmp_path: Path) -> None:
    """Sessions come with their turns in order, wherever the candidate has them."""
    rows = sorted(turns("ab", range(3)), key=lambda row: row["id"][1])
    found = read(json_lines(tmp_path / "a.jsonl", rows), json_lines(tmp_path / "b.jsonl", sorted(rows, key=str)[::-1]))
    assert [pair.key for pair in found if pair.session == 1] == ["b0", "b1", "b2"]
    assert [pair.key for pair in found] == [row["id"] for row in rows]


@pytest.mark.heavy
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
    path = json_lines(tmp_path / "a.jsonl", turns("s", range(20)))
    with paired(path, path) as (engine, _):
        drawn = draw_pairs(engine, most=5)
    assert (drawn.pairs, drawn.read) == (20, 5)


def test_long_rows_lower_the_limit(tmp_path: Path) -> None:
    """The limit is 200,000 pairs, and fewer where rows are long, packed or not."""
    short = json_lines(tmp_path / "a.jsonl", questions(10, ()))
    long = json_lines(tmp_path / "b.jsonl", questions(10, (), note="x" * 50_000))
    with paired(short, short) as (_, runs):
        assert max_pairs(runs) == 200_000
        sources = tuple(replace(source, compression="gzip", size_bytes=10_000 * 10) for source in runs[1].sources)
        assert max_pairs((runs[0], replace(runs[1], sources=sources))) < (1 << 30) / 50_000
    with paired(short, long) as (_, runs):
        assert 20_000 < max_pairs(runs) < 22_000


def test_a_log_whose_lines_need_each_other(tmp_path: Path) -> None:
    """An answer that names its question by id is read with it."""
    path = json_lines(tmp_path / "a.agentlog", made.agentlog(made.payload(made.text_part("Paris."))))
    (pair,) = read(path, path)
    assert said(pair.candidate) == "Paris."
    assert asked(pair.baseline.exchange) == QUESTION


def test_the_prompts_of_a_batch_are_those_of_its_requests(tmp_path: Path) -> None:
    """A row without a prompt has the one that its request asked; the ids to look for are those of the drawn rows."""
    path = json_lines(tmp_path / "a.jsonl", [{"id": f"q{i}", "response": "ok"} for i in range(3)])
    with paired(path, path) as (engine, runs):
        draw_pairs(engine)
        assert drawn_ids(engine, runs) == run_ids(engine, runs[0]) == {"q0", "q1", "q2"}
        found = pairs_of(stream_pairs(engine, runs, limits=LIMITS, prompts={"q1": "Why?"}, shown_key=str.upper))
    prompts = {pair.key: asked(pair.candidate.exchange) for pair in found}
    assert prompts == {"Q0": None, "Q1": "Why?", "Q2": None}


def test_verdicts_come_along(tmp_path: Path) -> None:
    """What was judged is not judged again: each side has the outcome that its row was counted with."""
    rows = [{**row, "response": None} if i == 3 else row for i, row in enumerate(questions(6, (1,)))]
    path = json_lines(tmp_path / "a.jsonl", rows)
    outcomes = [pair.baseline.outcome for pair in read(path, path)]
    assert outcomes == ["complied", "refused", "complied", "failed", "complied", "complied"]


PLAIN = {"id": "q", "prompt": "Why?", "response": "So.", "session_id": "s"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"latency_ms": 5, "cost_usd": "0.5", "input_tokens": 1, "output_tokens": 2},
        {"finish_reason": "stop", "model": "m"},
        {"stop_reason": None, "finish_reason": "length"},
        {"completion_tokens": 7, "note": "x"},
    ],
)
def test_a_plain_row_is_what_the_full_reader_reads(tmp_path: Path, more: dict[str, object]) -> None:
    """The short way gives the same exchange and figures as the long one, which a nested object asks for."""
    short = json_lines(tmp_path / "a.jsonl", [PLAIN | more])
    (pair,) = read(short, json_lines(tmp_path / "b.jsonl", [PLAIN | more | {"metadata": {"x": 1}}]))
    first, second = pair.baseline, pair.candidate
    assert (first.latency_ms, first.cost, first.outcome) == (second.latency_ms, second.cost, second.outcome)
    sides = [step_of(side.exchange, "q", refused=False) for side in (first, second)]
    assert sides[0] == sides[1]
    assert sides[0].prompt == "Why?"


@pytest.mark.heavy
def test_other_processes_read_the_same(tmp_path: Path) -> None:
    """With two processes the pairs are those of one."""
    path = json_lines(tmp_path / "a.jsonl", questions(50, range(5), latency_ms=3))
    turned = json_lines(tmp_path / "b.jsonl", questions(50, range(9))[::-1])
    assert read(path, turned, jobs=2) == read(path, turned)


@pytest.mark.heavy
def test_pairs_count_together_as_for_safety(tmp_path: Path) -> None:
    """By the field that the user says, by session or question, or not at all; a pair without the field stands alone."""
    rows = turns("abcd", range(2))
    path = json_lines(tmp_path / "a.jsonl", [*({**row, "team": "x"} for row in rows[:5]), *rows[5:]])
    found = {}
    for cluster in ("team", "session", "none"):
        with paired(path, path, cluster=cluster, fields=("team",)) as (engine, runs):
            draw_pairs(engine)
            names = stream_pairs(engine, runs, limits=LIMITS).names(cluster=None if cluster == "none" else cluster)
        found[cluster] = names.cluster.tolist()
        assert names.session.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert found == {"team": [0, 0, 0, 0, 0, 1, 2, 3], "session": [0, 0, 1, 1, 2, 2, 3, 3], "none": list(range(8))}


def test_texts_wait_in_a_file(tmp_path: Path) -> None:
    """What a judge is to see comes back as it was, whatever it holds; what was not kept is empty."""
    path = json_lines(tmp_path / "a.jsonl", questions(3, ()))
    shown = [ShownTexts("a\nb", "\ud800 ✓"), ShownTexts("", "x")]
    with paired(path, path) as (engine, runs):
        streamed = stream_pairs(engine, runs, limits=LIMITS)
        streamed.keep_texts(0, np.array([2, 0]), shown)
        streamed.keep_texts(1, np.array([0]), shown[:1])
        assert streamed.texts(0) == (shown[1], shown[0])
        assert streamed.texts(2) == (shown[0], ShownTexts("", ""))


def test_all_rows_of_a_run_in_order(tmp_path: Path) -> None:
    """Every exchange of every file, in the order of the files."""
    rows = questions(7, ())
    path = json_lines(tmp_path / "a.jsonl", rows)
    with paired(path, path) as (_, runs):
        assert [row.exchange.id for row in run_rows(runs[0], limits=LIMITS)] == [row["id"] for row in rows]


def test_turns_without_a_counterpart_stand_behind_the_pairs(tmp_path: Path) -> None:
    """A row that the other run has not is read where its session has a pair, and is a turn of its own run alone."""
    before = json_lines(tmp_path / "a.jsonl", turns("ab", range(2)))
    after = json_lines(tmp_path / "b.jsonl", turns("ab", range(2))[:3] + turns("az", [9], "more"))
    with paired(before, after) as (engine, runs):
        assert draw_pairs(engine).read == 3
        streamed = stream_pairs(engine, runs, limits=LIMITS)
        names = streamed.names(cluster="session")
        assert list(names.keys) == ["a0", "a1", "b0", "b1", "a9"]
        assert names.turns is not None
        assert names.turns.lone.tolist() == [False, False, False, True, True]
        assert [column.tolist() for column in names.turns.sessions] == [[0, 0, 1, 1, -1], [0, 0, 1, -1, 0]]
        read = [sorted(at for places, _ in streamed.measured(side, exchanges) for at in places) for side in (0, 1)]
        assert read == [[0, 1, 2, 3], [0, 1, 2, 4]]


def test_a_session_of_another_name_is_the_one_that_its_pairs_are_of(tmp_path: Path) -> None:
    """Runs that name their sessions anew have the same sessions all the same; a name that both know is that session."""
    rows = turns("ab", range(2))
    renamed = [{**row, "session_id": f"new-{row['session_id']}"} for row in rows]
    with paired(json_lines(tmp_path / "a.jsonl", rows), json_lines(tmp_path / "b.jsonl", renamed)) as (engine, runs):
        draw_pairs(engine)
        found = stream_pairs(engine, runs, limits=LIMITS).names(cluster=None).turns
        assert found is not None
        assert [column.tolist() for column in found.sessions] == [[0, 0, 1, 1], [0, 0, 1, 1]]
