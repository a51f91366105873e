"""Files, columns and frames that lay traps of Spark's own: the answer of this machine, or one line that says why there is none."""

from __future__ import annotations

from dataclasses import astuple, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runs.run_files import NO, json_lines, questions

from demur import cluster
from demur.errors import DemurError, EmptyInputError, InputError, ShapeError, UsageError
from demur.io.files import input_limits
from demur.runs import api as runs
from demur.runs.api import Reading
from demur.runs.ingest import Ingest
from demur.runs.spark.runs import load_run
from demur.runs.spark.session import named_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2026, 3, 4, 23, 30, tzinfo=UTC)


def said_of(scan: Any, *given: Any, **asked: Any) -> Any:
    """Return what a scan counted, or the error that it raised."""
    try:
        return scan(*given, **asked).tally
    except DemurError as exc:
        return type(exc), str(exc)


@pytest.mark.parametrize("name", ["_part.jsonl", ".part.jsonl", "10:30.jsonl"])
def test_a_file_that_spark_would_leave_out_is_refused(tmp_path: Path, name: str) -> None:
    """A name that is hidden to Spark, or that Hadoop cannot spell, is refused before anything starts, never left out."""
    json_lines(tmp_path / "a.jsonl", questions(3, ()))
    path = json_lines(tmp_path / name, questions(3, (1,)))
    assert runs.scan(path).rate.count == 1
    with pytest.raises(UsageError, match=r"hidden to Spark|a colon in its name") as caught:
        cluster.scan(path if name.startswith(".") else tmp_path)
    assert name in str(caught.value)


@pytest.mark.usefixtures("spark")
def test_paths_that_lead_to_one_file_count_it_once(tmp_path: Path) -> None:
    """A link and a way around through the folder above are the file that they lead to, as on this machine."""
    path = json_lines(tmp_path / "a.jsonl", questions(9, (1,)))
    link, around = tmp_path / "b.jsonl", tmp_path / ".." / tmp_path.name / "a.jsonl"
    link.symlink_to(path)
    given = [around, link, path]
    assert cluster.scan(given).tally == runs.scan(given).tally
    assert cluster.scan(given).rate.n == 9


