"""The dashboard in a real browser: every state opened, clicked through, without an error and accessible, light, dark and narrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.dashboard.dashboard_logs import empty_log, filled_log, swollen_log
from tests.http.serving import serving

from demur.dashboard.app import DashboardSettings, dashboard_app
from demur.policy.files import read_policies
from demur.policy.gate import load_gate
from demur.policy.values import SAFETY_VOCABULARY
from demur.record.store.location import log_place

CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).parents[2] / "build" / "axe" / "package" / "axe.min.js"
CHECKS = Path(__file__).with_name("checks.js").read_text(encoding="utf-8").strip().removesuffix(";")
TOKEN = "a-token-for-the-tests"  # noqa: S105 — a token of the tests
LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "narrow": ("light", 400), "narrow-dark": ("dark", 400)}
PAGES = {
    "overview": "",
    "hours": "?range=24h",
    "whole": "?range=all",
    "sessions": "sessions",
    "denied": "sessions?decision=deny",
    "none": "sessions?model=nobody",
    "session": "session?id=00000000-0",
    "record": "exchange/3",
    "denied-record": "exchange/0",
    "compare": "compare",
    "policies": "policies",
    "health": "health",
}
OF_A_RECORD = ("session", "record", "denied-record")
_STATES = ("empty", "small", "large", "missing", "damaged")

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium here: run scripts/chromium"),
]


@pytest.fixture(scope="module")
def pictures() -> Path:
    """Where pictures are kept: a folder that the environment names, else one among what is built here."""
    folder = Path(os.environ.get("DEMUR_SCREENSHOTS") or AXE.parents[2] / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A dashboard for each state a store can be in."""
    folder = tmp_path_factory.mktemp("stores")
    small = filled_log(folder / "small", 600)
    damaged = folder / "damaged"
    damaged.mkdir()
    (damaged / "log.db").write_bytes(b"no store" * 1000)
    gate = load_gate(read_policies([str(folder / "small" / "policy")]).sources, vocabulary=SAFETY_VOCABULARY)
    open_settings = DashboardSettings(TOKEN, texts=True, replays={gate.digest: gate.replay})
    plain = DashboardSettings(TOKEN)
    with (
        serving(dashboard_app(empty_log(folder / "empty"), plain)) as empty,
        serving(dashboard_app(small, open_settings)) as filled,
        serving(dashboard_app(swollen_log(folder / "large", 99), plain)) as large,
        serving(dashboard_app(log_place(str(folder / "missing")), plain)) as missing,
        serving(dashboard_app(log_place(str(damaged)), plain)) as spoilt,
    ):
        yield dict(zip(_STATES, (empty, filled, large, missing, spoilt), strict=True))


class Visit:
    """One visitor's page, who hears of every error."""

    def __init__(self, browser: Browser, look: str, address: str) -> None:
        scheme, width = LOOKS[look]
        self._context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 900}
        )
        self.page: Page = self._context.new_page()
        self.errors: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"{address}/-/login#{TOKEN}")
        self.page.wait_for_url("**/-/")

    def close(self) -> None:
        """Leave."""
        self._context.close()

    def faults(self) -> list[str]:
        """Return what is wrong with the page in sight, by our own checks and by axe-core where it is at hand."""
        found = list(self.page.evaluate(CHECKS))
        if AXE.exists():
            self.page.evaluate(AXE.read_text(encoding="utf-8") + "; null")
            violations = self.page.evaluate("axe.run().then((result) => result.violations)")
            found += [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in violations]
        return found


@pytest.fixture
def visit(browser: Browser, addresses: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Visit]:
    state, look = request.param
    visitor = Visit(browser, look, addresses[state])
    yield visitor
    visitor.close()


def seen_by(*states: str) -> pytest.MarkDecorator:
    """Run a test in each of these states, in every look."""
    pairs = [(state, look) for state in states for look in LOOKS]
    return pytest.mark.parametrize("visit", pairs, indirect=True, ids=[f"{s}-{w}" for s, w in pairs])


@seen_by("small", "large", "empty")
def test_every_page_opens_without_a_fault(visit: Visit, pictures: Path, request: pytest.FixtureRequest) -> None:
    """Every page of every state opens in every look: no error in the console, accessible, nothing cut at the side."""
    state, look = request.node.callspec.params["visit"]
    base = visit.page.url
    faults = {}
    for name, path in PAGES.items():
        if state == "empty" and name in OF_A_RECORD:
            continue
        visit.page.goto(base + path)
        visit.page.screenshot(path=pictures / f"{state}-{name}-{look}.png", full_page=True)
        if found := visit.faults():
            faults[name] = found
    assert not faults
    assert visit.errors == []


