"""`demur.cluster` on two real executors beside `demur.runs.api` on this machine."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs.run_files import NO, YES, Heard, json_lines, questions
from tests.runs.spark.deadly_judge import DeadlyJudge
from tests.runs.spark.trap_runs import trap_rows, write_chats, write_lines, write_nested_tables, write_tables

from demur import cluster
from demur.errors import EmptyInputError, InputError, ShapeError, UnreadableRowsError, UsageError
from demur.report.json import comparison_object, scan_object
from demur.runs import api as runs
from demur.runs.api import Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITERS = {"lines": write_lines, "tables": write_tables, "records": write_nested_tables, "chats": write_chats}


def same(found: Any, expected: Any) -> None:
    """Compare two tallies field by field, so that a difference is shown where it is."""
    for each in fields(expected):
        assert getattr(found, each.name) == getattr(expected, each.name), each.name


def written(folder: Path, writer: Callable[[Path, list[dict[str, Any]]], Path]) -> tuple[Path, Path]:
    return writer(folder / "b", trap_rows(0)), writer(folder / "c", trap_rows(1))


@pytest.mark.parametrize("layout", WRITERS)
def test_both_engines_give_the_same_comparison(spark: SparkSession, tmp_path: Path, layout: str) -> None:
    """Over a corpus with every trap the tally, the rates, the differences and the report are the same, to the last byte."""
    b, c = written(tmp_path, WRITERS[layout])
    expected, found = runs.compare(b, c), cluster.compare(b, c)
    same(found.tally, expected.tally)
    assert found == expected
    assert msgspec.json.encode(comparison_object(found)) == msgspec.json.encode(comparison_object(expected))
    tally = expected.tally
    failed = tally.missing.both_failed > 0 or layout == "chats"  # a log of answers has no failed ones
    assert (tally.repeats > 0, failed, len(tally.slices) > 1) == (True, True, True)
    assert min(tally.missing.baseline_unmatched, tally.missing.candidate_unmatched, len(tally.flips)) > 0
    assert spark.range(3).count() == 3


@pytest.mark.usefixtures("spark")
def test_both_engines_give_the_same_scan(tmp_path: Path) -> None:
    """Rates, groups, phrases and the report of a scan are the same."""
    (_, lines), (tables, _) = written(tmp_path / "l", write_lines), written(tmp_path / "t", write_tables)
    expected, found = runs.scan(lines, tables), cluster.scan(lines, tables)
    same(found.tally, expected.tally)
    assert msgspec.json.encode(scan_object(found)) == msgspec.json.encode(scan_object(expected))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "asked", [{"key": "prompt", "cluster": "tier"}, {"key": "tier", "by": ["model", "category"], "cluster": "session"}]
)
def test_keys_clusters_and_slices_are_the_same(tmp_path: Path, asked: dict[str, Any]) -> None:
    """However rows are paired, grouped and cut, both engines count the same."""
    b, c = written(tmp_path, write_tables)
    same(cluster.compare(b, c, show=3, **asked).tally, runs.compare(b, c, show=3, **asked).tally)


def test_runs_without_pairs(spark: SparkSession, tmp_path: Path) -> None:
    """Rates of different questions are compared without pairs; a frame that is open is a run, its lines too."""
    b, c = written(tmp_path, write_tables)
    expected = runs.compare(b, c, unpaired=True)
    assert cluster.compare(b, c, unpaired=True) == expected
    frame = spark.read.option("mergeSchema", "true").option("recursiveFileLookup", "true").parquet(str(c))
    found = cluster.compare(str(b), frame, unpaired=True).tally
    assert (found.unpaired_candidate, found.candidate.name) == (expected.tally.unpaired_candidate, "candidate")


def test_a_frame_is_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """Frames of columns and of lines count like the files they come from, their examples without a line."""
    b, c = json_lines(tmp_path / "b.jsonl", questions(40, range(4))), tmp_path / "c.parquet"
    pq.write_table(pa.Table.from_pylist(questions(40, range(2, 14))), c)
    found = cluster.compare(spark.read.text(str(b)), spark.read.parquet(str(c))).tally
    expected = runs.compare(b, c).tally
    assert (found.counts, found.slices, found.missing) == (expected.counts, expected.slices, expected.missing)
    shown = [[(f.key, f.prompt, f.baseline.text, f.candidate.verdict) for f in t.flips] for t in (found, expected)]
    assert shown[0] == shown[1]
    assert {(f.baseline.source, f.baseline.line) for f in found.flips} == {("baseline", None)}
    assert cluster.scan(spark.read.parquet(str(c)), by=["category"]).groups == runs.scan(c, by=["category"]).groups


@pytest.mark.usefixtures("spark")
def test_any_address_is_a_run(tmp_path: Path) -> None:
    """A Hadoop address, with one slash or three, is listed by Spark itself and gives the counts of the path that it stands for."""
    b, c = written(tmp_path, write_tables)
    expected, found = runs.compare(b, c).tally, cluster.compare(b.as_uri(), f"file:{c}/").tally
    assert (found.counts, found.clusters, found.slices) == (expected.counts, expected.clusters, expected.slices)
    shown = [[(f.key, f.candidate.line, f.candidate.text) for f in tally.flips] for tally in (found, expected)]
    assert shown[0] == shown[1]


@pytest.mark.usefixtures("spark")
def test_large_files_are_read_in_blocks(tmp_path: Path) -> None:
    """Lines of a file that several tasks read have the numbers that they have in the file."""
    rows = [{"id": f"q{i}", "prompt": f"p{i}", "response": f"{YES} {'so ' * 700}"} for i in range(6000)]
    after = [{**row, "response": NO} if i in (1, 2900, 5999) else row for i, row in enumerate(rows)]
    b, c = json_lines(tmp_path / "b.jsonl", rows), json_lines(tmp_path / "c.jsonl", after)
    found = cluster.compare(b, c).tally
    same(found, runs.compare(b, c).tally)
    assert sorted(flip.candidate.line or 0 for flip in found.flips) == [2, 2901, 6000]


@pytest.mark.usefixtures("spark")
def test_a_killed_executor_costs_no_answer(tmp_path: Path) -> None:
    """An executor that is killed in the middle of its work is replaced, and the comparison is the same to the last byte."""
    b, c = written(tmp_path, write_lines)
    fuse = tmp_path / "fuse"
    reading = Reading(judge=DeadlyJudge(str(fuse)))
    expected = runs.compare(b, c, reading=reading)
    fuse.touch()
    found = cluster.compare(b, c, reading=reading)
    killed = int((tmp_path / "fuse.killed").read_text())
    assert not Path(f"/proc/{killed}/task").exists() or not Path(f"/proc/{killed}/exe").exists()
    same(found.tally, expected.tally)
    assert found == expected


@pytest.mark.usefixtures("spark")
def test_rows_that_cannot_be_read_are_named_with_their_lines(tmp_path: Path) -> None:
    """Bad rows are the same errors on both engines; left out on request, they are counted."""
    b = json_lines(tmp_path / "b.jsonl", questions(20, range(3)))
    with b.open("ab") as out:
        out.write(b'\n{"id": NaN}\n\xff\xfe\n[1]\n{"nothing": 1}\n')
    c = json_lines(tmp_path / "c.jsonl", questions(20, range(6)))
    raised = []
    for engine in (runs.compare, cluster.compare):
        with pytest.raises(UnreadableRowsError) as caught:
            engine(b, c)
        raised.append((str(caught.value), [str(error) for error in caught.value.errors]))
    assert raised[0] == raised[1]
    left_out = Reading(skip_bad=True)
    same(cluster.compare(b, c, reading=left_out).tally, runs.compare(b, c, reading=left_out).tally)


@pytest.mark.usefixtures("spark")
def test_other_prompts_and_no_common_questions_are_refused(tmp_path: Path) -> None:
    """Runs that are not about the same questions are the same error on both engines."""
    b = json_lines(tmp_path / "b.jsonl", questions(9, ()))
    changed = json_lines(tmp_path / "c.jsonl", [{**row, "prompt": f"another {row['id']}"} for row in questions(9, ())])
    others = json_lines(tmp_path / "d.jsonl", [{"id": f"x{i}", "prompt": f"y{i}", "response": YES} for i in range(4)])
    messages = []
    for engine in (runs.compare, cluster.compare):
        with pytest.raises(ShapeError) as caught:
            engine(b, changed)
        messages.append(str(caught.value))
        with pytest.raises(EmptyInputError, match=r"no id and no prompt is in both runs.*9 rows, 9 with an id"):
            engine(b, others)
        with pytest.raises(UsageError, match=r"no row has a field `categry`; did you mean `category`\?"):
            engine(b, b, by=["categry"])
    assert messages[0] == messages[1]


@pytest.mark.usefixtures("spark")
def test_paths_that_are_no_run_are_named(tmp_path: Path) -> None:
    """What is not there, not readable by Spark, or not of one kind is one line with what to do."""
    table, lines = tmp_path / "t.parquet", json_lines(tmp_path / "l.jsonl", questions(3, ()))
    pq.write_table(pa.Table.from_pylist(questions(3, ())), table)
    damaged = tmp_path / "d.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    other = tmp_path / "o.csv"
    other.write_text("response,id\nyes,1\n")
    cases: list[tuple[Any, type[Exception], str]] = [
        (tmp_path / "nowhere", InputError, "no such file or directory"),
        ((tmp_path / "nowhere").as_uri(), InputError, "no such file or directory; check the path, as the executors"),
        ("nowhere://x/y", InputError, "no file system for this address"),
        ("s3a://bucket/x", InputError, "no file system for this address; add its Hadoop package"),
        ("hdfs:///x", InputError, "no host in this address; name it"),
        (damaged.as_uri(), InputError, "no Parquet, though a file of it is called so"),
        ([table, lines], ShapeError, "Parquet, but `.*l.jsonl` is not"),
        (other, UsageError, "is csv, which Spark does not split"),
        ("-", UsageError, "standard input is no run for Spark"),
        (5, UsageError, "neither a path nor a frame"),
    ]
    for run, kind, said in cases:
        with pytest.raises(kind, match=said) as caught:
            cluster.scan(run)
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("spark")
def test_mixed_schemas_are_refused(tmp_path: Path) -> None:
    """Columns of two types, a table without answers, and lines of two formats are refused with the file's name."""
    for name, second, said in (
        ("types", {"id": 7, "prompt": "p", "response": YES}, "its files have mixed schemas"),
        ("names", {"id": "q", "prompt": "p", "note": YES}, "no column `response`, which other files of the run have"),
    ):
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_pylist(questions(3, ())), tmp_path / name / "1.parquet")
        pq.write_table(pa.Table.from_pylist([second]), tmp_path / name / "2.parquet")
        with pytest.raises(ShapeError, match=said) as caught:
            cluster.scan(tmp_path / name)
        assert "\n" not in str(caught.value)
    folder = write_chats(tmp_path / "lines", trap_rows(0)[:5])
    json_lines(folder / "2.jsonl", questions(3, ()))
    with pytest.raises(ShapeError, match=r"2.jsonl`: in format flat, but `.*1.jsonl` is in format"):
        cluster.scan(folder)