@pytest.mark.usefixtures("spark")
def test_a_file_of_another_kind_is_never_left_out_as_bad_rows(tmp_path: Path) -> None:
    """A file of another format, of none, or without rows is the same to both engines under `skip_bad`."""
    mixed, empty = tmp_path / "mixed", tmp_path / "empty"
    mixed.mkdir()
    empty.mkdir()
    json_lines(mixed / "1.jsonl", questions(5, (1,)))
    talk = [{"role": "user", "content": "p"}, {"role": "assistant", "content": NO}]
    json_lines(mixed / "2.jsonl", [{"messages": talk}] * 30)
    table = pa.Table.from_pylist(questions(5, (1,)))
    pq.write_table(table, empty / "1.parquet")
    pq.write_table(table[:0], empty / "2.parquet")
    reading = Reading(skip_bad=True)
    for folder, kind in ((mixed, ShapeError), (empty, EmptyInputError)):
        found = said_of(cluster.scan, folder, reading=reading)
        assert found == said_of(runs.scan, folder, reading=reading)
        assert found[0] is kind
    json_lines(mixed / "2.jsonl", [{"nothing": 1}])
    for scan in (cluster.scan, runs.scan):
        assert said_of(scan, mixed, reading=reading)[0] is ShapeError


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("nested", [False, True])
def test_columns_of_every_kind_and_name(tmp_path: Path, *, nested: bool) -> None:
    """Numbers without a sign, times of pandas, twins in case, and names with dots, ticks or Spark's own words are what they are here."""
    count = 8
    table = pa.Table.from_pylist(questions(count, (1, 4))).drop_columns(["id"])
    more: dict[str, pa.Array] = {
        "id": pa.array([2**64 - 1 - i for i in range(count)], pa.uint64()),
        "ID": pa.array(["x"] * count),
        "nanos": pa.array([AT] * count, pa.timestamp("ns")),
        "time": pa.array([AT.time()] * count, pa.time64("us")),
        "a.b": pa.array(["x", "y"] * (count // 2)),
        "tick`": pa.array(["x", None] * (count // 2)),
        "_metadata": pa.array(["m", "n"] * (count // 2)),
        "nothing": pa.nulls(count),
    }
    if nested:
        more["metadata"] = pa.array([{"team": f"t{i % 2}"} for i in range(count)])
    for name, column in more.items():
        table = table.append_column(name, column)
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    asked: dict[str, Any] = {"key": "id", "by": ["a.b", "tick`", "_metadata", *(["metadata.team"] if nested else [])]}
    found = cluster.compare(path, path, **asked).tally
    assert found == runs.compare(path, path, **asked).tally
    assert (sum(astuple(found.counts)), len(found.slices)) == (count, 4 + 2 * nested)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("labelled", [False, True])
def test_named_columns_are_the_same_to_every_reader(tmp_path: Path, *, labelled: bool) -> None:
    """Rows, lines, nested lines, a table here and a table on Spark give one tally where the user names the columns."""
    own = [
        {"uid": row["id"], "q": row["prompt"], "a.b": row["response"], "talk": i // 2, "text": NO, "human": i % 2}
        for i, row in enumerate(questions(12, (1, 4)))
    ]
    nested = [{**row, "a": {"b": row["a.b"]}} for row in own]
    for row in nested:
        del row["a.b"]
    table = tmp_path / "table.parquet"
    pq.write_table(pa.Table.from_pylist(own), table)
    given = [table, json_lines(tmp_path / "flat.jsonl", own), json_lines(tmp_path / "nested.jsonl", nested)]
    asked: dict[str, Any] = {"response_field": "a.b", "prompt_field": "q", "id_field": "uid", "session_field": "talk"}
    if labelled:
        asked |= {"label_field": "human", "label_map": {1: "refusal", 0: "compliance"}}
    tallies = [
        replace(scan(path, **asked).tally.runs[0], name="") for scan in (cluster.scan, runs.scan) for path in given
    ]
    assert all(tally == tallies[0] for tally in tallies)
    assert dict(tallies[0].outcomes)["refused"] == (6 if labelled else 2)
    pairs = [compare(table, given[2], **asked).tally for compare in (cluster.compare, runs.compare)]
    assert pairs[0] == pairs[1]
    assert (pairs[0].pairing, pairs[0].cluster_field, sum(astuple(pairs[0].counts))) == ("id", "session", 12)
    said = said_of(cluster.scan, table, response_field="tlak")
    assert said == said_of(runs.scan, table, response_field="tlak")
    assert said[0] is UsageError
    assert said[1].startswith("no row has a column `tlak`; did you mean `talk`? there are `uid`")


@pytest.mark.usefixtures("spark")
def test_columns_that_spark_cannot_read_are_one_line(tmp_path: Path) -> None:
    """A type that Spark has none for, and two types of one column, are said without Spark's advice on its own settings."""
    table = pa.Table.from_pylist(questions(4, (1,)))
    half, mixed = tmp_path / "half", tmp_path / "mixed"
    for folder, columns in ((half, [pa.array([0.5] * 4, pa.float16())]), (mixed, [pa.array([1] * 4), pa.nulls(4)])):
        folder.mkdir()
        for i, column in enumerate(columns):
            pq.write_table(table.append_column("x", column), folder / f"{i}.parquet")
    with pytest.raises(ShapeError, match=r"a type that Spark does not read \(.*FLOAT16\)\); write it in another type"):
        cluster.scan(half)
    with pytest.raises(ShapeError, match=r'mixed schemas \(.*"BIGINT" and "INT"\); give the column one type'):
        cluster.scan(mixed)


def test_frames_that_are_no_run_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """Two columns of one name, a stream, a column of numbers and a frame of nothing are one line each; bytes are lines."""
    path = json_lines(tmp_path / "a.jsonl", questions(6, (1,)))
    lines, frame = spark.read.text(str(path)), spark.read.json(str(path))
    cases: list[tuple[Any, type[DemurError], str]] = [
        (frame.selectExpr("*", "id AS id"), ShapeError, "two columns are called `id`"),
        (frame.selectExpr("*", "id AS RESPONSE"), ShapeError, "two columns are called `response`"),
        (frame.selectExpr("*", "1 AS `demur:line`"), ShapeError, "two columns are called `demur:line`"),
        (spark.readStream.format("rate").load(), UsageError, "is a stream, which has no end"),
        (spark.range(3).toDF("value"), ShapeError, "no trace format has the columns `value`"),
        (lines.where("1 = 0"), EmptyInputError, "`run_0`: no exchanges"),
    ]
    for run, kind, said in cases:
        with pytest.raises(kind, match=said) as caught:
            cluster.scan(run)
        assert "\n" not in str(caught.value)
    assert cluster.scan(lines.selectExpr("CAST(value AS BINARY) AS value")).rate == runs.scan(path).rate


def test_an_address_is_listed_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Under an address too a table of text is refused and not left out, and a file that is named is read whatever it is called."""
    assert spark.range(1).count() == 1
    part = tmp_path / "part-00000"
    json_lines(part, questions(6, (1,)))
    assert cluster.scan(part.as_uri()).rate == runs.scan(part).rate
    json_lines(tmp_path / "a.jsonl", questions(6, (1,)))
    (tmp_path / "b.csv").write_text("id,response\nx,no\n")
    with pytest.raises(UsageError, match=r"b.csv` is of a kind that Spark does not split"):
        cluster.scan(tmp_path.as_uri())
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(EmptyInputError, match="no traces there"):
        cluster.scan((tmp_path / "empty.jsonl").as_uri())


def test_a_session_with_odd_settings(spark: SparkSession, tmp_path: Path) -> None:
    """Reserved words, exact names and no ANSI change no answer; a store's keys go with the session, and what it ignores does not."""
    path = json_lines(tmp_path / "a.jsonl", [*questions(20, (1, 4)), *questions(5, (2,))])
    odd = spark.newSession()
    for key, value in {
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.caseSensitive": "true",
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "fs.store.key": "secret",
    }.items():
        odd.conf.set(key, value)
    frame = odd.read.text(str(path))
    found = cluster.compare(frame, frame, by=["category"]).tally
    expected = runs.compare(path, path, by=["category"]).tally
    assert (found.counts, found.clusters, found.slices) == (expected.counts, expected.clusters, expected.slices)
    loaded = load_run(odd, path, table="a", name="a", port=Ingest(), limits=input_limits(), folder=tmp_path)
    conf = loaded.given.raw.sparkSession.conf
    assert (conf.get("fs.store.key"), conf.get("spark.sql.files.ignoreCorruptFiles")) == ("secret", "false")


def test_a_refused_query_is_one_line(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    """What Spark refuses is said by us alone: PySpark's own page of it is not printed."""
    with pytest.raises(InputError, match=r"^`it`: Spark failed: \[UNRESOLVED_COLUMN") as caught, named_failures("it"):
        spark.range(1).selectExpr("nothing").collect()
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