@seen_by("missing", "damaged")
def test_a_store_that_cannot_be_read_is_a_page_too(
    visit: Visit, pictures: Path, request: pytest.FixtureRequest
) -> None:
    """The page of an error is as accessible as any other, and its one console line is the status."""
    state, look = request.node.callspec.params["visit"]
    visit.page.screenshot(path=pictures / f"{state}-{look}.png", full_page=True)
    assert visit.page.inner_text("h1") == "The store cannot be read"
    assert visit.faults() == []
    assert all("503" in error for error in visit.errors)


@seen_by("small")
def test_what_cannot_be_shown_is_a_page_too(visit: Visit, pictures: Path, request: pytest.FixtureRequest) -> None:
    """A page that is not there, a question that cannot be meant and the login are as accessible as any other."""
    _, look = request.node.callspec.params["visit"]
    base = visit.page.url
    for name, path in {"lost": "nowhere", "refused": "?range=9y", "login": "login"}.items():
        visit.page.goto(base + path)
        visit.page.screenshot(path=pictures / f"{name}-{look}.png", full_page=True)
        assert visit.faults() == []
    assert len(visit.errors) == 2
    assert all(status in error for status, error in zip(("404", "400"), visit.errors, strict=True))


@pytest.mark.parametrize("visit", [("small", "light"), ("small", "narrow")], indirect=True)
def test_a_reader_gets_from_the_overview_to_a_checked_passport(visit: Visit) -> None:
    """By clicks alone: overview, sessions, a filter, a session, a record whose passport holds, and its neighbours."""
    page = visit.page
    page.get_by_role("link", name="Sessions", exact=True).click()
    page.get_by_label("Decision").select_option("deny")
    page.get_by_role("button", name="Search").click()
    page.locator("table.list tbody th a").first.click()
    assert page.inner_text("h1") == "Session"
    page.locator("a[aria-label^=record]").first.click()
    assert page.locator("ul.checks .tag.holds").count() == 5
    page.get_by_role("link", name="← Before").click()
    assert page.inner_text("h1").startswith("Record #")
    page.get_by_role("button", name="Log out").click()
    assert page.url.endswith("/-/login")
    assert visit.errors == []


@pytest.mark.parametrize("visit", [("small", "light")], indirect=True)
def test_the_keyboard_alone_is_enough(visit: Visit) -> None:
    """The first stop leads past the navigation, and a slash leads to the search."""
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.goto(page.url.partition("#")[0] + "sessions")
    page.keyboard.press("/")
    page.keyboard.type("#3")
    page.keyboard.press("Enter")
    page.wait_for_url("**/exchange/3")
    assert visit.errors == []


@pytest.mark.parametrize("visit", [("small", "light")], indirect=True)
def test_pointing_at_a_chart_says_its_figures(visit: Visit) -> None:
    """Whoever points at a bucket reads each model's rate, interval and n."""
    visit.page.locator(".chart").first.locator(".hit").nth(3).hover()
    said = visit.page.locator(".tip:visible").inner_text()
    assert "small-2026:" in said
    assert ", n " in said
    assert visit.errors == []


@pytest.mark.parametrize("visit", [("large", "light")], indirect=True)
def test_a_choice_of_the_model_is_taken_at_once(visit: Visit) -> None:
    """Choosing a model shows its figures without a further click."""
    visit.page.locator("select[name=model]").select_option("large-2026")
    visit.page.wait_for_url("**model=large-2026**")
    assert "large-2026" in visit.page.inner_text(".top p")
    assert visit.errors == []


def test_pages_work_without_scripts(browser: Browser, addresses: dict[str, str]) -> None:
    """Without scripts the login, a filter and the tables beside the charts do all the same."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{addresses['small']}/-/")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open the dashboard").click()
    assert page.inner_text("h1") == "Overview"
    page.locator("summary").first.click()
    assert page.get_by_role("rowheader", name="Jan 2026").first.is_visible()
    page.locator("select[name=model]").select_option("large-2026")
    page.get_by_role("button", name="Show").click()
    assert "model=large-2026" in page.url
    context.close()
