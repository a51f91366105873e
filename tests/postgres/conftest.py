"""Real PostgreSQL servers for these tests, in temporary folders; skipped with a sentence where none is installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.http.loopback_upstream import certificate

from demur.record.store.postgres import PostgresConnection

_NUMBERS = count()
PASSWORD = "s/e@c:r?e%t"  # noqa: S105 — of a server that lives for a test
ENCODED = "s%2Fe%40c%3Ar%3Fe%25t"


def programs() -> Path:
    """Where initdb and postgres are: on the path, or where Debian puts them."""
    pytest.importorskip("pg8000", reason="the PostgreSQL driver is not installed: pip install 'demur[postgres]'")
    found = shutil.which("initdb")
    if found and shutil.which("postgres"):
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists():
            return folder
    pytest.skip("PostgreSQL is not installed: run `sh scripts/postgres`")


def as_whom() -> dict[str, Any]:
    """How to start a program as somebody who is not root, whom the server refuses."""
    if sys.platform == "win32" or os.getuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            who = pwd.getpwnam(name)
            return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


@dataclass
class Server:
    """A server in a folder of its own; without flags it has no port at all, but a socket in the folder."""

    folder: Path
    bin_folder: Path
    who: dict[str, Any]
    flags: tuple[str, ...] = ("-c", "listen_addresses=")
    process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The address by the socket, up to the database's name."""
        return f"postgresql://demur@/DATABASE?host={self.folder}"

    def make(self, *flags: str | Path) -> None:
        """Make the files."""
        known = ("-D", self.folder / "data", "-U", "demur", "--no-locale", "-E", "UTF8")
        make: list[str | Path] = [self.bin_folder / "initdb", *known, *flags]
        subprocess.run(make, check=True, capture_output=True, cwd=self.folder, **self.who)  # noqa: S603 — a program found above

    def start(self) -> None:
        """Start it, and return once it is ready."""
        run: list[str | Path] = [self.bin_folder / "postgres", "-D", self.folder / "data", "-k", self.folder]
        self.process = subprocess.Popen(  # noqa: S603 — as above
            [*run, *self.flags], stderr=subprocess.PIPE, text=True, cwd=self.folder, **self.who
        )
        assert self.process.stderr is not None
        said = next((line for line in self.process.stderr if "ready to accept connections" in line), None)
        assert said is not None, "the server did not start"

    def stop(self) -> None:
        """End it at once, without a word to its clients' transactions."""
        if self.process is not None:
            # Immediate shutdown, in PostgreSQL's words.
            self.process.send_signal(getattr(signal, "SIGQUIT", signal.SIGTERM))
            self.process.communicate()
            self.process = None


@contextmanager
def server_folder() -> Iterator[Server]:
    """Yield a server that is not made yet; ended and removed afterwards."""
    bin_folder, who = programs(), as_whom()
    folder = Path(tempfile.mkdtemp(prefix="demur-postgres-"))
    if who and hasattr(os, "chown"):
        os.chown(folder, who["user"], who["group"])
    made = Server(folder, bin_folder, who)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server, up to the database's name."""
    with server_folder() as made:
        made.make("--auth=trust")
        made.start()
        yield made.url


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server of the test's own, to be ended and started again."""
    with server_folder() as made:
        made.make("--auth=trust")
        made.start()
        yield made


@pytest.fixture(scope="session")
def guarded() -> Iterator[tuple[str, Path]]:
    """A server on the loopback that asks for a password and can encrypt: `host:port`, and its certificate."""
    with server_folder() as made:
        (made.folder / "password").write_text(PASSWORD + "\n", encoding="utf-8")
        made.make("--auth=scram-sha-256", f"--pwfile={made.folder / 'password'}")
        certificate(made.folder)
        key = made.folder / "loopback.key"
        key.chmod(0o600)
        if made.who and hasattr(os, "chown"):
            os.chown(key, made.who["user"], made.who["group"])
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        files = {"ssl_cert_file": made.folder / "loopback.pem", "ssl_key_file": key}
        settings = {"listen_addresses": "127.0.0.1", "port": port, "ssl": "on", **files}
        made.flags = tuple(f"--{name}={value}" for name, value in settings.items())
        made.start()
        yield f"127.0.0.1:{port}", made.folder / "loopback.pem"


@pytest.fixture
def database(server: str) -> str:
    """The address of a new, empty database."""
    name = f"log_{next(_NUMBERS)}"
    link = PostgresConnection(server.replace("DATABASE", "postgres"))
    link.ask(f"CREATE DATABASE {name}")
    link.close()
    return server.replace("DATABASE", name)
