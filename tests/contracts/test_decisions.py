"""The pages for maintainers: decisions in one form, and no file named that is not there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.contracts.doc_pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "docs" / "decisions"
DECISIONS = sorted(FOLDER.glob("[0-9]*.md"))
HEADINGS = ["Context", "Decision", "Rejected", "Figures", "Look again when"]
MAX_LINES = 60
FOR_MAINTAINERS = [*DECISIONS, *(ROOT / "docs" / name for name in ("architecture.md", "glossary.md"))]
NAMED = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.\w+)?)`|`([\w-]+\.(?:py|md|toml|yml|yaml))`")


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_one_form_and_one_page(page: Path) -> None:
    """A decision says its context, what was decided and rejected, the figures, and when to look again, on one page."""
    text = page.read_text(encoding="utf-8")
    number = int(page.name.partition("-")[0])
    assert text.startswith(f"# {number}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert len(text.splitlines()) <= MAX_LINES


def test_decisions_are_numbered_and_listed() -> None:
    """Numbers have no gap, and the list names every decision."""
    assert [int(page.name.partition("-")[0]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    listed = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"\((\d{4}-[\w-]+\.md)\)", listed) == [page.name for page in DECISIONS]


@pytest.mark.parametrize("page", [page for page in FOR_MAINTAINERS if page.exists()], ids=lambda page: page.stem)
def test_files_that_are_named_exist(page: Path) -> None:
    """A path in code style on a page for maintainers is one of the repository, of docs/ or of the package."""
    named = {path or name for path, name in NAMED.findall(page.read_text(encoding="utf-8"))}
    places = (ROOT, ROOT / "docs", ROOT / "src" / "demur", FOLDER)
    assert sorted(name for name in named if not any((place / name).exists() for place in places)) == []
