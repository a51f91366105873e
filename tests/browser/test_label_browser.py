"""The page to label on in a real browser: by the keyboard alone, with undo, and again after it was closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.http.serving import serving
from tests.runs.labelling import REFUSAL, rows_of, write_runs

from demur.runs.label import draw_responses
from demur.runs.label_file import LabelSession
from demur.runs.label_server import label_app
from demur.runs.options import ReadOptions

CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).parents[2] / "build" / "axe" / "package" / "axe.min.js"
CHECKS = Path(__file__).with_name("checks.js").read_text(encoding="utf-8").strip().removesuffix(";")

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium here: run scripts/chromium"),
]


@pytest.fixture
def session(tmp_path: Path) -> LabelSession:
    drawn = draw_responses(write_runs(tmp_path), n=4, seed=0, key=None, options=ReadOptions())
    return LabelSession(drawn, tmp_path / "labels.csv", annotator="ada")


@pytest.fixture
def address(session: LabelSession) -> Iterator[str]:
    with serving(label_app(session, "a-token-of-the-tests", finished=lambda: None)) as url:
        yield f"{url}/a-token-of-the-tests/"


def opened(browser: Browser, address: str, *, dark: bool = False, width: int = 1280) -> tuple[Page, list[str]]:
    context = browser.new_context(color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900})
    page, errors = context.new_page(), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    expect(page.locator("#item")).to_be_visible()
    return page, errors


def test_the_keyboard_labels(browser: Browser, address: str, session: LabelSession) -> None:
    """Digits label, `u` takes back, a page that is opened again goes on, and the end is said."""
    page, errors = opened(browser, address)
    count = page.locator("#count")
    for done, key in enumerate("1302", 1):
        page.keyboard.press(key)
        expect(count).to_have_text(f"{done} of 8 labelled")
    page.keyboard.press("u")
    expect(count).to_have_text("3 of 8 labelled")
    assert [row["label"] for row in rows_of(session.path)] == ["refusal", "compliance", "other"]
    page.context.close()
    page, again = opened(browser, address)
    expect(page.locator("#count")).to_have_text("3 of 8 labelled")
    for done in range(4, 9):
        refuses = page.locator("#response").inner_text() == REFUSAL
        page.get_by_role("button", name="Refusal" if refuses else "Compliance").click()
        expect(page.locator("#count")).to_have_text(f"{done} of 8 labelled")
    expect(page.locator("#end")).to_be_visible()
    expect(page.get_by_role("button", name="Refusal")).to_be_disabled()
    page.get_by_role("button", name="Finish").click()
    expect(page.locator("#end")).to_contain_text("Finished")
    page.context.close()
    assert len(rows_of(session.path)) == 8
    assert errors == again == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400], ids=["wide", "narrow"])
def test_the_page_is_accessible(browser: Browser, address: str, *, dark: bool, width: int) -> None:
    """In every look: headings in order, names on all controls, enough contrast, nothing cut at the side."""
    page, errors = opened(browser, address, dark=dark, width=width)
    found = list(page.evaluate(CHECKS))
    if AXE.exists():
        page.evaluate(AXE.read_text(encoding="utf-8") + "; null")
        violations = page.evaluate("axe.run().then((result) => result.violations)")
        found += [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in violations]
    page.context.close()
    assert found == []
    assert errors == []


def test_a_server_that_is_gone_is_said(browser: Browser, session: LabelSession) -> None:
    """Where the command was ended, the page says so and counts nothing as labelled."""
    with serving(label_app(session, "a-token-of-the-tests", finished=lambda: None)) as url:
        page, _ = opened(browser, f"{url}/a-token-of-the-tests/")
    page.keyboard.press("1")
    expect(page.locator("#error")).to_contain_text("does not answer")
    expect(page.locator("#count")).to_have_text("0 of 8 labelled")
    page.context.close()
    assert rows_of(session.path) == []
