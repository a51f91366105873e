"""The dashboard: pages over a log of passports, behind a token.

Laws: nothing but the login, the style and the script is to be had without the token, where there is one; it is compared in constant time,
and the cookie holds a digest of it, for this site alone; a page may load nothing from elsewhere and be framed by nobody; no text
of a user is in a page unless texts are on; what is wrong is a page too; no path, query or token is logged.
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
from demur.dashboard.pages import ASSETS, Pages
from demur.dashboard.query import Query, record_named
from demur.dashboard.reader import DashboardReader
from demur.dashboard.record import RecordDesk
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
_PAUSE_S = 0.05
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_NO_STORE = ((b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store"))
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
    """One log's dashboard."""

    def __init__(self, reader: DashboardReader, settings: DashboardSettings) -> None:
        self._reader, self._settings = reader, settings
        self._counting: asyncio.Task[None] | None = None
        self._views = Pages(settings.base, can_leave=settings.token is not None)
        self._desk = RecordDesk(reader, settings.texts, settings.replays)
        token = (settings.token or "").encode()
        self._cookie = hmac.new(token, b"demur dashboard cookie v1", "sha256").hexdigest() if token else None
        self._pages: dict[str, Callable[[Query], str]] = {
            "": self._overview,
            "sessions": self._sessions,
            "session": self._session,
            "compare": self._compare,
            "policies": self._policies,
            "health": lambda _: self._views.health(self._desk.health()),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except ClientGoneError:
            return
        except Exception as exc:  # noqa: BLE001 — the outermost layer: a fault of ours is a page too
            _LOG.error("a fault of our own: %s", type(exc).__name__)
            answer = self._wrong(500, "a fault of our own", "tell whoever runs this dashboard")
        await send_response(send, replace(answer, headers=answer.headers + _HEADERS), body=scope["method"] != "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> HttpResponse:
        base, method = self._settings.base, scope["method"]
        if not scope["path"].startswith(base):
            lost = scope["path"] not in ("/", base.rstrip("/"))
            return self._wrong(404, "there is no such page") if lost else _redirect(base)
        path = scope["path"].removeprefix(base)
        if method not in _METHODS.get(path, _READING):
            return self._wrong(405, f"`{method}` is not for this page")
        if path in ASSETS:
            kind, body = ASSETS[path]
            return HttpResponse(200, body, ((b"content-type", kind.encode()), _KEPT_FOR_GOOD))
        if path == "login":
            return await self._login(scope, receive)
        if path == "logout":
            return _redirect(f"{base}login", cookie=self._cookie_header("", scope, lasts=False))
        return await self._for_known(path, scope) if self._known(scope) else self._stranger()

    async def _for_known(self, path: str, scope: Scope) -> HttpResponse:
        answer = await asyncio.to_thread(self._shown, path, scope)
        self._keep_reading()
        return answer

    def _keep_reading(self) -> None:
        """Count on, between requests, what the hourly counts do not hold."""
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._read_on())

    async def _read_on(self) -> None:
        with suppress(DemurError):
            while not await asyncio.to_thread(self._reader.is_caught_up):  # noqa: ASYNC110 — a pause, no waiting for anything
                # A gateway serves from the same process: most of its time stays its own.
                await asyncio.sleep(_PAUSE_S)

    def _known(self, scope: Scope) -> bool:
        if self._cookie is None:
            return _is_local(scope)
        try:
            cookies = SimpleCookie(header(scope, b"cookie"))
        except CookieError:
            return False
        given = cookies[_COOKIE].value if _COOKIE in cookies else ""
        return hmac.compare_digest(given.encode(), self._cookie.encode()) or self._is_token(_bearer(scope))

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self._settings.token or "").encode()) and bool(given)

    def _stranger(self) -> HttpResponse:
        if self._cookie is None:
            return self._wrong(
                403, "without a token it answers on loopback only", "call it as localhost, or set a token"
            )
        return _redirect(f"{self._settings.base}login")

    async def _login(self, scope: Scope, receive: Receive) -> HttpResponse:
        if self._cookie is None:
            return _redirect(self._settings.base)
        if scope["method"] != "POST":
            return _page_answer(200, self._views.login())
        given = await self._given_token(scope, receive)
        if isinstance(given, HttpResponse):
            return given
        if not self._is_token(given):
            return _page_answer(403, self._views.login(wrong=True))
        return _redirect(self._settings.base, cookie=self._cookie_header(self._cookie, scope, lasts=True))

    async def _given_token(self, scope: Scope, receive: Receive) -> str | HttpResponse:
        """Return the token in a form, or what is wrong with the form."""
        try:
            body = await read_body(scope, receive, limit=_LOGIN_BYTES, limit_s=self._settings.form_s)
            return dict(parse_qsl(body.decode("ascii"), max_num_fields=4)).get("token", "").strip()
        except SizeLimitError as exc:
            return self._wrong(413, exc.what)
        except LateBodyError:
            late = self._wrong(408, "the form did not come in time")
            return replace(late, headers=(*late.headers, (b"connection", b"close")))
        except ValueError:
            return self._wrong(400, "the form cannot be read")

    def _cookie_header(self, value: str, scope: Scope, *, lasts: bool) -> bytes:
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        age = "" if lasts else "; Max-Age=0"
        return f"{_COOKIE}={value}; Path={self._settings.base}; HttpOnly; SameSite=Strict{secure}{age}".encode()

    def _shown(self, path: str, scope: Scope) -> HttpResponse:
        try:
            return self._routed(path, Query(scope.get("query_string", b"")))
        except UsageError as exc:
            return self._wrong(400, exc.what, exc.hint)
        except EmptyInputError as exc:
            return self._wrong(404, exc.what, exc.hint)
        except StoreError as exc:
            return self._wrong(503, exc.what, exc.hint)
        except InputError as exc:
            return self._wrong(503, f"the record cannot be read: {exc.what}", "see `demur passport verify`")

    def _routed(self, path: str, query: Query) -> HttpResponse:
        base = self._settings.base
        if path == "exchange":
            return _redirect(f"{base}exchange/{self._desk.place_in(*query.of_session())}")
        if path == "sessions" and (place := record_named(query.text("q"), mark="#")) is not None:
            return _redirect(f"{base}exchange/{place}")
        if (place := record_named(path, mark="exchange/")) is not None:
            return _page_answer(200, self._views.exchange(self._desk.by_place(place)))
        page = self._pages.get(path)
        return self._wrong(404, "there is no such page") if page is None else _page_answer(200, page(query))

    def _wrong(self, status: int, what: str, hint: str | None = None) -> HttpResponse:
        return _page_answer(status, self._views.error(status, what, hint or ""))

    def _overview(self, query: Query) -> str:
        return self._views.overview(self._reader.overview(query.period, model=query.text("model")))

    def _policies(self, query: Query) -> str:
        page = self._reader.policies(query.period)
        shadow = None if self._settings.shadow is None else tuple(self._settings.shadow())
        return self._views.policies(replace(page, shadow=shadow))

    def _sessions(self, query: Query) -> str:
        asked = query.sessions()
        before = query.text("before") if asked.search else query.number("before")
        return self._views.sessions(self._reader.sessions(asked, before="" if before is None else str(before)))

    def _session(self, query: Query) -> str:
        name = query.text("id")
        if not name:
            raise UsageError("which session?", hint="choose one from the list")
        return self._views.session(self._reader.session(name, before=query.number("before")))

    def _compare(self, query: Query) -> str:
        sides = query.side("a"), query.side("b")
        measure = query.measure()
        models, counts = self._reader.by_day()
        if not query.compares:
            sides = default_sides(counts, models)
        return self._views.compare(compared_sides(counts, sides, measure=measure, models=models))


def _is_local(scope: Scope) -> bool:
    """Return whether a request comes from this machine, and by a name of its own.

    Another site could point its name at this machine, and have a reader's browser ask for it; a stranger could send any name.
    """
    name, client = header(scope, b"host"), scope.get("client")
    host = name if name.endswith("]") else name.rpartition(":")[0] or name
    return host.lower() in _LOOPBACK and (client is None or ip_address(client[0]).is_loopback)


def _bearer(scope: Scope) -> str:
    kind, _, token = header(scope, b"authorization").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _page_answer(status: int, page: str) -> HttpResponse:
    return HttpResponse(status, page.encode(errors="replace"), _NO_STORE)


def _redirect(path: str, *, cookie: bytes | None = None) -> HttpResponse:
    more = () if cookie is None else ((b"set-cookie", cookie),)
    return HttpResponse(303, b"", ((b"location", path.encode()), (b"cache-control", b"no-store"), *more))
