"""What becomes of requests that were refused before they were any? They are counted, and on record where they were for a model.

Laws: every one is counted by its kind; one at an audited door goes on record as withheld by the gateway, with no text, for none was
read; a stranger who shows no key, where keys are asked for, writes nothing into the log; recording holds up no connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from demur.gateway.forward import client_of
from demur.gateway.record import file_exchange, open_dossier
from demur.gateway.routes import audited_route
from demur.http.paths import plain_path
from demur.io.log import LogEvent, log_event

if TYPE_CHECKING:
    from demur.gateway.keys import ClientKey
    from demur.gateway.routes import AuditedRoute
    from demur.gateway.worker import GatewayParts
    from demur.http.protocol import HttpRejection

__all__ = ["RejectionDesk"]


class RejectionDesk:
    """Takes what the protocol refused."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._filing: set[asyncio.Task[None]] = set()

    def take(self, rejection: HttpRejection) -> None:
        """Count a refusal, and begin to record it where it belongs on record."""
        parts = self._parts
        parts.metrics.http_rejected(rejection.reason)
        prefix = parts.provider_of(plain_path(rejection.path)).prefix
        route = audited_route(rejection.method, rejection.path, prefix=prefix)
        label = route.label if route else "passed"
        log_event(LogEvent.HTTP_REJECTED, reason=rejection.reason, status=rejection.status, shape=label)
        # An answer that was on its way is the record of its own exchange.
        if route is None or not rejection.answered:
            return
        client = None if parts.keys is None else client_of(rejection.headers, parts.keys)
        if parts.keys is None or client is not None:
            task = asyncio.get_running_loop().create_task(self._filed(rejection, route, client))
            self._filing.add(task)
            task.add_done_callback(self._filing.discard)

    async def _filed(self, rejection: HttpRejection, route: AuditedRoute, client: ClientKey | None) -> None:
        case = open_dossier(self._parts, route, b"", client=client)
        case.blocked, case.status = True, rejection.status
        self._parts.metrics.answered(route.label, rejection.status, client=client.name if client else None)
        await file_exchange(self._parts, case, durable=False)

    async def settled(self) -> None:
        """Return once everything taken is on record."""
        if self._filing:
            await asyncio.gather(*self._filing)
