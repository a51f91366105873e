"""One Chromium for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright here: pip install playwright")
    with playwright.sync_playwright() as started:
        flags = ["--no-sandbox", "--disable-background-networking"]
        opened = started.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        yield opened
        opened.close()
