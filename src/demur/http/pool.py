"""How are many requests carried to one provider over connections that are used again and again?

Laws: the connection used last is used next, so that spare ones run out of time; an unused connection is looked at
before it is used, since a provider may have closed it meanwhile; a request is sent a second time once at most, only
where a used connection ended before a byte of the answer, and only where nothing of it was sent or it is safe to send
twice (a method that is idempotent by RFC 9110, section 9.2.2, or an `Idempotency-Key`); proxies named in the
environment are not used, and redirects not followed: the provider is the one that the settings name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from typing import TYPE_CHECKING, Any

from demur.errors import UpstreamConnectError, UpstreamCutError, UpstreamTimeoutError, UsageError
from demur.http.client_connection import Connection
from demur.http.upstream import UpstreamLimits, UpstreamTimeouts, origin_of, request_head

if TYPE_CHECKING:
    from demur.http.upstream import Origin, UpstreamAnswer, UpstreamRequest

__all__ = ["HttpPool", "upstream_tls"]

_IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"))
_EYEBALLS_S = 0.25
"""How long the first address is tried alone (RFC 8305 recommends 250 ms)."""


def upstream_tls(*, ca_file: str | None = None, verify: bool = True) -> ssl.SSLContext:
    """Return how certificates are checked: by the system's authorities, or by those in a file, or not at all."""
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
    """Connections to one provider; an `Upstream`."""

    def __init__(
        self,
        url: str,
        *,
        timeouts: UpstreamTimeouts | None = None,
        limits: UpstreamLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._origin: Origin = origin_of(url)
        self._timeouts = timeouts or UpstreamTimeouts()
        self._limits = limits or UpstreamLimits()
        self._tls = (tls or upstream_tls()) if self._origin.secure else None
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._closed = False

    @property
    def idle(self) -> int:
        """How many connections are kept unused."""
        return len(self._idle)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """Return the answer as soon as its headers are there; raise an `UpstreamError` where none comes."""
        head = request_head(request, self._origin)
        head_only = request.method == "HEAD"
        connection = self._reusable()
        if connection is not None:
            try:
                return await connection.exchange(head, request.body, head_only=head_only, size_bytes=request.size_bytes)
            except UpstreamCutError as exc:
                if exc.received or not _may_resend(request, unsent=connection.unsent):
                    raise
        connection = await self._connect()
        return await connection.exchange(head, request.body, head_only=head_only, size_bytes=request.size_bytes)

    async def close(self) -> None:
        """Close every connection; answers that are still arriving are cut off."""
        self._closed = True
        for connection in tuple(self._open):
            connection.abandon()
        self._idle.clear()
        # Transports tell of their end in the next round of the event loop.
        await asyncio.sleep(0)

    def _reusable(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.alive():
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        if self._closed:
            raise UpstreamConnectError("the gateway is shutting down")
        origin, where = self._origin, self._origin.authority
        loop = asyncio.get_running_loop()
        # Another event loop than asyncio's own may not know how to try two addresses at once.
        own = isinstance(loop, asyncio.BaseEventLoop) and not _is_address(origin.host)
        more: dict[str, Any] = {"happy_eyeballs_delay": _EYEBALLS_S} if own else {}
        connection: Connection
        try:
            async with asyncio.timeout(self._timeouts.connect_s):
                _, connection = await loop.create_connection(
                    self._made,
                    origin.host,
                    origin.port,
                    ssl=self._tls,
                    server_hostname=origin.host if self._tls else None,
                    **more,
                )
        except TimeoutError as exc:
            what = f"no connection to `{where}` within {self._timeouts.connect_s:g} s (connect timeout)"
            raise UpstreamTimeoutError(what, which="connect", hint="see `timeouts.connect_s`") from exc
        except ssl.SSLCertVerificationError as exc:
            what = f"the certificate of `{where}` is not trusted: {exc.verify_message.lower()}"
            raise UpstreamConnectError(what, hint="see `upstream.ca_file`") from exc
        except (OSError, UnicodeError) as exc:
            why = (getattr(exc, "strerror", None) or "it cannot be reached").lower()
            raise UpstreamConnectError(f"no connection to `{where}`: {why}", hint="see `upstream.url`") from exc
        return connection

    def _made(self) -> Connection:
        return Connection(self, self._timeouts, limits=self._limits)

    def opened(self, connection: Connection) -> None:
        """Take note of a new connection."""
        self._open.add(connection)

    def freed(self, connection: Connection) -> None:
        """Keep a connection that can be used again, unless enough are kept."""
        if self._closed or len(self._idle) >= self._limits.idle_connections:
            connection.close()
        else:
            self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
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


def _is_address(host: str) -> bool:
    """Return whether a host is one address, so that there are no two to try; a race that is given up may leave a socket open."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
