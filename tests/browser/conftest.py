"""One Chromium for the tests of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright here: pip install playwright")
    with playwright.sync_playwright() as started:
        flags = ["--no-sandbox", "--disable-background-networking"]
        opened = started.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        yield opened
        opened.close()
