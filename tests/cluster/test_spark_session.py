"""Java and sessions: what is not there is said in one line, before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demur.adapters.spark_session import check_java, open_session
from demur.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_no_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Java the line says what to install, wherever it was looked for."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"needs Java, and there is none at `.*/bin/java`; install Java 17"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs Java, and there is none; install Java 17"):
        check_java()


@pytest.mark.parametrize(
    ("said", "shown"),
    [('openjdk version "11.0.2"', "Java 11"), ('java version "1.8.0_201"', "Java 8"), ("?", "Java of")],
)
def test_an_old_java_is_named(tmp_path: Path, said: str, shown: str) -> None:
    """A Java that Spark does not run on is refused with its version and its place."""
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    with pytest.raises(UsageError, match=f"{shown} .*too old for Spark; install Java 17 or later"):
        check_java(str(java))


def test_a_session_that_is_open_is_used_and_left_open(spark: SparkSession) -> None:
    """Others' sessions are neither replaced nor stopped; another master beside them is refused."""
    with open_session() as session:
        assert session.sparkContext is spark.sparkContext
    with pytest.raises(UsageError, match="a session is open already, not on `local"), open_session("local[1]"):
        pass
    assert spark.range(2).count() == 2
