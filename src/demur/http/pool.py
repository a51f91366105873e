"""A pool of connections to one upstream server: the HTTP client of the gateway, of remote auditors and of the judge.

Redirects are not followed, and a proxy is used only if the caller names one: the texts are meant for the server that the settings
name. A request is sent a second time at most once, and only if that is safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import ssl
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from demur.errors import UpstreamConnectError, UpstreamCutError, UpstreamTimeoutError, UsageError
from demur.http.upstream import UpstreamLimits, UpstreamTimeouts, origin_of, request_head, split_credentials
from demur.http.upstream_connection import UpstreamConnection

if TYPE_CHECKING:
    from demur.http.upstream import Origin, UpstreamRequest, UpstreamResponse

__all__ = ["HttpPool", "environment_proxy", "upstream_tls"]

_PROXY_PORT = 80
_PROXY_HEAD_BYTES = 64 * 1024
# RFC 9110, section 9.2.2.
_IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"))
_EYEBALLS_S = 0.25  # how long the first address is tried alone: RFC 8305, section 5, recommends 250 ms


@dataclass(frozen=True, slots=True)
class _Proxy:
    """An HTTP proxy: where it is, and its authorisation as a header line (empty if it needs none)."""

    host: str
    port: int
    authorization: bytes


def environment_proxy(url: str) -> str | None:
    """Return the URL of the proxy that the environment (or the system) names for a URL, None if there is none."""
    parts = urlsplit(url)
    # `no_proxy` may name a host with its port.
    return None if proxy_bypass(parts.netloc.rpartition("@")[2]) else getproxies().get(parts.scheme)


def _read_proxy(url: str) -> _Proxy:
    bare, token = split_credentials(url if "://" in url else f"http://{url}")
    try:
        parts = urlsplit(bare)
        host, port = parts.hostname, parts.port or _PROXY_PORT
    except ValueError:
        host, port = None, 0
    if not host:
        # The URL may hold a password, so it is not repeated.
        raise UsageError("the proxy's URL cannot be read", hint="give one such as http://proxy:8080")
    return _Proxy(host, port, b"proxy-authorization: %b\r\n" % token if token else b"")


def upstream_tls(*, ca_file: str | None = None, verify: bool = True) -> ssl.SSLContext:
    """Return the TLS context: trusting the system's authorities, those in a file, or anybody."""
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as exc:
        raise UsageError(f"`{ca_file}` holds no certificates", hint="name a PEM file") from exc
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


