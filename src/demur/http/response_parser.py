"""What has come of an answer and was not yet taken, and who waits for more?

Laws: what has come can be taken before the error that ended it is raised; to be cancelled while waiting gives the rest
up, and with it the connection; pieces that came together are handed out together.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from demur.errors import UpstreamCutError

if TYPE_CHECKING:
    from demur.errors import UpstreamError
    from demur.http.upstream import UpstreamAnswer

__all__ = ["AnswerSource", "ArrivingBody"]


class AnswerSource(Protocol):
    """The connection that an answer comes from."""

    def waiting(self) -> asyncio.Future[None]:
        """Return what is done when something has come; from now on the provider's silence counts."""

    def heard(self) -> None:
        """Stop counting it."""

    def taken(self) -> None:
        """Read on."""

    def abandon(self) -> None:
        """Close, whatever is still to come."""


class ArrivingBody:
    """The body of one answer: what has come and was not yet taken, and who waits for more."""

    __slots__ = ("_error", "_pieces", "_source", "_waiter", "complete", "head", "held")

    def __init__(self, source: AnswerSource) -> None:
        self._source: AnswerSource | None = source
        self._pieces: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._error: UpstreamError | None = None
        self.held = 0
        self.complete = False
        self.head: UpstreamAnswer | None = None

    @property
    def ended(self) -> bool:
        """Whether all of it has come and was taken."""
        return self.complete and not self._pieces

    def __aiter__(self) -> ArrivingBody:
        """Return itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return what has come since the last piece, as one."""
        while not self._pieces:
            if self.complete:
                raise StopAsyncIteration
            await self.news()
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.held = 0
        if self._source is not None:
            self._source.taken()
        return piece

    async def aclose(self) -> None:
        """Give up what is still to come, and the connection with it."""
        self._pieces.clear()
        self.held = 0
        if self._source is not None:
            self._source.abandon()

    async def news(self) -> None:
        """Wait until something has come; raise where the rest will not come."""
        if self._error is not None:
            raise self._error
        if self._source is None:
            raise UpstreamCutError("the answer was given up", received=True)
        self._waiter = self._source.waiting()
        try:
            await self._waiter
        except asyncio.CancelledError:
            await self.aclose()
            raise
        finally:
            self._waiter = None
        if self._source is not None:
            self._source.heard()

    def put(self, piece: bytes) -> None:
        """Take a piece in."""
        self._pieces.append(piece)
        self.held += len(piece)

    def wake(self) -> None:
        """Tell whoever waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, error: UpstreamError | None = None) -> None:
        """Take note that no more will come; what has come can still be taken before the error is raised."""
        self._source = None
        self._error = error
        self.complete = error is None
        self.wake()
