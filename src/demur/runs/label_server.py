"""The page on which a person labels responses, served on this machine alone.

Whoever calls must know the token in the path and call by a loopback name; what changes something must come from the page itself. The page
loads nothing from elsewhere, and no text is logged.
"""

from __future__ import annotations

import hmac
import logging
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from demur.errors import DemurError, SizeLimitError
from demur.http.asgi import (
    ClientGoneError,
    HttpResponse,
    header,
    is_json,
    json_error,
    json_response,
    read_body,
    send_response,
)
from demur.report.html import package_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.http.asgi import App, Receive, Scope, Send
    from demur.runs.label_file import LabelSession

__all__ = ["label_app"]

_LOG = logging.getLogger("demur.label")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BODY_BYTES = 64 * 1024
_BODY_S = 10.0
_FILES = {
    "": ("label.html", "text/html"),
    "label.css": ("label.css", "text/css"),
    "label.js": ("label.js", "text/javascript"),
}
_ACTIONS = ("label", "undo", "finish")
# Nothing but the page's own style and script is loaded, and no other site may frame it (CSP level 3).
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class _Given(msgspec.Struct):
    id: str
    side: str
    label: str


def label_app(session: LabelSession, token: str, *, finished: Callable[[], None]) -> App:
    """Return the page as an ASGI application; `finished` is called when the person says so."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        ended = False
        try:
            response = _rejection(scope, token) or await _respond(session, scope, receive)
            ended = response.status == HTTPStatus.OK and scope["path"].endswith("/finish")
        except ClientGoneError:
            return
        except DemurError as exc:
            response = json_error(409, "not_labelled", str(exc))
        except Exception as exc:  # noqa: BLE001 — the outermost layer: a fault of ours is an answer too
            # The kind alone: a message could hold a text.
            _LOG.error("a fault of our own: %s", type(exc).__name__)
            response = json_error(500, "fault", "a fault of our own; the labels given so far are in the file")
        await send_response(
            send, replace(response, headers=response.headers + _HEADERS), body=scope["method"] != "HEAD"
        )
        if ended:
            finished()

    return app


def _rejection(scope: Scope, token: str) -> HttpResponse | None:
    """Return why a request is none of this page's; None where it is."""
    given = scope["path"].split("/")[1]
    # In constant time: the time of an ordinary comparison would tell how much of the token is right.
    if not hmac.compare_digest(given.encode(), token.encode()):
        return json_error(404, "not_found", "there is no such page")
    # Another site could point its name at this machine and have a browser ask for it (DNS rebinding).
    host = header(scope, b"host")
    if urlsplit(f"//{host}").hostname not in _LOOPBACK:
        return json_error(403, "wrong_host", "call it as 127.0.0.1")
    origin = header(scope, b"origin")
    if scope["method"] == "POST" and (origin != f"http://{host}" or not is_json(scope)):
        return json_error(403, "wrong_origin", "only the page itself may send labels")
    return None


async def _respond(session: LabelSession, scope: Scope, receive: Receive) -> HttpResponse:
    path, method = scope["path"].split("/", 2)[2:], scope["method"]
    name = path[0] if path else None
    wanted = "POST" if name in _ACTIONS else "GET"
    if name is None:
        # Links of the page are relative to its folder.
        return HttpResponse(307, b"", ((b"location", f"{scope['path']}/".encode()),))
    if name not in (*_FILES, *_ACTIONS, "state"):
        return json_error(404, "not_found", "there is no such page")
    if method != wanted:
        return json_error(405, "wrong_method", f"`{method}` is not for this page")
    if name in _FILES:
        file, kind = _FILES[name]
        return HttpResponse(
            200, package_text("demur.runs", file).encode(), ((b"content-type", f"{kind}; charset=utf-8".encode()),)
        )
    if name == "label":
        try:
            body = await read_body(scope, receive, limit=_BODY_BYTES, limit_s=_BODY_S)
            given = msgspec.json.decode(body, type=_Given)
        except (msgspec.DecodeError, SizeLimitError):
            return json_error(400, "bad_label", "this is no label")
        session.label((given.id, given.side), given.label)
    elif name == "undo":
        session.undo()
    return json_response(200, _state(session))


def _state(session: LabelSession) -> dict[str, object]:
    following = session.next()
    shown = None
    if following is not None:
        # Neither the verdict nor the stratum: whoever sees them labels the detector, not the response.
        shown = {
            "id": following.id,
            "side": str(following.side),
            "prompt": following.prompt,
            "response": following.response,
        }
    return {"annotator": session.annotator, "done": session.done, "total": session.total, "next": shown}