class HttpPool:
    """Connections to one server; an `Upstream`."""

    def __init__(
        self,
        url: str,
        *,
        timeouts: UpstreamTimeouts | None = None,
        limits: UpstreamLimits | None = None,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        self._origin: Origin = origin_of(url)
        self._proxy = _read_proxy(proxy) if proxy else None
        self._timeouts = timeouts or UpstreamTimeouts()
        self._limits = limits or UpstreamLimits()
        self._tls = (tls or upstream_tls()) if self._origin.secure else None
        self._idle: list[UpstreamConnection] = []
        self._open: set[UpstreamConnection] = set()
        self._closed = False

    @property
    def idle(self) -> int:
        """How many connections are idle."""
        return len(self._idle)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        """Return the response as soon as its headers are there; raise an `UpstreamError` if none comes."""
        head = request_head(request, self._origin)
        if self._proxy is not None and not self._origin.secure:
            # A proxy that does not tunnel is given the whole URL (RFC 9112, section 3.2.2).
            absolute = replace(self._origin, prefix=f"http://{self._origin.authority}{self._origin.prefix}")
            head = request_head(request, absolute)[:-2] + self._proxy.authorization + b"\r\n"
        head_only = request.method == "HEAD"
        # The connection that was used last is used next, so that spare ones reach their idle timeout.
        while self._idle:
            connection = self._idle.pop()
            if not connection.alive():
                # The server closed it meanwhile.
                connection.close()
                continue
            try:
                return await connection.exchange(head, request.body, head_only=head_only, size_bytes=request.size_bytes)
            except UpstreamCutError as exc:
                # The server may close an idle connection just as it is used again.
                if exc.received or not _may_resend(request, unsent=connection.unsent):
                    raise
                break
        connection = await self._connect()
        return await connection.exchange(head, request.body, head_only=head_only, size_bytes=request.size_bytes)

    async def close(self) -> None:
        """Close every connection; responses that are still arriving are cut off."""
        self._closed = True
        for connection in tuple(self._open):
            connection.abandon()
        self._idle.clear()
        # Transports report their end in the next iteration of the event loop.
        await asyncio.sleep(0)

    async def _connect(self) -> UpstreamConnection:
        if self._closed:
            raise UpstreamConnectError("the gateway is shutting down")
        origin, where = self._origin, self._origin.authority
        loop = asyncio.get_running_loop()
        to: dict[str, Any] = {"host": origin.host, "port": origin.port}
        if self._proxy is not None:
            to = {"host": self._proxy.host, "port": self._proxy.port}
        try:
            ipaddress.ip_address(to["host"])
        except ValueError:
            # A name may have several addresses. Other event loops than asyncio's own may not know how to race them.
            if isinstance(loop, asyncio.BaseEventLoop):
                to["happy_eyeballs_delay"] = _EYEBALLS_S
        # With a single address there is nothing to race, and a race that is given up may leave a socket open.
        connection: UpstreamConnection
        try:
            async with asyncio.timeout(self._timeouts.connect_s):
                if self._proxy is not None and origin.secure:
                    to = {"sock": await self._tunnel(loop, self._proxy)}
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self, self._timeouts, limits=self._limits),
                    ssl=self._tls,
                    server_hostname=origin.host if self._tls else None,
                    **to,
                )
        except TimeoutError as exc:
            what = f"no connection to `{where}` within {self._timeouts.connect_s:g} s (connect timeout)"
            raise UpstreamTimeoutError(what, which="connect", hint="see `timeouts.connect_s`") from exc
        except ssl.SSLCertVerificationError as exc:
            what = f"the certificate of `{where}` is not trusted: {exc.verify_message.lower()}"
            raise UpstreamConnectError(what, hint="see `upstream.ca_file`") from exc
        except (OSError, UnicodeError) as exc:
            why = (getattr(exc, "strerror", None) or "it cannot be reached").lower()
            if isinstance(exc, OSError) and exc.errno and not isinstance(exc, socket.gaierror | ssl.SSLError):
                # asyncio puts words of its own, with the address, in place of the system's.
                why = os.strerror(exc.errno).lower()
            raise UpstreamConnectError(f"no connection to `{where}`: {why}", hint="see `upstream.url`") from exc
        return connection

    async def _tunnel(self, loop: asyncio.AbstractEventLoop, proxy: _Proxy) -> socket.socket:
        """Return a socket on which a proxy forwards bytes to the origin (RFC 9110, section 9.3.6)."""
        host, port = self._origin.host, self._origin.port
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        sock = await asyncio.to_thread(socket.create_connection, (proxy.host, proxy.port), self._timeouts.connect_s)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(sock.close)
            sock.settimeout(0)
            head = f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n".encode("ascii")
            await loop.sock_sendall(sock, head + proxy.authorization + b"\r\n")
            said = b""
            # Nothing follows the proxy's headers before we start TLS, so no byte of the tunnel is read here.
            while b"\r\n\r\n" not in said and len(said) < _PROXY_HEAD_BYTES:
                piece = await loop.sock_recv(sock, _PROXY_HEAD_BYTES)
                if not piece:
                    break
                said += piece
            if said.split(b" ", 2)[1:2] != [b"200"]:
                what = f"the proxy does not connect to `{target}`"
                raise UpstreamConnectError(what, hint="check the proxy's settings")
            on_failure.pop_all()
        return sock

    def opened(self, connection: UpstreamConnection) -> None:
        """Register a new connection."""
        self._open.add(connection)

    def freed(self, connection: UpstreamConnection) -> None:
        """Keep a connection that can be used again, unless enough are idle."""
        if self._closed or len(self._idle) >= self._limits.idle_connections:
            connection.close()
        else:
            self._idle.append(connection)

    def lost(self, connection: UpstreamConnection) -> None:
        """Forget a connection."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


def _may_resend(request: UpstreamRequest, *, unsent: bool) -> bool:
    """Return whether a request may be sent a second time: its body is at hand, and doing it twice does no harm."""
    if not isinstance(request.body, bytes):
        return False
    return (
        unsent
        or request.method in _IDEMPOTENT
        or any(name.lower() == b"idempotency-key" for name, _ in request.headers)
    )
