"""The files of a run that Spark reads: paths of this machine and addresses that Hadoop knows, each file once.

What Spark would leave out or misread without a word is an error that names it, before Spark starts where the file is on this machine.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from demur.errors import EmptyInputError, UsageError
from demur.io.sources import Kind, Source, find_sources
from demur.runs.spark.rows import file_key
from demur.runs.spark.session import named_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RunFile", "check_local_files", "escaped", "run_files"]

_READ = (".jsonl", ".ndjson", ".json", ".agentlog", ".parquet", ".gz")
_NOT_READ = (".csv", ".tsv", ".eval", ".zst", ".zstd")
_PATTERN = re.compile(r"([\[\]{}*?\\])")
# What Hadoop finds by itself: `file:`, `hdfs:`, `s3a:`; a drive of Windows has one letter.
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")


@dataclass(frozen=True, slots=True)
class RunFile:
    """What the user calls a file, what Hadoop knows it by, whether it is a table, its bytes, and whether Spark listed it."""

    name: str
    key: str
    is_table: bool
    size_bytes: int
    listed: bool = False


def escaped(path: str) -> str:
    """Return a path as Spark reads it: as itself, and not as a pattern."""
    return _PATTERN.sub(r"\\\1", path)


def check_local_files(run: object, folder: Path) -> None:
    """Raise where a run is none, or its files on this machine are not there or cannot be read; addresses are Spark's to find."""
    if not hasattr(run, "sparkSession"):
        for name in _path_names(run):
            if not _ADDRESS.match(name):
                _local_files(name, folder)


def run_files(session: SparkSession, run: object, folder: Path) -> list[RunFile]:
    """Return the files of a run in their order, each once, however many of its paths lead there."""
    once: dict[str, RunFile] = {}
    for name in _path_names(run):
        for file in _listed(session, name) if _ADDRESS.match(name) else _local_files(name, folder):
            # A folder and a glob may lead to the same file.
            once.setdefault(os.path.realpath(file.key) if file.key.startswith("/") else file.key, file)
    return list(once.values())


def _path_names(run: object) -> list[str]:
    names = [run] if isinstance(run, str | Path) else run
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str | Path) for n in names):
        raise UsageError(
            "a run is neither a path nor a frame", hint="pass a path, several of them, or a Spark DataFrame"
        )
    return list(map(str, names))


def _listed(session: SparkSession, name: str) -> list[RunFile]:
    with named_failures(name):
        reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
        listed = reader.load(name).select("path", "length").collect()
    # Empty files are left out here: Spark itself writes them.
    sizes = {file_key(row.path): row.length for row in listed if row.length}
    # A file that was named itself is read whatever it is called, as `part-00000`.
    itself = len(sizes) == 1 and file_key(name) in sizes
    for key in sorted(sizes):
        if key.lower().removesuffix(".gz").endswith(_NOT_READ):
            hint = "write it as JSON lines or Parquet, or name the other files apart"
            raise UsageError(f"`{key}` is of a kind that Spark does not split", hint=hint)
    found = [key for key in sorted(sizes) if itself or key.lower().endswith(_READ)]
    if not found:
        hint = f"expected files that are not empty, ending in {', '.join(_READ)}"
        raise EmptyInputError("no traces there", source=name, hint=hint)
    return [RunFile(key, key, key.lower().endswith(".parquet"), sizes[key], listed=True) for key in found]


def _local_files(name: str, folder: Path) -> list[RunFile]:
    if name == "-" or Path(name).is_fifo():
        what = "standard input" if name == "-" else f"the pipe `{name}`"
        raise UsageError(f"{what} is no run for Spark", hint="name a path that the executors can read")
    return [_local_file(source) for source in find_sources([name], folder)]


def _local_file(source: Source) -> RunFile:
    """Return a file of this machine; one that Spark would leave out or misread without a word is an error."""
    name, again = source.path.name, "leave Spark out of it"
    if name.startswith(".") or (name.startswith("_") and "=" not in name):
        what = f"`{source.name}` is hidden to Spark, which leaves out names that begin with `{name[0]}`"
        raise UsageError(what, hint=f"rename it, or {again}")
    if ":" in name:
        raise UsageError(f"`{source.name}` has a colon in its name, which Hadoop cannot spell", hint="rename it")
    if source.kind not in (Kind.LINES, Kind.PARQUET):
        hint = f"write it as JSON lines or Parquet, or {again}"
        raise UsageError(f"`{source.name}` is {source.kind}, which Spark does not split", hint=hint)
    # Spark knows a compressed file by its name alone.
    if source.compression == "zstd" or name.lower().endswith(".gz") != (source.compression == "gzip"):
        hint = "pack it by gzip with a name in .gz, or not at all"
        raise UsageError(f"`{source.name}` is packed in a way that Spark does not know", hint=hint)
    path = source.path.absolute()
    # Hadoop takes `a/../b` for `b`, and would know the file by another name than we do.
    path = path.resolve() if ".." in path.parts else path
    return RunFile(source.name, str(path), source.kind is Kind.PARQUET, source.size_bytes)
