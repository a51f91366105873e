"""How does a reply of the simulator reach the wire, whole, in pieces, late, or broken on purpose?

Laws: bytes depend on the reply alone, delays on the settings alone; a client that goes away ends its reply; a fault shows on
the wire as it would in life (a cut answer has its length announced and does not reach it).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from demur.simulate.scenario import Fault

if TYPE_CHECKING:
    from demur.http.asgi import Receive, Send
    from demur.simulate.server.errors import Headers
    from demur.simulate.settings import SimulatorSettings

__all__ = ["JSON", "Outgoing", "broken", "send_outgoing"]

JSON = b"application/json"
_PAGE = b"<!doctype html><title>Bad gateway</title><p>An intermediary answered in place of the model."
_SPOILT = b'data: {"id": "spoilt", "choices": [{"index": 0, "delta"\n\n'


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is to be sent: `pieces` is one piece for a whole body, several for a stream; `fault` spoils the sending."""

    status: int
    headers: Headers
    pieces: tuple[bytes, ...]
    content_type: bytes = JSON
    stream: bool = False
    fault: Fault | None = None


def broken(outgoing: Outgoing, fault: Fault | None) -> Outgoing:
    """Return the reply with what a fault does to its bytes; faults of time are left to the sending."""
    if fault is Fault.CONTENT_TYPE:
        return replace(outgoing, content_type=b"text/html; charset=utf-8", pieces=(_PAGE,), stream=False)
    if fault is Fault.MALFORMED:
        return replace(outgoing, pieces=_spoilt(outgoing))
    return replace(outgoing, fault=fault)


async def send_outgoing(outgoing: Outgoing, settings: SimulatorSettings, *, receive: Receive, send: Send) -> None:
    """Send a reply, at the pace of the settings."""
    pieces = outgoing.pieces
    if outgoing.fault in (Fault.CUT, Fault.STALL) and not outgoing.stream:
        half = len(pieces[0]) // 2
        pieces = (pieces[0][:half], pieces[0][half:])
    wait_ms = settings.slow_ms if outgoing.fault is Fault.SLOW else settings.first_token_ms
    if wait_ms and await _left(receive, wait_ms):
        return
    await send({"type": "http.response.start", "status": outgoing.status, "headers": _headers(outgoing)})
    last, middle = len(pieces) - 1, (len(pieces) + 1) // 2
    for number, piece in enumerate(pieces):
        pause_ms = settings.piece_ms if number else 0
        if number == middle and outgoing.fault is Fault.CUT:
            # The server closes a connection whose answer was not ended.
            return
        if number == middle and outgoing.fault is Fault.STALL:
            pause_ms = settings.stall_ms
        if pause_ms and await _left(receive, pause_ms):
            return
        await send({"type": "http.response.body", "body": piece, "more_body": number < last})


def _headers(outgoing: Outgoing) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", outgoing.content_type), *outgoing.headers]
    if outgoing.stream:
        return [*headers, (b"cache-control", b"no-cache")]
    return [*headers, (b"content-length", b"%d" % sum(map(len, outgoing.pieces)))]


def _spoilt(outgoing: Outgoing) -> tuple[bytes, ...]:
    """Return the pieces with something among them that cannot be read."""
    if not outgoing.stream:
        return (outgoing.pieces[0][: len(outgoing.pieces[0]) // 2],)
    middle = (len(outgoing.pieces) + 1) // 2
    before, after = outgoing.pieces[:middle], outgoing.pieces[middle:]
    if outgoing.content_type.startswith(b"text/event-stream"):
        return (*before, _SPOILT, *after)
    # In a binary stream a single wrong byte breaks the checksum.
    hurt = before[-1]
    return (*before[:-1], hurt[:-1] + bytes([hurt[-1] ^ 0xFF]), *after)


async def _left(receive: Receive, wait_ms: int) -> bool:
    """Return whether the client went away while waiting."""
    try:
        async with asyncio.timeout(wait_ms / 1000):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True
