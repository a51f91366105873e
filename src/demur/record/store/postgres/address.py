"""Where is a database, and as whom is it asked? The address of PostgreSQL's own clients, read as they read it.

    postgresql://user:password@host:port/database?sslmode=verify-full&sslrootcert=ca.pem

Laws: what the address leaves out comes from the variables of the same clients (PGPASSWORD, PGSSLMODE, …), a password also from
`~/.pgpass`; a parameter that we do not heed is refused, never passed over; no message holds a part of an address that may be of
a password; `allow` encrypts wherever the server can, as `prefer` does.
"""

from __future__ import annotations

import getpass
import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from demur.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PostgresAddress", "SslMode", "postgres_address", "without_password"]

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
"""The parameters that are heeded, and the variable that each may stand in."""
_URL = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<host>\[[^\]@/]*\]|[^:/?@\[\]]*)(?::(?P<port>[0-9]*))?(?:/(?P<dbname>[^?@/]*))?(?:\?(?P<rest>.*))?",
    re.DOTALL,
)
_PASSWORDS = re.compile(
    r"(?P<user>//[^/@:\s]*:)[^@\s]*(?=@)|(?P<named>[?&](?:password|sslpassword)=)[^&\s]*", re.IGNORECASE
)
_FOLDERS = ("/var/run/postgresql", "/tmp")  # noqa: S108 — where servers put their sockets
_PATIENCE_S = 10
"""How long a server may take to let somebody in, where the address does not say."""
_LAST_PORT = 65535
_OTHERS_READ = 0o077


def without_password(address: str) -> str:
    """Return an address as people may see it, whatever kind it is: stars stand for a password."""
    return _PASSWORDS.sub(lambda found: f"{found['user'] or found['named']}***", address)


class SslMode(StrEnum):
    """How much is asked of the encryption, in the words of PostgreSQL."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database and who asks it; `host` is a name, a number, or the folder of a socket."""

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
        """The file of the socket; None where the server is asked over TCP."""
        return f"{self.host}/.s.PGSQL.{self.port}" if self.host.startswith("/") else None

    @property
    def shown(self) -> str:
        """Where the server is, for people."""
        return self.socket_path or f"{self.host}:{self.port}"


def postgres_address(url: str, environ: Mapping[str, str] | None = None) -> PostgresAddress:
    """Return what an address says, filled up from the environment."""
    variables = os.environ if environ is None else environ
    given = _parameters(url)
    found = {name: given.get(name) or variables.get(variable) or None for name, variable in _VARIABLES.items()}
    port = _whole_number(found["port"] or "5432", "port", most=_LAST_PORT)
    user = found["user"] or getpass.getuser()
    host, database = found["host"] or _near(port), found["dbname"] or user
    return PostgresAddress(
        host=host,
        port=port,
        database=database,
        user=user,
        password=found["password"] or _kept_password(found["passfile"], (host, str(port), database, user)),
        sslmode=_ssl_mode(found["sslmode"] or SslMode.PREFER),
        root_certificate=found["sslrootcert"],
        certificate=found["sslcert"],
        key=found["sslkey"],
        # Nought is without end, as it is for PostgreSQL's own clients.
        connect_timeout_s=_whole_number(found["connect_timeout"] or str(_PATIENCE_S), "connect_timeout", most=86400)
        or None,
        application_name=found["application_name"] or "demur",
        options=found["options"],
    )


def _parameters(url: str) -> dict[str, str]:
    match = _URL.fullmatch(url)
    if match is None:
        raise UsageError(
            "the address of the database cannot be read",
            hint="write postgresql://user:password@host:port/database, and @ : / of a password as %40 %3A %2F",
        )
    parts = match.groupdict(default="")
    found = {name: unquote(parts[name]) for name in ("user", "password", "host", "port", "dbname")}
    found["host"] = found["host"].strip("[]")
    for pair in filter(None, parts["rest"].split("&")):
        name, _, value = pair.partition("=")
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


def _ssl_mode(text: str) -> SslMode:
    try:
        return SslMode(text)
    except ValueError as exc:
        raise UsageError(f"`{text}` is no sslmode", hint=f"one of {', '.join(SslMode)}") from exc


def _near(port: int) -> str:
    """Return where a server on this machine listens: the folder of its socket, else the loopback."""
    return next((folder for folder in _FOLDERS if Path(folder, f".s.PGSQL.{port}").exists()), "localhost")


def _kept_password(named: str | None, wanted: tuple[str, ...]) -> str | None:
    """Return the password that a file of `host:port:database:user:password` has for this; a star fits all."""
    path = Path(named or "~/.pgpass").expanduser()
    try:
        if path.stat().st_mode & _OTHERS_READ:
            raise UsageError(f"others can read the passwords in `{path}`", hint=f"chmod 600 {path}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    host = "localhost" if wanted[0].startswith("/") else wanted[0]
    for line in lines:
        fields = [re.sub(r"\\(.)", r"\1", part) for part in re.split(r"(?<!\\):", line, maxsplit=4)]
        *keys, password = fields
        if len(keys) == len(wanted) and all(
            key in ("*", value) for key, value in zip(keys, (host, *wanted[1:]), strict=True)
        ):
            return password
    return None
