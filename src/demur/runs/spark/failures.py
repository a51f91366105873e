"""What Spark says when it fails, in one line of ours: what happened, and what to do.

Laws: a failure that users run into has words of its own, any other the cause inside its page of Java; an error of ours that an
executor raised comes back as what it was.
"""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from demur.errors import DemurError, InputError, ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["java_error", "named_failures", "without_pandas_talk", "words_of"]

_RAISED = re.compile(r"^demur\.errors\.(\w+): (.+)$", re.MULTILINE)
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ")
_PYTHON_ERROR = re.compile(r"^[A-Za-z_]+(?:Error|Exception): ")
_NEXT_SENTENCE = re.compile(r"\. (?=[A-Z])")
_NO_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


@contextmanager
def named_failures(name: str) -> Iterator[None]:
    """Raise what Spark raises as an error of ours, in one line; `name` is what was being read."""
    from pyspark.errors import PySparkException

    try:
        with without_pandas_talk(), _without_pages():
            yield
    except (PySparkException, java_error()) as exc:
        raise _spark_failure(str(exc), name, words_of(exc)) from exc


_KNOWN: tuple[tuple[tuple[str, ...], type[DemurError], str, str], ...] = (
    (
        ("PATH_NOT_FOUND", "FileNotFoundException"),
        InputError,
        "no such file or directory",
        "check the path, as the executors see it",
    ),
    (
        ("CANNOT_MERGE", "Failed merging schema", "FAILED_READ_FILE.PARQUET_COLUMN"),
        ShapeError,
        "its files have mixed schemas ({})",
        "give the column one type in every file (one of nulls alone has a type too), or name the files apart",
    ),
    (
        ("PARQUET_TYPE_ILLEGAL", "PARQUET_TYPE_NOT_SUPPORTED"),
        ShapeError,
        "a column has a type that Spark does not read ({})",
        "write it in another type, or leave it out",
    ),
    (
        ("UnsupportedFileSystemException", "No FileSystem for scheme", "FileSystem not found"),
        InputError,
        "no file system for this address",
        "add its Hadoop package to the session (spark.jars.packages)",
    ),
    (
        ("is not a Parquet file",),
        InputError,
        "no Parquet, though a file of it is called so ({})",
        "check how it was written, or name it for what it is",
    ),
    (
        ("Incomplete HDFS URI",),
        InputError,
        "no host in this address",
        "name it, as in hdfs://host:8020/path, or set fs.defaultFS",
    ),
    (
        ("ConnectException", "UnknownHostException", "NoRouteToHostException"),
        InputError,
        "nobody answers there ({})",
        "check the address, and that the store can be reached",
    ),
    (
        ("PYTHON_VERSION_MISMATCH",),
        UsageError,
        "the executors run another Python than the driver",
        "set PYSPARK_PYTHON to the same one",
    ),
)
"""What Spark says of what users run into: its words, our error, our words, and what to do."""


def _spark_failure(text: str, name: str, first: str) -> DemurError:
    raised = _RAISED.findall(text)
    if raised:
        return InputError(raised[-1][1], source=name)
    lacking = _NO_PACKAGE.search(text)
    if lacking:
        hint = "install demur and its dependencies in the Python of every executor, or ship them with spark.archives"
        return UsageError(f"the executors have no package `{lacking[1].partition('.')[0]}`", hint=hint)
    for words, kind, what, hint in _KNOWN:
        if any(word in text for word in words):
            error = kind(what.format(first), hint=hint)
            return error.at(name) if isinstance(error, InputError) else error
    return InputError(f"Spark failed: {first}", source=name, hint="see the executors' logs")


def words_of(exc: BaseException) -> str:
    """Return the line of a failure that says what happened: the cause inside a page of Java, where there is one."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    caused = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    # Py4J says first which call failed, and then, behind a colon, how.
    thrown = [line.removeprefix(": ") for line in lines[1:2] if line.startswith(": ")]
    chosen = (caused or thrown or lines or [type(exc).__name__])[-1 if caused else 0]
    if "Python worker" in chosen:
        chosen = next((line for line in reversed(lines) if _PYTHON_ERROR.match(line)), chosen)
    # What it says first is what happened; then comes advice on Spark's own settings.
    said = _NEXT_SENTENCE.split(_JAVA_CLASS.sub("", chosen))[0]
    return re.sub(r"\s*SQLSTATE: \w+", "", said).rstrip(".;")[:200]


def java_error() -> type[Exception]:
    """Return what Py4J raises for whatever Java throws."""
    # It has no types of its own, and none where it is not installed.
    found: type[Exception] = import_module("py4j.protocol").Py4JError
    return found


@contextmanager
def _without_pages() -> Iterator[None]:
    """Keep PySpark from printing a page of Java for a query that it refuses: we say it in a line."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    usual = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, usual, strict=True):
            logger.disabled = disabled


@contextmanager
def without_pandas_talk() -> Iterator[None]:
    """Keep PySpark's word on pandas' version away: nothing here goes through pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield
