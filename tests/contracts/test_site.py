"""The documentation as a site: built strictly, whole, and without a byte from elsewhere."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from tests.contracts.doc_pages import ROOT

from demur.cli.main import parser

pytestmark = pytest.mark.heavy

pytest.importorskip("material", reason="no site builder here: pip install --group docs")

MOST_SECONDS = 60
ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
CSS_ASSET = re.compile(r"url\(\s*['\"]?([^'\")]+)")


class Assets(HTMLParser):
    """Collects what a browser would fetch for a page by itself; links that a reader follows are none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag makes a browser fetch."""
        given = dict(attrs)
        named = [given.get("src"), given.get("srcset"), given.get("href") if tag == "link" else None]
        named += CSS_ASSET.findall(given.get("style") or "")
        self.found += [name for name in named if name]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it."""
    folder = tmp_path_factory.mktemp("site")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    before = os.times().children_user
    done = subprocess.run(  # noqa: S603 — our own interpreter
        call, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Processor time: what else runs on the machine has no say in it.
    assert os.times().children_user - before < MOST_SECONDS
    return folder


def pages_in(nav: object) -> Iterator[str]:
    """Yield the pages that a navigation names."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for part in nav.values():
            yield from pages_in(part)
    elif isinstance(nav, list):
        for part in nav:
            yield from pages_in(part)


def commands_below(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser's sub-commands, and theirs."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield below
                yield from commands_below(below)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """No page and no style of the site names a script, style, font or picture of another host."""
    fetched = []
    for page in site.rglob("*.html"):
        assets = Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        assert assets.found, page.name
        fetched += assets.found
    for style in site.rglob("*.css"):
        fetched += CSS_ASSET.findall(style.read_text(encoding="utf-8"))
    assert [name for name in fetched if ELSEWHERE.match(name)] == []


def test_every_page_is_in_the_navigation_and_built(site: Path) -> None:
    """The navigation names every page in docs/, and each is on the site."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = list(pages_in(config["nav"]))
    docs = ROOT / "docs"
    assert sorted(named) == sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
    assert [name for name in named if not (site / name.replace(".md", ".html")).exists()] == []


def test_the_site_can_be_searched(site: Path) -> None:
    """The search index holds every page, and words of the generated ones."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    built = {page.relative_to(site).as_posix() for page in site.rglob("*.html")} - {"404.html"}
    assert built - {"index.html"} <= found
    assert any(entry["location"] == "cli.html#demur-passport-verify" for entry in index["docs"])


def test_the_reference_has_every_command_and_flag(site: Path) -> None:
    """Every command, step and flag that the program takes stands in the reference, under a heading of its own."""
    page = (site / "cli.html").read_text(encoding="utf-8")
    commands = list(commands_below(parser()))
    assert [one.prog for one in commands if f'id="{one.prog.replace(" ", "-")}"' not in page] == []
    flags = {flag for one in commands for action in one._actions for flag in action.option_strings}
    assert sorted(flag for flag in flags - {"-h", "--help"} if flag not in page) == []


def test_the_api_has_every_public_name(site: Path) -> None:
    """Every public name of the package is described on the page for Python."""
    import demur

    page = (site / "api.html").read_text(encoding="utf-8")
    names = set(demur.__all__) - {"__version__"}
    assert sorted(name for name in names if f'id="demur.{name}"' not in page) == []


def test_lists_and_tables_are_read_as_such(site: Path) -> None:
    """No list and no table is left as running text, as happens where the blank line before it is missing."""
    broken = []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        broken += [(page.name, found[:80]) for found in re.findall(r"<p>[^<]*\n(?:- |\d+\. |\|)[^\n]*", text)]
    assert broken == []


def test_no_link_leaves_the_pages_for_the_repository(site: Path) -> None:
    """Where a page links to a file outside docs/, the site shows its path."""
    links = [
        (page.name, link)
        for page in site.rglob("*.html")
        for link in re.findall(r'href="(\.\./[^"#]*)', page.read_text("utf-8"))
        if not (page.parent / link).resolve().is_relative_to(site)
    ]
    assert links == []
    assert "<code>examples/pytest</code>" in (site / "pytest.html").read_text(encoding="utf-8")
