"""Who else is told of a watch: a webhook at the alarm, and Prometheus by a file that its node exporter reads.

Neither is given any text of the log. A webhook that cannot be reached costs a line, never the alarm.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from demur.errors import UpstreamError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.http.pool import HttpPool
    from demur.http.upstream import UpstreamRequest

__all__ = ["Webhook", "metrics_text"]

_CONNECT_S, _READ_S, _TOTAL_S = 5.0, 10.0, 20.0
_ATTEMPTS = 2
# RFC 9110, section 15: what went wrong may pass, so that asking again makes sense.
_TRY_AGAIN = frozenset((408, 425, 429, *range(500, 600)))
_FULFILLED = range(200, 300)


class Webhook:
    """A URL that is sent one JSON object at the alarm; what it holds beside host and port may be secret, and is never printed."""

    def __init__(self, url: str) -> None:
        """Raise where the URL cannot be used, or there is no HTTP client: before anything is read, not at the alarm."""
        try:
            from demur.http.pool import environment_proxy
            from demur.http.upstream import split_credentials
        except ModuleNotFoundError as exc:
            raise UsageError("`--webhook` needs `httptools`", hint="pip install 'demur[gateway]'") from exc
        bare, self._token = split_credentials(url)
        hint = "give a URL such as https://hooks.example.com/alarm"
        try:
            parts = urlsplit(bare)
            self._where = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
        except ValueError as exc:
            raise UsageError("the URL of the webhook cannot be read", hint=hint) from exc
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("the webhook is no http or https URL", hint=hint)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._proxy = environment_proxy(bare)

    def post(self, body: bytes) -> str | None:
        """Send the object, a second time where that may help; return why it did not arrive, None where it did."""
        return asyncio.run(self._post(body))

    async def _post(self, body: bytes) -> str | None:
        from demur.http.pool import HttpPool
        from demur.http.upstream import UpstreamRequest, UpstreamTimeouts

        headers = [(b"content-type", b"application/json"), (b"user-agent", b"demur")]
        if self._token:
            headers.append((b"authorization", self._token))
        timeouts = UpstreamTimeouts(connect_s=_CONNECT_S, read_s=_READ_S, total_s=_TOTAL_S)
        pool = HttpPool(self._origin, timeouts=timeouts, proxy=self._proxy)
        try:
            why: str | None = None
            for _ in range(_ATTEMPTS):
                why, is_final = await self._attempt(pool, UpstreamRequest("POST", self._target, tuple(headers), body))
                if is_final:
                    break
            return why
        finally:
            await pool.close()

    async def _attempt(self, pool: HttpPool, request: UpstreamRequest) -> tuple[str | None, bool]:
        """Return why it did not arrive, and whether trying again is useless."""
        try:
            response = await pool.send(request)
            await response.body.aclose()
        except UpstreamError as exc:
            return exc.what, False
        if response.status in _FULFILLED:
            return None, True
        return f"`{self._where}` answered {response.status}", response.status not in _TRY_AGAIN


def metrics_text(log: str, values: Mapping[str, tuple[str, float]]) -> str:
    """Return gauges, each a name with what it means and its value, in the text format of Prometheus (version 0.0.4)."""
    label = log.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    lines = []
    for name, (what, value) in values.items():
        number = "+Inf" if math.isinf(value) else f"{value:.17g}"
        lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge", f'{name}{{log="{label}"}} {number}']
    return "\n".join(lines) + "\n"
