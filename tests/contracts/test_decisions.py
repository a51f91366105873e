"""The pages for maintainers: decisions in one form, and no file named that is not there."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest
from tests.contracts.doc_pages import ROOT

from demur.model.claim import Phase
from demur.model.comparison import Change, Conclusion
from demur.model.estimate import Severity
from demur.model.verdict import Cause, Outcome, Reason

FOLDER = ROOT / "docs" / "decisions"
DECISIONS = sorted(FOLDER.glob("[0-9]*.md"))
HEADINGS = ["Context", "Decision", "Rejected", "Figures", "Look again when"]
MAX_LINES = 60
OF_USERS = {"auditors.yaml"}
METAPHORS = ("asker", "dossier", "handed", "rebuff")
ARCHITECTURE, GLOSSARY = ROOT / "docs" / "architecture.md", ROOT / "docs" / "glossary.md"
FOR_MAINTAINERS = [*DECISIONS, ARCHITECTURE, GLOSSARY, ROOT / "CONTRIBUTING.md"]
PACKAGE = ROOT / "src" / "demur"
CLOSED_SETS: dict[str, type[Enum]] = {"outcome": Outcome, "reason": Reason, "cause": Cause, "phase": Phase}
CLOSED_SETS |= {"conclusion": Conclusion, "change": Change, "severity": Severity}
"""The rows of the glossary that list all members of a set."""
NAMED = re.compile(
    r"`((?:[\w.-]+/)+(?:[\w-]+\.\w+)?)`|`([\w-]+\.(?:py|md|toml|yml|yaml))`|\b((?:[a-z_]+/)+[a-z_]+\.py)\b"
)


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


@pytest.mark.parametrize("page", FOR_MAINTAINERS, ids=lambda page: page.stem)
def test_files_that_are_named_exist(page: Path) -> None:
    """A path on a page for maintainers is one of the repository, of docs/ or of the package."""
    named = {"".join(found) for found in NAMED.findall(page.read_text(encoding="utf-8"))} - OF_USERS
    places = (ROOT, ROOT / "docs", PACKAGE, FOLDER)
    assert sorted(name for name in named if not any((place / name).exists() for place in places)) == []


def test_the_layout_is_drawn_as_it_is() -> None:
    """The tree on the page of the architecture has every folder of the package and no other."""
    tree = ARCHITECTURE.read_text(encoding="utf-8").partition("src/demur/\n")[2].partition("```")[0]
    drawn = re.findall(r"^  (\w+)/ ", tree, re.MULTILINE)
    assert sorted(drawn) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


@pytest.mark.parametrize("word", CLOSED_SETS)
def test_the_glossary_lists_closed_sets_whole(word: str) -> None:
    """Where the glossary lists the members of a set, it lists those that the code has."""
    meaning = re.search(rf"^\| {re.escape(word)} \| (.+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert meaning is not None
    assert re.findall(r"`(\w+)`", meaning[1]) == [member.value for member in CLOSED_SETS[word]]


def test_private_metaphors_are_no_names() -> None:
    """No function, class or variable of the package is called by a word that the glossary rules out for good."""
    unused = GLOSSARY.read_text(encoding="utf-8").partition("## Words we do not use")[2]
    assert [word for word in METAPHORS if word not in unused] == []
    called = re.compile(
        rf"\b(?:def|class) \w*(?:{'|'.join(METAPHORS)})\w*|^\s*\w*(?:{'|'.join(METAPHORS)})\w*\s*[:=]", re.IGNORECASE
    )
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if called.search(line)
    ]
    assert found == []
