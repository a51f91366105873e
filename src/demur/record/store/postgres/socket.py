"""How is a PostgreSQL server reached? By its socket or over TCP, encrypted as far as the address asks.

Laws: the socket is ours and not the driver's, so that its deadlines and its encryption are; a password is sent to nobody who does not
show the certificate that the address asks for; a server that vanished is given up within a minute.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from struct import Struct
from typing import TYPE_CHECKING

from demur.errors import StoreError, UsageError
from demur.record.store.postgres.address import SslMode

if TYPE_CHECKING:
    from demur.record.store.postgres.address import PostgresAddress

__all__ = ["dialled_server", "stranger_there"]

_SSL_REQUEST = Struct("!ii").pack(8, 80877103)
_VERIFYING = (SslMode.VERIFY_CA, SslMode.VERIFY_FULL)
_OPPORTUNIST = (SslMode.ALLOW, SslMode.PREFER)
_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))
"""A server that vanished without a word is given up within a minute: seconds, and milliseconds for the last."""


def dialled_server(address: PostgresAddress) -> socket.socket:
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
                _kept_alive(plain)
        except OSError as exc:
            said = (exc.strerror or str(exc)).lower()
            what = f"the server cannot be reached at `{address.shown}` ({said})"
            raise StoreError(what, hint="check the address and that it runs") from exc
        found = plain if address.socket_path else _encrypted(plain, address)
        undo.pop_all()
    return found


def _kept_alive(plain: socket.socket) -> None:
    # A statement is several small writes: held back until the last is acknowledged, each would wait 40 ms.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE:
        if hasattr(socket, name):
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _encrypted(plain: socket.socket, address: PostgresAddress) -> socket.socket:
    if address.sslmode is SslMode.DISABLE:
        return plain
    context = _trusting(address)
    try:
        plain.sendall(_SSL_REQUEST)
        answer = plain.recv(1)
        if answer == b"S":
            return context.wrap_socket(plain, server_hostname=address.host)
    except OSError as exc:
        said = getattr(exc, "verify_message", "") or getattr(exc, "reason", None) or exc.strerror or str(exc)
        what = f"no encrypted connection to `{address.shown}` ({str(said).lower()})"
        raise StoreError(what, hint="check sslmode, sslrootcert and the server's certificate") from exc
    if answer != b"N":
        raise stranger_there(address)
    if address.sslmode not in _OPPORTUNIST:
        what = f"the server at `{address.shown}` does not encrypt, and sslmode is `{address.sslmode}`"
        raise StoreError(what, hint="turn its ssl on, or choose another sslmode")
    return plain


def _trusting(address: PostgresAddress) -> ssl.SSLContext:
    """Return whom to trust: a given root certificate is held to, as PostgreSQL's clients do, even where `require` is all."""
    root = None if address.root_certificate == "system" else address.root_certificate
    if address.sslmode is SslMode.VERIFY_CA and root is None:
        raise UsageError("sslmode `verify-ca` needs an authority of your own", hint="give sslrootcert, or verify-full")
    try:
        context = ssl.create_default_context(cafile=root)
        context.check_hostname = address.sslmode is SslMode.VERIFY_FULL
        if address.sslmode not in _VERIFYING and (root is None or address.sslmode in _OPPORTUNIST):
            context.verify_mode = ssl.CERT_NONE
        if address.certificate is not None:
            # Without a password the library would ask for one at the terminal.
            context.load_cert_chain(address.certificate, address.key, password="")
    except OSError as exc:
        raise UsageError(
            f"a certificate of the database's address cannot be read ({exc.strerror or exc})",
            hint="check sslrootcert, sslcert and sslkey",
        ) from exc
    return context


def stranger_there(address: PostgresAddress) -> StoreError:
    """Return what to say of somebody who does not answer as a server does."""
    what = f"what is at `{address.shown}` ended the connection, or is no PostgreSQL server"
    return StoreError(what, hint="check host and port, and its log")
