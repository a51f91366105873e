"""A Spark session: the one that there is, or one of our own.

Laws: a session that others opened is used and left open, its settings untouched; without Java, or with one that is too old,
nothing is started; one that we start says nothing by itself.
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
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from demur.errors import UsageError
from demur.runs.spark.failures import java_error, without_pandas_talk, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from demur.runs.ports import Progress

__all__ = ["check_java", "map_arrow", "open_session"]

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
_LOCAL_PARTITIONS = "4"
"""Of a shuffle where all executors are on this machine; a cluster has its own number."""
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
        _refuse_silent(master)
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
            what = _gateway_fault(said.read().decode(errors="replace")) or words_of(exc)
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


def _gateway_fault(said: str) -> str | None:
    """Return why no Java machine started, where it said so."""
    lines = (line.strip() for line in said.splitlines())
    return next((line for line in lines if line.startswith(_JAVA_FAULTS)), None)


def _refuse_silent(master: str) -> None:
    """Raise where nobody answers at the address of a standalone master: Spark itself would try for a minute."""
    if not master.startswith(_STANDALONE):
        return
    addresses = [address.rpartition(":") for address in master.removeprefix(_STANDALONE).split(",")]
    faults = [_connect_fault(host, port) for host, _, port in addresses]
    if all(faults):
        hint = "check the master's address and that it runs"
        raise UsageError(f"no Spark at `{master}` ({faults[0]})", hint=hint)


def _connect_fault(host: str, port: str) -> str | None:
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
    except ValueError:
        return "it has no port"
    except OSError as exc:
        return (exc.strerror or str(exc)).lower()
    return None


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
