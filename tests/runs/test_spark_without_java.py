"""Java and masters: what is not there is said in one line, before anything is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from demur.errors import UsageError
from demur.runs.spark.session import check_java, open_session


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


def test_a_master_that_does_not_answer_is_named_at_once() -> None:
    """Nobody at the address of a master is one line, where Spark itself would go on trying."""
    pytest.importorskip("pyspark", reason="no PySpark")
    with socket.socket() as taken:
        # Bound and not listening: whoever connects is refused.
        taken.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(UsageError, match=r"no Spark at `spark://.*` \(connection refused\); check"),
            open_session(master),
        ):
            pass
    with pytest.raises(UsageError, match=r"\(it has no port\)"), open_session("spark://nowhere:x"):
        pass
