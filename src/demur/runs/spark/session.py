"""A Spark session: the one that is open or one of our own, how far its jobs are, and what it says when it fails.

A session that others opened is used and left open, its settings untouched; without Java, or with one that is too old, nothing is
started; one that we start prints nothing by itself.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from demur.errors import DemurError, InputError, ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from demur.runs.options import Progress

__all__ = ["check_java", "map_arrow", "named_failures", "open_session", "watched"]

_OLDEST_JAVA = 17
_STDERR = 2
_STANDALONE = "spark://"
_ANSWER_S = 5
_JAVA_FAULTS = ("Error: ", "Error occurred", "Exception in thread", "java.lang.OutOfMemoryError")
_SETTINGS = {
    "spark.app.name": "demur",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Of a shuffle where all executors are on this machine; a cluster has its own number.
_LOCAL_PARTITIONS = "4"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@contextmanager
def open_session(master: str | None = None, progress: Progress | None = None) -> Iterator[SparkSession]:
    """Give the active session, or a new one on `master` (this machine where it is None), which is stopped afterwards."""
    # PySpark asks for pandas before it runs any function over Arrow, and only then.
    if find_spec("pyspark") is None or find_spec("pandas") is None:
        raise UsageError("the Spark engine needs PySpark and pandas", hint="pip install 'demur[cluster]'")
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        if master is not None and master != active.conf.get("spark.master", ""):
            raise UsageError(f"a session is open already, not on `{master}`", hint="drop the master, or stop it first")
        yield active
        return
    chosen = master or os.environ.get("MASTER") or "local[*]"
    if progress is not None:
        progress.start(f"starting Spark on {chosen}", 0)
    session = _started(chosen)
    try:
        yield session
    finally:
        session.stop()


def _started(master: str) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = dict(_SETTINGS)
    builder = SparkSession.builder
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        _check_master(master)
        check_java()
        builder = builder.master(master)
    if master.startswith("local"):
        settings |= _LOOPBACK | {"spark.sql.shuffle.partitions": _LOCAL_PARTITIONS}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with TemporaryFile() as said:
        try:
            with without_pandas_talk(), _errors_to(said.fileno()), _interrupts_held() as held:
                session = builder.config(map=settings).getOrCreate()
        except (PySparkException, OSError, java_error()) as exc:
            said.seek(0)
            # Why no Java machine started is only in what it printed.
            lines = (line.strip() for line in said.read().decode(errors="replace").splitlines())
            what = next((line for line in lines if line.startswith(_JAVA_FAULTS)), words_of(exc))
            hint = "check the master's address and that it runs"
            raise UsageError(f"no Spark at `{master}` ({what})", hint=hint) from exc
    if held:
        session.stop()
        raise KeyboardInterrupt
    return session


@contextmanager
def _interrupts_held() -> Iterator[list[int]]:
    """Hold interrupts back, and give those that came: a Java machine that is left alone while it starts would never end."""
    held: list[int] = []
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield held
        return

    def hold(number: int, _frame: object) -> None:
        held.append(number)

    signal.signal(signal.SIGINT, hold)
    try:
        yield held
    finally:
        # Once it runs PySpark has a handler of its own, which cancels its jobs first.
        if signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, usual)


@contextmanager
def _errors_to(file: int) -> Iterator[None]:
    """Let processes that are started inside write their errors to a file: a Java machine greets with six lines."""
    try:
        usual = os.dup(_STDERR)
    except OSError:
        # Closed by whoever called us; then nobody hears the greeting.
        yield
        return
    os.dup2(file, _STDERR)
    try:
        yield
    finally:
        os.dup2(usual, _STDERR)
        os.close(usual)


def _check_master(master: str) -> None:
    """Raise where nobody answers at the address of a standalone master: Spark itself would try for a minute."""
    if not master.startswith(_STANDALONE):
        return
    faults = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
        except ValueError:
            faults.append("it has no port")
        except OSError as exc:
            faults.append((exc.strerror or str(exc)).lower())
        else:
            return
    raise UsageError(f"no Spark at `{master}` ({faults[0]})", hint="check the master's address and that it runs")


def check_java(java: str | None = None) -> int:
    """Return the version of the Java that Spark would start; none, or one that is too old, is an error."""
    home = os.environ.get("JAVA_HOME")
    path = java or (os.path.join(home, "bin", "java") if home else shutil.which("java"))  # noqa: PTH118 — a name for a process
    hint = "install Java 17 or later (Debian: apt-get install openjdk-17-jre-headless) and set JAVA_HOME to it"
    try:
        said = subprocess.run([path or "java", "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 — the user's own Java
    except OSError as exc:
        where = f" at `{path}`" if path else ""
        raise UsageError(f"the Spark engine needs Java, and there is none{where}", hint=hint) from exc
    match = _VERSION.search(said)
    version = int(match[1]) if match else 0
    if version < _OLDEST_JAVA:
        raise UsageError(f"Java {version or 'of unknown version'} at `{path}` is too old for Spark", hint=hint)
    return version


def map_arrow(frame: DataFrame, function: Callable[[Any], Any], schema: pa.Schema) -> DataFrame:
    """Return what a function makes of the Arrow batches of a frame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    # PySpark asks for each column by its name as if that were a path: a dot in it would be a step.
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    with without_pandas_talk():
        return plain.mapInArrow(_Named(tuple(frame.columns), function).through, from_arrow_schema(schema))


