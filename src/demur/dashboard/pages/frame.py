"""What stands around every page of the dashboard: its head, the way to the other pages, and the pages that are no data.

Laws: a page loads its style and its script from its own server and nothing else; every page has one first heading, a way past the
navigation and a name; every word of others is escaped; a link stays below the dashboard's own path.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from demur.dashboard.pages.style import DASHBOARD_SCRIPT, DASHBOARD_STYLE
from demur.report.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ASSETS", "PageFrame", "href", "panel", "select"]

_PAGES = (
    ("", "Overview"),
    ("sessions", "Sessions"),
    ("compare", "Compare"),
    ("policies", "Policies"),
    ("health", "Health"),
)


def _named(stem: str, ending: str, text: str) -> str:
    return f"{stem}-{sha256(text.encode()).hexdigest()[:12]}.{ending}"


ASSETS = {
    _named("style", "css", DASHBOARD_STYLE): ("text/css; charset=utf-8", DASHBOARD_STYLE.encode()),
    _named("script", "js", DASHBOARD_SCRIPT): ("text/javascript; charset=utf-8", DASHBOARD_SCRIPT.encode()),
}
"""The two files that pages load, under names that change with them: their kind and their bytes."""


@dataclass(frozen=True, slots=True)
class PageFrame:
    """Where the dashboard stands, and whether there is a way out of it."""

    base: str = "/-/"
    can_leave: bool = False

    def page(self, title: str, parts: Iterable[str], *, current: str = "", lead: str = "", aside: str = "") -> str:
        """Return a whole page of parts that are HTML already."""
        top = f'<div class="top"><div><h1>{escaped(title)}</h1>{f"<p>{escaped(lead)}</p>" if lead else ""}</div>{aside}</div>'
        main = "\n".join(('<main id="main" tabindex="-1">', top, *parts, "</main>"))
        return self._whole(title, f'<a class="skip" href="#main">Skip to the page</a>{self._header(current)}\n{main}')

    def login(self, *, wrong: bool = False) -> str:
        """Return the page that asks for the token."""
        said = '<p class="tag fails" role="alert">This is not the token.</p>' if wrong else ""
        form = (
            f'<form method="post" action="{escaped(self.base)}login"><label for="token">Token</label>'
            '<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>'
            "<button>Open the dashboard</button></form>"
        )
        about = '<p class="soft">The token was printed where the dashboard was started.</p>'
        return self._whole("Log in", f'<main class="login"><h1>Demur</h1>{about}{said}{form}</main>')

    def error(self, status: int, what: str, hint: str = "") -> str:
        """Return the page that says what is wrong, in a sentence."""
        more = f"<p>{escaped(hint[:1].upper() + hint[1:])}.</p>" if hint else ""
        words = {
            400: "That cannot be asked",
            404: "Not found",
            405: "Not this way",
            413: "Too long",
            503: "The store cannot be read",
        }
        title = words.get(status, "A fault of our own")
        back = f'<p><a href="{escaped(self.base)}">Back to the overview</a></p>'
        said = f"<h2>{escaped(what[:1].upper() + what[1:])}.</h2>"
        return self.page(
            title, [f'<section class="empty">{said}{more}{back}</section>'], lead=f"Status {status}", current="-"
        )

    def _header(self, current: str) -> str:
        links = "".join(
            f'<li><a href="{escaped(self.base)}{path}"{" aria-current=page" if path == current else ""}>{name}</a></li>'
            for path, name in _PAGES
        )
        leave = (
            f'<form class="leave" method="post" action="{escaped(self.base)}logout"><button class="quiet">Log out</button></form>'
            if self.can_leave
            else ""
        )
        brand = f'<a class="brand" href="{escaped(self.base)}">Demur<small>who said no</small></a>'
        return f'<header class="bar-top"><div>{brand}<nav class="pages" aria-label="Pages"><ul>{links}</ul></nav>{leave}</div></header>'

    def _whole(self, title: str, body: str) -> str:
        style, script = (f"{escaped(self.base)}{name}" for name in ASSETS)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
            f'<title>{escaped(title)} · Demur</title>\n<link rel="icon" href="data:,">\n<link rel="stylesheet" href="{style}">\n'
            f'<script src="{script}" defer></script>\n</head>\n<body>\n{body}\n</body>\n</html>\n'
        )


def href(path: str, values: Mapping[str, object]) -> str:
    """Return a link with its query, as it may stand in an attribute; what is empty is left out."""
    said = "&amp;".join(
        f"{name}={_quoted(str(value))}" for name, value in values.items() if value not in ("", None, False)
    )
    return f"{escaped(path)}?{said}" if said else escaped(path)


def _quoted(text: str) -> str:
    """Return a text as a query holds it (RFC 3986, § 2.1)."""
    kept = b"-._~abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in text.encode(errors="replace"))


def panel(title: str, body: str, *, kind: str = "", lead: str = "") -> str:
    """Return a box with its heading."""
    about = f'<p class="lead">{escaped(lead)}</p>' if lead else ""
    return f'<section class="panel {kind}"><h2>{escaped(title)}</h2>{about}{body}</section>'


def select(name: str, label: str, options: Iterable[tuple[str, str]], *, chosen: str, submit: bool = False) -> str:
    """Return a labelled choice; one that submits does so where the script runs."""
    rows = "".join(
        f'<option value="{escaped(value)}"{" selected" if value == chosen else ""}>{escaped(word)}</option>'
        for value, word in options
    )
    return f'<label>{escaped(label)}<select name="{name}"{" data-submit" if submit else ""}>{rows}</select></label>'
