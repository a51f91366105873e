"""PostgreSQL's address, read as its own clients read it, and the socket that leads there.

    postgresql://user:password@host:port/database?sslmode=verify-full&sslrootcert=ca.pem

What the address leaves out comes from the environment variables of the same clients (PGPASSWORD, PGSSLMODE, …), a password also
from `~/.pgpass`. The socket is ours and not the driver's, so that its timeouts and its encryption are ours too.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING
from urllib.parse import unquote

from demur.errors import StoreError, UsageError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

__all__ = ["PostgresAddress", "SslMode", "dial", "no_postgres_error", "postgres_address", "without_password"]

_VARIABLES = {
    "application_name": "PGAPPNAME",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "dbname": "PGDATABASE",
    "host": "PGHOST",
    "options": "PGOPTIONS",
    "passfile": "PGPASSFILE",
    "password": "PGPASSWORD",
    "port": "PGPORT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "user": "PGUSER",
}
"""The parameters that are supported, and the environment variable of each."""
_URL = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<host>\[[^\]@/]*\]|[^:/?@\[\]]*)(?::(?P<port>[0-9]*))?(?:/(?P<dbname>[^?@/]*))?(?:\?(?P<rest>.*))?",
    re.DOTALL,
)
_PASSWORDS = re.compile(
    r"(?P<user>//[^/@:\s]*:)[^@\s]*(?=@)|(?P<named>[?&](?:password|sslpassword)=)[^&\s]*", re.IGNORECASE
)
_FOLDERS = ("/var/run/postgresql", "/tmp")  # noqa: S108 — where servers put their sockets
_CONNECT_TIMEOUT_S = 10
_MAX_PORT = 65535
_OTHERS_READ = 0o077
# The SSLRequest message: https://www.postgresql.org/docs/current/protocol-message-formats.html.
_SSL_REQUEST = Struct("!ii").pack(8, 80877103)
# A server that vanished without closing is given up within a minute: seconds, and milliseconds for the last.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))


def without_password(address: str) -> str:
    """Return an address of any kind with stars in place of a password, for messages and logs."""
    return _PASSWORDS.sub(lambda found: f"{found['user'] or found['named']}***", address)


class SslMode(StrEnum):
    """What is required of the encryption, in PostgreSQL's own terms; `allow` encrypts where the server can, as `prefer` does."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