@dataclass(frozen=True, slots=True)
class _Named:
    """A function of batches whose columns go by their own names; it is sent to the executors."""

    names: tuple[str, ...]
    function: Callable[[Any], Any]

    def through(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the function makes of the batches."""
        found: Iterator[pa.RecordBatch] = self.function(batch.rename_columns(list(self.names)) for batch in batches)
        yield from found


_EVERY_S = 0.3
# What a thread says of the jobs that it starts.
_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@contextmanager
def watched(session: SparkSession, progress: Progress | None, *, name: str, size_bytes: int = 0) -> Iterator[None]:
    """Tell how far the jobs inside are: how many of the bytes of a run are judged, or which step is taken where there are none.

    A session without a tracker (Spark Connect) tells nothing.
    """
    context = getattr(session, "_sc", None)
    if progress is None or context is None:
        yield
        return
    usual = {key: context.getLocalProperty(key) for key in _GROUP}
    group = f"demur-{id(progress)}-{name}"
    context.setJobGroup(group, f"demur: {name}")
    teller = _Teller(context.statusTracker(), group, progress, name=name, size_bytes=size_bytes)
    teller.start()
    try:
        yield
        teller.stop()
        teller.finish()
    finally:
        teller.stop()
        for key, value in usual.items():
            context.setLocalProperty(key, value)


class _Teller(threading.Thread):
    """Asks Spark how many tasks are done, and passes it on as a share of the bytes that there are to read."""

    def __init__(
        self,
        tracker: Any,  # noqa: ANN401 — PySpark's own object
        group: str,
        progress: Progress,
        *,
        name: str,
        size_bytes: int,
    ) -> None:
        super().__init__(daemon=True)
        self._tracker = tracker
        self._group = group
        self._progress = progress
        self._name = name
        self._size = size_bytes
        self._steps = 0
        self._told = 0
        self._done = threading.Event()
        progress.start(name, size_bytes)

    def run(self) -> None:
        """Tell until it is stopped."""
        while not self._done.wait(_EVERY_S):
            jobs = sorted(self._tracker.getJobIdsForGroup(self._group))
            if jobs and self._size:
                # The first stage of the first job reads and judges all; the others go by what is kept.
                info = self._tracker.getJobInfo(jobs[0])
                stage = self._tracker.getStageInfo(min(info.stageIds)) if info and info.stageIds else None
                read = self._size * stage.numCompletedTasks // max(1, stage.numTasks) if stage else 0
                if read > self._told:
                    self._progress.read(read - self._told)
                    self._told = read
            elif len(jobs) > self._steps:
                self._steps = len(jobs)
                self._progress.start(f"{self._name}, step {self._steps}", 0)

    def stop(self) -> None:
        """Tell no more."""
        self._done.set()
        self.join()

    def finish(self) -> None:
        """Tell that all was read."""
        if self._size:
            self._progress.read(self._size - self._told)


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


# What Spark says of what users run into: its words, our error, our words, and what to do.
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