def test_an_executor_without_the_package_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Executors whose Python lacks Demur are one line that says what to install where."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "demur" not in entry.name and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    context = spark.sparkContext
    usual = context.pythonExec
    context.pythonExec = str(python)
    try:
        with pytest.raises(UsageError, match="the executors have no package `demur`; install demur") as caught:
            cluster.scan(json_lines(tmp_path / "b.jsonl", questions(3, ())))
    finally:
        context.pythonExec = usual
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("spark")
def test_progress_is_told(tmp_path: Path) -> None:
    """Whoever wants to know how far it is hears of all bytes of the run, of no more, and then of the steps of the count."""
    path, heard = json_lines(tmp_path / "b.jsonl", questions(40, range(4))), Heard()
    cluster.scan(path, reading=Reading(progress=heard))
    names = [name for name, _ in heard.told]
    reading, counting = heard.told[: names.index("counting")], heard.told[names.index("counting") :]
    assert reading[0] == (str(path), path.stat().st_size)
    assert {name for name, _ in reading[1:]} == {"read"}
    assert sum(size for _, size in reading[1:]) == path.stat().st_size
    assert all(name.startswith("counting") and size == 0 for name, size in counting)


def test_what_spark_cannot_do_is_refused(tmp_path: Path) -> None:
    """What needs a file's order, a batch's requests or nothing at all is refused before any work."""
    log = tmp_path / "log.agentlog"
    json_lines(log, [{"kind": "metadata", "id": "sha256:0", "payload": {}, "version": "0.1", "ts": "x"}])
    with pytest.raises(UsageError, match="no run to scan"):
        cluster.scan()
    with pytest.raises(UsageError, match="requests of a batch are not joined on Spark"):
        cluster.scan(log, reading=Reading(requests=("x",)))
    with pytest.raises(UsageError, match="are not verified on Spark"):
        cluster.scan(log, reading=Reading(verify=True))
    with pytest.raises(UsageError, match="runs without pairs"):
        cluster.compare(log, log, unpaired=True, by=["x"])