_VERIFYING = (SslMode.VERIFY_CA, SslMode.VERIFY_FULL)
_OPPORTUNISTIC = (SslMode.ALLOW, SslMode.PREFER)


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database and the user to connect as; `host` is a name, an IP address, or the folder of a Unix socket."""

    host: str
    port: int
    database: str
    user: str
    password: str | None = field(repr=False)
    sslmode: SslMode
    root_certificate: str | None
    certificate: str | None
    key: str | None
    connect_timeout_s: float | None
    application_name: str
    options: str | None

    @property
    def socket_path(self) -> str | None:
        """The file of the Unix socket; None where the connection is TCP."""
        return f"{self.host}/.s.PGSQL.{self.port}" if self.host.startswith("/") else None

    @property
    def shown(self) -> str:
        """Where the server is, for messages."""
        return self.socket_path or f"{self.host}:{self.port}"


def postgres_address(url: str, environ: Mapping[str, str] | None = None) -> PostgresAddress:
    """Return what an address says, completed from the environment."""
    variables = os.environ if environ is None else environ
    given = _parameters(url)
    found = {name: given.get(name) or variables.get(variable) or None for name, variable in _VARIABLES.items()}
    port = _whole_number(found["port"] or "5432", "port", most=_MAX_PORT)
    user = found["user"] or getpass.getuser()
    database, timeout = found["dbname"] or user, found["connect_timeout"] or str(_CONNECT_TIMEOUT_S)
    # libpq's default host is the Unix socket of a server on this machine, else the loopback.
    near = next((folder for folder in _FOLDERS if Path(folder, f".s.PGSQL.{port}").exists()), "localhost")
    host = found["host"] or near
    mode = found["sslmode"] or SslMode.PREFER
    if mode not in {*SslMode}:
        raise UsageError(f"`{mode}` is no sslmode", hint=f"one of {', '.join(SslMode)}")
    return PostgresAddress(
        host=host,
        port=port,
        database=database,
        user=user,
        password=found["password"] or _password_in_file(found["passfile"], (host, str(port), database, user)),
        sslmode=SslMode(mode),
        root_certificate=found["sslrootcert"],
        certificate=found["sslcert"],
        key=found["sslkey"],
        # Zero means no timeout, as it does for libpq.
        connect_timeout_s=_whole_number(timeout, "connect_timeout", most=86400) or None,
        application_name=found["application_name"] or "demur",
        options=found["options"],
    )


def _parameters(url: str) -> dict[str, str]:
    match = _URL.fullmatch(url)
    if match is None:
        # No part of the address is repeated: any of it may be a password that was not encoded.
        raise UsageError(
            "the address of the database cannot be read",
            hint="write postgresql://user:password@host:port/database, and @ : / of a password as %40 %3A %2F",
        )
    parts = match.groupdict(default="")
    found = {name: unquote(parts[name]) for name in ("user", "password", "host", "port", "dbname")}
    found["host"] = found["host"].strip("[]")
    for pair in filter(None, parts["rest"].split("&")):
        name, _, value = pair.partition("=")
        # Passing over a parameter that we do not support could mean less security than was asked for.
        if name not in _VARIABLES:
            known = ", ".join(_VARIABLES)
            raise UsageError(f"`{name}` in the address of the database is not heeded", hint=f"these are: {known}")
        found[name] = unquote(value)
    if "," in found["host"]:
        raise UsageError("the address names several hosts", hint="give one, or a proxy in front of them")
    return found


def _whole_number(text: str, name: str, *, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise UsageError(f"the `{name}` of the database's address is no number that it can be", hint=f"0 to {most}")
    return int(text)


def _password_in_file(named: str | None, wanted: tuple[str, ...]) -> str | None:
    """Return the password for this in a file of `host:port:database:user:password`, where a star matches anything."""
    path = Path(named or "~/.pgpass").expanduser()
    try:
        if path.stat().st_mode & _OTHERS_READ:
            raise UsageError(f"others can read the passwords in `{path}`", hint=f"chmod 600 {path}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    # libpq looks a Unix socket up as localhost.
    values = ("localhost" if wanted[0].startswith("/") else wanted[0], *wanted[1:])
    for line in lines:
        *keys, password = (re.sub(r"\\(.)", r"\1", part) for part in re.split(r"(?<!\\):", line, maxsplit=4))
        if len(keys) == len(values) and all(key in ("*", value) for key, value in zip(keys, values, strict=True)):
            return password
    return None


def dial(address: PostgresAddress) -> socket.socket:
    """Return a connected socket, encrypted as the address asks."""
    if address.socket_path and not hasattr(socket, "AF_UNIX"):
        raise UsageError("this system has no Unix sockets", hint="name a host in the database's address")
    with ExitStack() as undo:
        try:
            if path := address.socket_path:
                plain = undo.enter_context(socket.socket(socket.AF_UNIX))
                plain.settimeout(address.connect_timeout_s)
                plain.connect(path)
            else:
                there = (address.host, address.port)
                plain = undo.enter_context(socket.create_connection(there, address.connect_timeout_s))
                # A statement is several small writes: with Nagle's algorithm each would wait 40 ms for a delayed ACK.
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name, value in _KEEPALIVE:
                    if hasattr(socket, name):
                        plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        except OSError as exc:
            said = (exc.strerror or str(exc)).lower()
            what = f"the server cannot be reached at `{address.shown}` ({said})"
            raise StoreError(what, hint="check the address and that it runs") from exc
        found = plain if address.socket_path else _encrypt(plain, address)
        undo.pop_all()
    return found


def _encrypt(plain: socket.socket, address: PostgresAddress) -> socket.socket:
    if address.sslmode is SslMode.DISABLE:
        return plain
    context = _tls_context(address)
    try:
        plain.sendall(_SSL_REQUEST)
        # One byte and no more: whatever came with it in the clear would be read as if it were encrypted (CVE-2021-23222).
        response = plain.recv(1)
        if response == b"S":
            return context.wrap_socket(plain, server_hostname=address.host)
    except OSError as exc:
        said = getattr(exc, "verify_message", "") or getattr(exc, "reason", None) or exc.strerror or str(exc)
        what = f"no encrypted connection to `{address.shown}` ({str(said).lower()})"
        raise StoreError(what, hint="check sslmode, sslrootcert and the server's certificate") from exc
    if response != b"N":
        raise no_postgres_error(address)
    if address.sslmode not in _OPPORTUNISTIC:
        what = f"the server at `{address.shown}` does not encrypt, and sslmode is `{address.sslmode}`"
        raise StoreError(what, hint="turn its ssl on, or choose another sslmode")
    return plain


def _tls_context(address: PostgresAddress) -> ssl.SSLContext:
    import ssl

    root = None if address.root_certificate == "system" else address.root_certificate
    if address.sslmode is SslMode.VERIFY_CA and root is None:
        raise UsageError("sslmode `verify-ca` needs an authority of your own", hint="give sslrootcert, or verify-full")
    try:
        context = ssl.create_default_context(cafile=root)
        context.check_hostname = address.sslmode is SslMode.VERIFY_FULL
        # As libpq does: with a root certificate, `require` verifies the server's certificate like `verify-ca`.
        if address.sslmode not in _VERIFYING and (root is None or address.sslmode in _OPPORTUNISTIC):
            context.verify_mode = ssl.CERT_NONE
        if address.certificate is not None:
            # Without a password argument OpenSSL would ask for one at the terminal.
            context.load_cert_chain(address.certificate, address.key, password="")
    except OSError as exc:
        raise UsageError(
            f"a certificate of the database's address cannot be read ({exc.strerror or exc})",
            hint="check sslrootcert, sslcert and sslkey",
        ) from exc
    return context


def no_postgres_error(address: PostgresAddress) -> StoreError:
    """Return the error for a peer that does not speak PostgreSQL's protocol."""
    what = f"what is at `{address.shown}` ended the connection, or is no PostgreSQL server"
    return StoreError(what, hint="check host and port, and its log")
