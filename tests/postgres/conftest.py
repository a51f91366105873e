"""A real PostgreSQL server for these tests, in a temporary folder; skipped with a sentence where none is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = count()


def programs() -> Path | None:
    """Where initdb and postgres are: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    if found and shutil.which("postgres"):
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def as_whom() -> dict[str, Any]:
    """How to start a program as somebody who is not root, whom the server refuses."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            who = pwd.getpwnam(name)
            return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server, up to the database's name."""
    pytest.importorskip("psycopg", reason="the PostgreSQL driver is not installed: pip install 'demur[postgres]'")
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip("PostgreSQL is not installed: run `sh scripts/postgres`")
    who = as_whom()
    folder = Path(tempfile.mkdtemp(prefix="demur-postgres-"))
    if who:
        os.chown(folder, who["user"], who["group"])
    try:
        make: list[str | Path] = [
            bin_folder / "initdb",
            "-D",
            folder / "data",
            "-U",
            "demur",
            "--auth=trust",
            "--no-locale",
            "-E",
            "UTF8",
        ]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **who)  # noqa: S603 — a program found above
        # No port at all: the socket in the folder is free by being new.
        run: list[str | Path] = [
            bin_folder / "postgres",
            "-D",
            folder / "data",
            "-k",
            folder,
            "-c",
            "listen_addresses=",
        ]
        with subprocess.Popen(run, stderr=subprocess.PIPE, text=True, cwd=folder, **who) as process:  # noqa: S603 — as above
            assert process.stderr is not None
            try:
                said = next((line for line in process.stderr if "ready to accept connections" in line), None)
                assert said is not None, "the server did not start"
                yield f"postgresql://demur@/DATABASE?host={folder}"
            finally:
                process.send_signal(signal.SIGQUIT)
                process.communicate()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(server: str) -> str:
    """The address of a new, empty database."""
    import psycopg

    name = f"log_{next(_NUMBERS)}"
    with psycopg.connect(server.replace("DATABASE", "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.replace("DATABASE", name)
