"""The dashboard's server: pages over a log of passports, behind a token.

Nothing but the login, the style and the script is to be had without the token, where there is one. A page may load nothing from elsewhere
and be framed by nobody, no text of a user is in it unless texts are on, and no path, query or token is logged.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from demur.dashboard.compare import compared_sides, default_sides
from demur.dashboard.exchange import ExchangeReader
from demur.dashboard.pages import ASSETS, Pages
from demur.dashboard.query import Query, record_named
from demur.dashboard.reader import DashboardReader
from demur.errors import DemurError, EmptyInputError, InputError, SizeLimitError, StoreError, UsageError
from demur.http.asgi import ClientGoneError, HttpResponse, LateBodyError, header, read_body, send_response
from demur.http.serve import run_app

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from demur.dashboard.values import ShadowCount
    from demur.http.asgi import App, Receive, Scope, Send
    from demur.http.serve import Started
    from demur.record.replay import Replay
    from demur.record.store.location import LogPlace

__all__ = ["DashboardSettings", "dashboard_app", "serve_dashboard"]

_LOG = logging.getLogger("demur.dashboard")
_COOKIE = "demur_dashboard"
_LOGIN_BYTES = 4096
# A pause between two stretches of counting.
_PAUSE_S = 0.05
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
# Nothing but the dashboard's own style and script is loaded, nothing inline runs, and no other site may frame a page (CSP level 3).
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# X-Frame-Options and the rest say the same to older browsers; no-referrer keeps the names in a query from other sites.
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_NO_STORE = ((b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store"))
# The names of style and script change with their content.
_KEPT_FOR_GOOD = (b"cache-control", b"public, max-age=31536000, immutable")
_READING = ("GET", "HEAD")
_METHODS = {"login": (*_READING, "POST"), "logout": ("POST",)}


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """How a dashboard is served; without a token it answers only to those who call it by a loopback name."""

    token: str | None = field(repr=False)
    base: str = "/-/"
    texts: bool = False
    replays: Mapping[str, Replay] = field(default_factory=dict)
    shadow: Callable[[], Sequence[ShadowCount]] | None = None
    form_s: float = 10.0
    """For a client to send the form of its login."""


def dashboard_app(place: LogPlace, settings: DashboardSettings) -> App:
    """Return the dashboard of a log as an ASGI application; it answers all paths below its base."""
    return _DashboardApp(DashboardReader(place), settings)


def serve_dashboard(place: LogPlace, settings: DashboardSettings, *, host: str, port: int, started: Started) -> None:
    """Serve a dashboard alone until the process is told to end."""
    run_app(dashboard_app(place, settings), host=host, port=port, started=started)


class _DashboardApp:
    """The dashboard of one log."""

    def __init__(self, reader: DashboardReader, settings: DashboardSettings) -> None:
        self._reader, self._settings = reader, settings
        self._counting: asyncio.Task[None] | None = None
        self._pages = Pages(settings.base, can_leave=settings.token is not None)
        self._exchanges = ExchangeReader(reader, settings.texts, settings.replays)
        token = (settings.token or "").encode()
        # The cookie holds a digest, so that a stolen one does not give the token away.
        self._cookie = hmac.new(token, b"demur dashboard cookie v1", "sha256").hexdigest() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            response = await self._respond(scope, receive)
        except ClientGoneError:
            return
        except Exception as exc:  # noqa: BLE001 — the outermost layer: a fault of ours is a page too
            # The kind alone: a message could hold a path, a query or a text.
            _LOG.error("a fault of our own: %s", type(exc).__name__)
            response = self._error(500, "a fault of our own", "tell whoever runs this dashboard")
        has_body = scope["method"] != "HEAD"
        await send_response(send, replace(response, headers=response.headers + _HEADERS), body=has_body)

    async def _respond(self, scope: Scope, receive: Receive) -> HttpResponse:  # noqa: PLR0911 — one for each kind of path
        base, method = self._settings.base, scope["method"]
        if not scope["path"].startswith(base):
            is_lost = scope["path"] not in ("/", base.rstrip("/"))
            return self._error(404, "there is no such page") if is_lost else _redirect(base)
        path = scope["path"].removeprefix(base)
        if method not in _METHODS.get(path, _READING):
            return self._error(405, f"`{method}` is not for this page")
        if path in ASSETS:
            kind, body = ASSETS[path]
            return HttpResponse(200, body, ((b"content-type", kind.encode()), _KEPT_FOR_GOOD))
        if path == "login":
            return await self._login(scope, receive)
        if path == "logout":
            return _redirect(f"{base}login", cookie=self._cookie_header("", scope, lasts=False))
        # All that is above can be had without the token; a page that follows cannot.
        if not self._is_known(scope):
            if self._cookie is None:
                hint = "call it as localhost, or set a token"
                return self._error(403, "without a token it answers on loopback only", hint)
            return _redirect(f"{base}login")
        response = await asyncio.to_thread(self._render, path, scope)
        # What the hourly counts do not hold is counted between requests.
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._count_on())
        return response

    async def _count_on(self) -> None:
        with suppress(DemurError):
            while not await asyncio.to_thread(self._reader.is_caught_up):  # noqa: ASYNC110 — a pause, no waiting for anything
                # A gateway serves from the same process: most of its time stays its own.
                await asyncio.sleep(_PAUSE_S)

    def _is_known(self, scope: Scope) -> bool:
        """Return whether a client has the token, or comes from this machine where there is none."""
        if self._cookie is None:
            # Another site could point its name at this machine and have a reader's browser ask for it (DNS rebinding), so
            # the name that was called counts; a client elsewhere could send any name, so its address counts as well.
            name, client = header(scope, b"host"), scope.get("client")
            host = name if name.endswith("]") else name.rpartition(":")[0] or name
            return host.lower() in _LOOPBACK and (client is None or ip_address(client[0]).is_loopback)
        try:
            cookies = SimpleCookie(header(scope, b"cookie"))
        except CookieError:
            return False
        given = cookies[_COOKIE].value if _COOKIE in cookies else ""
        kind, _, bearer = header(scope, b"authorization").partition(" ")
        is_cookie = hmac.compare_digest(given.encode(), self._cookie.encode())
        return is_cookie or (kind.lower() == "bearer" and self._is_token(bearer.strip()))

    def _is_token(self, given: str) -> bool:
        # In constant time: the time of an ordinary comparison would tell how much of the token is right.
        return hmac.compare_digest(given.encode(), (self._settings.token or "").encode()) and bool(given)

    async def _login(self, scope: Scope, receive: Receive) -> HttpResponse:
        if self._cookie is None:
            return _redirect(self._settings.base)
        if scope["method"] != "POST":
            return _page_response(200, self._pages.login())
        try:
            body = await read_body(scope, receive, limit=_LOGIN_BYTES, limit_s=self._settings.form_s)
            given = dict(parse_qsl(body.decode("ascii"), max_num_fields=4)).get("token", "").strip()
        except SizeLimitError as exc:
            failed = self._error(413, exc.what)
        except LateBodyError:
            failed = self._error(408, "the form did not come in time")
            failed = replace(failed, headers=(*failed.headers, (b"connection", b"close")))
        except ValueError:
            failed = self._error(400, "the form cannot be read")
        else:
            if self._is_token(given):
                return _redirect(self._settings.base, cookie=self._cookie_header(self._cookie, scope, lasts=True))
            failed = _page_response(403, self._pages.login(wrong=True))
        return failed

    def _cookie_header(self, value: str, scope: Scope, *, lasts: bool) -> bytes:
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        age = "" if lasts else "; Max-Age=0"
        return f"{_COOKIE}={value}; Path={self._settings.base}; HttpOnly; SameSite=Strict{secure}{age}".encode()

    def _render(self, path: str, scope: Scope) -> HttpResponse:
        """Return the page of a path, or the page that says why there is none."""
        try:
            query = Query(scope.get("query_string", b""))
            place = record_named(path, mark="exchange/")
            if path == "exchange":
                place = self._exchanges.place_in(*query.of_session())
            if path == "sessions":
                place = record_named(query.text("q"), mark="#")
            if place is not None and path in ("exchange", "sessions"):
                return _redirect(f"{self._settings.base}exchange/{place}")
            page = self._page(path, query) if place is None else self._pages.exchange(self._exchanges.by_place(place))
        except UsageError as exc:
            return self._error(400, exc.what, exc.hint)
        except EmptyInputError as exc:
            return self._error(404, exc.what, exc.hint)
        except StoreError as exc:
            return self._error(503, exc.what, exc.hint)
        except InputError as exc:
            return self._error(503, f"the record cannot be read: {exc.what}", "see `demur passport verify`")
        return self._error(404, "there is no such page") if page is None else _page_response(200, page)

    def _page(self, path: str, query: Query) -> str | None:
        page: str | None = None
        match path:
            case "":
                page = self._pages.overview(self._reader.overview(query.period, model=query.text("model")))
            case "sessions":
                asked = query.sessions()
                before = query.text("before") if asked.search else query.number("before")
                page = self._pages.sessions(self._reader.sessions(asked, before="" if before is None else str(before)))
            case "session":
                name = query.text("id")
                if not name:
                    raise UsageError("which session?", hint="choose one from the list")
                page = self._pages.session(self._reader.session(name, before=query.number("before")))
            case "compare":
                sides, measure = (query.side("a"), query.side("b")), query.measure()
                models, counts = self._reader.by_day()
                sides = sides if query.compares else default_sides(counts, models)
                page = self._pages.compare(compared_sides(counts, sides, measure=measure, models=models))
            case "policies":
                fired = self._reader.policies(query.period)
                shadow = None if self._settings.shadow is None else tuple(self._settings.shadow())
                page = self._pages.policies(replace(fired, shadow=shadow))
            case "health":
                page = self._pages.health(self._exchanges.health())
        return page

    def _error(self, status: int, what: str, hint: str | None = None) -> HttpResponse:
        return _page_response(status, self._pages.error(status, what, hint or ""))


def _page_response(status: int, page: str) -> HttpResponse:
    return HttpResponse(status, page.encode(errors="replace"), _NO_STORE)


def _redirect(path: str, *, cookie: bytes | None = None) -> HttpResponse:
    more = () if cookie is None else ((b"set-cookie", cookie),)
    return HttpResponse(303, b"", ((b"location", path.encode()), (b"cache-control", b"no-store"), *more))
