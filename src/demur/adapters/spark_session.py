"""A Spark session: the one that there is, or one of our own; and what Spark says when it fails, in one line.

Laws: a session that others opened is used and left open, its settings untouched; without Java, or with one that is too old,
nothing is started; what fails on an executor is named with what to do, not by a page of Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from demur.errors import DemurError, InputError, ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from demur.adapters.ports import Progress

__all__ = ["check_java", "map_arrow", "named_failures", "open_session", "watched"]

_OLDEST_JAVA = 17
_EVERY_S = 0.3
_SETTINGS = {
    "spark.app.name": "demur",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_LOCAL_PARTITIONS = "4"
"""Of a shuffle where all executors are on this machine; a cluster has its own number."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_RAISED = re.compile(r"^demur\.errors\.(\w+): (.+)$", re.MULTILINE)
_NO_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")


@contextmanager
def open_session(master: str | None = None) -> Iterator[SparkSession]:
    """Give the active session, or a new one on `master` (this machine where it is None), which is stopped afterwards."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as exc:
        raise UsageError("the Spark engine needs PySpark", hint="pip install 'demur[cluster]'") from exc
    active = SparkSession.getActiveSession()
    if active is not None:
        if master is not None and master != active.conf.get("spark.master", ""):
            raise UsageError(f"a session is open already, not on `{master}`", hint="drop the master, or stop it first")
        yield active
        return
    session = _started(master or os.environ.get("MASTER") or "local[*]")
    try:
        yield session
    finally:
        session.stop()


def _started(master: str) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = dict(_SETTINGS)
    if master.startswith("local"):
        check_java()
        settings |= _LOOPBACK | {"spark.sql.shuffle.partitions": _LOCAL_PARTITIONS}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    elif not master.startswith("sc://"):
        check_java()
    builder = SparkSession.builder
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    try:
        with _without_pandas_talk():
            return builder.config(map=settings).getOrCreate()
    except (PySparkException, OSError, _java_error()) as exc:
        what = _first_line(exc)
        raise UsageError(
            f"no Spark at `{master}` ({what})", hint="check the master's address and that it runs"
        ) from exc


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

    with _without_pandas_talk():
        return frame.mapInArrow(function, from_arrow_schema(schema))


@contextmanager
def _without_pandas_talk() -> Iterator[None]:
    """Keep PySpark's word on pandas' version away: nothing here goes through pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield


@contextmanager
def named_failures(name: str) -> Iterator[None]:
    """Raise what Spark raises as an error of ours, in one line; `name` is what was being read."""
    from pyspark.errors import PySparkException

    try:
        with _without_pandas_talk():
            yield
    except (PySparkException, _java_error()) as exc:
        raise _spark_failure(str(exc), name, _first_line(exc)) from exc


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
        "give the column one type in every file, or name the files apart",
    ),
    (
        ("UnsupportedFileSystemException", "No FileSystem for scheme"),
        InputError,
        "no file system for this address",
        "add its Hadoop package to the session (spark.jars.packages)",
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


def _first_line(exc: BaseException) -> str:
    """Return the line of a failure that says what happened: the cause inside a page of Java, where there is one."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    caused = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    chosen = (caused or lines or [type(exc).__name__])[-1 if caused else 0]
    return re.sub(r"\s*SQLSTATE: \w+", "", chosen).rstrip(".")[:200]


def _java_error() -> type[Exception]:
    # It has no types of its own, and none where it is not installed.
    found: type[Exception] = import_module("py4j.protocol").Py4JError
    return found


@contextmanager
def watched(session: SparkSession, progress: Progress | None, *, name: str, size_bytes: int) -> Iterator[None]:
    """Tell how much of the jobs inside is done; a session without a tracker (Spark Connect) tells nothing."""
    context = getattr(session, "_sc", None)
    if progress is None or context is None:
        yield
        return
    group = f"demur-{id(progress)}-{name}"
    context.setJobGroup(group, f"demur: {name}")
    teller = _Teller(context.statusTracker(), group, progress, size_bytes=size_bytes)
    teller.start()
    try:
        yield
    finally:
        teller.stop()


class _Teller(threading.Thread):
    """Asks Spark how many tasks are done, and passes it on as a share of the bytes that there are to read."""

    def __init__(self, tracker: Any, group: str, progress: Progress, *, size_bytes: int) -> None:  # noqa: ANN401 — PySpark's own object
        super().__init__(daemon=True)
        self._tracker = tracker
        self._group = group
        self._progress = progress
        self._size = size_bytes
        self._stage = -1
        self._told = 0
        self._done = threading.Event()

    def run(self) -> None:
        """Tell until it is stopped."""
        while not self._done.wait(_EVERY_S):
            jobs = (self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(self._group))
            stages = (self._tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds)
            running = [stage for stage in stages if stage and stage.numActiveTasks]
            if running:
                self._tell(running[-1])

    def stop(self) -> None:
        """Tell no more."""
        self._done.set()
        self.join()

    def _tell(self, stage: Any) -> None:  # noqa: ANN401 — PySpark's own object
        if stage.stageId != self._stage:
            self._stage, self._told = stage.stageId, 0
            self._progress.start(f"Spark, stage {stage.stageId}", self._size)
        read = self._size * stage.numCompletedTasks // max(1, stage.numTasks)
        self._progress.read(read - self._told)
        self._told = read
