"""An address is read as PostgreSQL's own clients read it, and no message shows what may be of a password."""

from __future__ import annotations

import socket
import string
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import UsageError
from demur.record.store.location import log_place
from demur.record.store.postgres_address import SslMode, dial, postgres_address, without_password

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NOWHERE = {"PGPASSFILE": "/no/such/file"}


@given(user=NAMES, password=NAMES, database=NAMES)
def test_any_name_and_password_is_read_back(user: str, password: str, database: str) -> None:
    """Whatever characters they have, percent-encoded they come back, and the password is in no representation."""
    url = f"postgresql://{quote(user, '')}:{quote(password, '')}@h:1234/{quote(database, '')}"
    found = postgres_address(url, NOWHERE)
    assert (found.user, found.password, found.database) == (user, password, database)
    assert (found.host, found.port, found.shown) == ("h", 1234, "h:1234")
    assert "password" not in repr(found).replace(repr(user), "").replace(repr(database), "")


@given(secret=st.text(string.ascii_letters + string.digits + "@:/?#[]%&=", min_size=1))
def test_no_message_shows_a_password_that_was_not_encoded(secret: str) -> None:
    """A password with characters that have a meaning is read whole, or refused without being shown."""
    marked = f"XYZZY{secret}PLUGH"
    url = f"postgresql://me:{marked}@host/log?sslmode=disable"
    if not {"@", "/"} & set(secret):
        found = postgres_address(url, NOWHERE)
        assert (found.host, found.database, found.sslmode) == ("host", "log", SslMode.DISABLE)
        return
    with pytest.raises(UsageError) as raised:
        postgres_address(url, NOWHERE)
    assert not any(word in str(raised.value) for word in ("XYZZY", "PLUGH"))


@pytest.mark.parametrize(
    ("url", "host", "port", "socket"),
    [
        ("postgres://me@db/log", "db", 5432, None),
        ("postgresql://me@[::1]:77/log", "::1", 77, None),
        ("postgresql://me@%2Frun%2Fpg/log", "/run/pg", 5432, "/run/pg/.s.PGSQL.5432"),
        ("postgresql://me@/log?host=/run/pg&port=77", "/run/pg", 77, "/run/pg/.s.PGSQL.77"),
        ("postgresql://me@db/log?host=other", "other", 5432, None),
    ],
)
def test_hosts_and_sockets(url: str, host: str, port: int, socket: str | None) -> None:
    """A host is a name, a number or a socket's folder, in its place or as a parameter."""
    found = postgres_address(url, NOWHERE)
    assert (found.host, found.port, found.socket_path) == (host, port, socket)


def test_the_environment_fills_up_what_is_left_out() -> None:
    """Variables stand in for what the address does not say, and never against it."""
    environ = {"PGHOST": "db", "PGUSER": "me", "PGPASSWORD": "p", "PGSSLMODE": "require", "PGCONNECT_TIMEOUT": "0"}
    found = postgres_address("postgresql:///log?sslmode=verify-full", environ | NOWHERE)
    assert (found.host, found.user, found.password, found.database) == ("db", "me", "p", "log")
    assert (found.sslmode, found.connect_timeout_s) == (SslMode.VERIFY_FULL, None)
    assert postgres_address("postgresql://", environ | NOWHERE).database == "me"


def test_the_file_of_passwords_is_read(tmp_path: Path) -> None:
    """The first line that fits gives the password, escapes and stars included; a file that others can read is refused."""
    path = tmp_path / "passwords"
    path.write_text("# mine\ndb:5432:other:me:no\ndb:*:log:me:a\\:b\\\\c\n*:*:*:*:last\n", encoding="utf-8")
    path.chmod(0o600)
    environ = {"PGPASSFILE": str(path)}
    asked = ("me@db/log", "you@db/log", "me:own@db/log")
    found = [postgres_address(f"postgresql://{one}", environ).password for one in asked]
    assert found == [r"a:b\c", "last", "own"]
    path.chmod(0o644)
    with pytest.raises(UsageError, match="others can read"):
        postgres_address("postgresql://me@db/log", environ)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://me:secret@host:port/log", "cannot be read"),
        ("postgresql://me:secret@host:70000/log", "`port`"),
        ("postgresql://me:secret@host/log/more", "cannot be read"),
        ("postgresql://me:secret@one,two/log", "several hosts"),
        ("postgresql://me:secret@host/log?sslmode=maybe", "`maybe` is no sslmode"),
        ("postgresql://me:secret@host/log?channel_binding=require", "`channel_binding`"),
        ("postgresql://me:secret@host/log?connect_timeout=soon", "`connect_timeout`"),
    ],
)
def test_a_wrong_address_is_told_in_one_line(url: str, told: str) -> None:
    """What cannot be read or is not heeded is named, without the password."""
    with pytest.raises(UsageError) as raised:
        postgres_address(url, NOWHERE)
    assert told in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_unix_socket_that_the_system_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no Unix sockets, an address without a host is an error of one line that says what to write."""
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(UsageError, match="no Unix sockets"):
        dial(postgres_address("postgresql://me@/demur?host=/tmp", NOWHERE))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:secret@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:sec/ret@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:sec:ret@host/db", "postgresql://u:***@host/db"),
        (
            "postgresql:///db?user=u&password=secret&sslmode=require",
            "postgresql:///db?user=u&password=***&sslmode=require",
        ),
        ("postgresql://host/db?PASSWORD=secret", "postgresql://host/db?PASSWORD=***"),
        ("postgresql://u@host/db", "postgresql://u@host/db"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("passports/log.db", "passports/log.db"),
    ],
)
def test_a_password_becomes_stars(address: str, shown: str) -> None:
    """Wherever the password stands, stars stand for it, and so for the place of a log; everything else stays."""
    assert without_password(address) == shown
    assert "://u" not in address or log_place(address).shown == shown
