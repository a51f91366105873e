"""The documentation's site in a real browser: every page opens, asks nobody else for anything, and fits a phone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"

pytest.importorskip("material", reason="no site builder here: pip install --group docs")
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium here: run scripts/chromium"),
]


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, *_: object) -> None:
        """Keep still."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(call, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)  # noqa: S603 — our own interpreter
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_every_page_opens_alone_and_fits_a_phone(browser: Browser, site: Path, address: str) -> None:
    """No page asks another host for anything, logs an error, or is wider than a screen of 400 points."""
    page = browser.new_page(viewport={"width": 400, "height": 800})
    elsewhere: list[str] = []
    errors: list[str] = []
    page.on(
        "request", lambda request: None if request.url.startswith((address, "data:")) else elsewhere.append(request.url)
    )
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    wide = []
    for name in sorted(found.name for found in site.glob("*.html") if found.name != "404.html"):
        page.goto(address + name)
        wide += [name] if page.evaluate(TOO_WIDE) else []
    assert (elsewhere, errors, wide) == ([], [], [])


def test_the_search_finds_a_page(browser: Browser, address: str) -> None:
    """A word typed into the search leads to the page that is about it."""
    from playwright.sync_api import TimeoutError as TooLateError

    page = browser.new_page()
    page.goto(f"{address}index.html")
    query, first = page.locator("[data-md-component=search-query]"), page.locator(".md-search-result__link").first
    for _ in range(12):
        # What is typed before the page's own search has loaded its index goes unheard: type again.
        query.fill("")
        query.press_sequentially("checkpoint")
        with suppress(TooLateError):
            first.wait_for(timeout=5000)
            break
    first.wait_for()
    assert any(name in (first.get_attribute("href") or "") for name in ("passport", "record", "cli"))
