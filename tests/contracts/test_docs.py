"""What the documents show is what the program does."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from tests.contracts.doc_pages import PAGES, ROOT, Block, blocks_of

from demur.cli.main import parser
from demur.gateway.metrics import gateway_families

# These set a machine up or take minutes; the other targets run them.
NOT_RUN_HERE = ("make ", "git ", "pip ")
LARGEST_PICTURE_BYTES = 150_000


def shown() -> list[tuple[str, str, str]]:
    """Every command on the pages with the output shown below it."""
    found = []
    for block in blocks_of(*PAGES, languages=("console",)):
        for piece in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, output = piece.partition("\n")
            if not command.startswith(NOT_RUN_HERE):
                found.append((block.page, command, output.rstrip()))
    return found


def calls_of(block: Block) -> Iterator[list[str]]:
    """Yield the arguments of each call of `demur` in a block of shell, but for those cut short by an ellipsis."""
    text = re.sub(r"(?m)(?:^|(?<=\s))#.*$", "", block.text.replace("\\\n", " "))
    words = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    words.whitespace, words.whitespace_split, words.commenters = " \t", True, ""
    call: list[str] = []
    for word in [*words, ";"]:
        if not set(word) <= set("();<>|&\n"):
            call.append(word)
            continue
        while call and re.match(r"\w+=", call[0]):
            call.pop(0)
        if call[:1] == ["demur"] and "…" not in call:
            # A number before `>` is a descriptor; what follows one is a file, and begins no call.
            yield call[1:-1] if ">" in word and call[-1] == "2" else call[1:]
        call = []


@pytest.mark.heavy
@pytest.mark.parametrize(("page", "command", "output"), shown(), ids=lambda value: value[:40])
def test_every_command_prints_what_is_shown(page: str, command: str, output: str) -> None:
    """A command on a page prints exactly the lines below it."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    done = subprocess.run(  # noqa: S602 — the project's own pages
        command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    printed = "\n".join(line.rstrip() for line in (done.stdout + done.stderr).rstrip().splitlines())
    assert printed == output, page


@pytest.mark.parametrize("block", blocks_of(*PAGES, languages=("sh",)), ids=str)
def test_every_call_on_a_page_is_one_that_the_program_takes(block: Block) -> None:
    """A call of `demur` on a page has a command and flags that exist; those of the how-to pages are run as well."""
    for call in calls_of(block):
        try:
            parser(call[0]).parse_args(call)
        except (ModuleNotFoundError, SystemExit):
            pytest.fail(f"demur {shlex.join(call)}")


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_the_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block on a page runs, in order, in one namespace a page; one with a name is a file of its how-to."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in blocks_of(page, languages=("python",)):
        if block.title is None:
            exec(compile(block.text, str(block), "exec"), namespace)  # noqa: S102 — the project's own pages


def test_pages_are_finished() -> None:
    """No placeholder is left on a page, and every link to a file leads to one."""
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"OUTPUT\d|TODO|TBD|example\.invalid", text), page.name
        links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name


def test_every_dependency_has_its_reason() -> None:
    """Each run-time dependency stands in docs/dependencies.md."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[<>=\[ ]", d)[0] for d in asked} - {"demur"}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert [n for n in names if f"`{n}`" not in page] == []


def test_the_limits_are_those_of_the_model_cards() -> None:
    """Every figure of what the detector misses stands in a model card: a card that changes changes the page."""
    docs = ROOT / "docs"
    told = (docs / "limits.md").read_text(encoding="utf-8").split("## What the detector misses")[1].split("\nSo:\n")[0]
    cards = "".join(page.read_text(encoding="utf-8") for page in docs.glob("model_card*.md"))
    figures = re.findall(r"\d*\.\d+", told)
    assert len(figures) > 10
    assert [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", cards)] == []


def test_every_metric_on_the_pages_is_one_that_the_gateway_has() -> None:
    """A query on a page names no figure that the gateway does not serve."""
    known = {family.name for family in gateway_families()}
    named = {n for p in PAGES for n in re.findall(r"demur_\w+_total|demur_\w+_seconds", p.read_text(encoding="utf-8"))}
    assert named
    assert sorted(named - known) == []


def test_every_setting_is_documented() -> None:
    """Each environment variable that the source reads is named in a help text or a page."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    names = {name for text in sources for name in re.findall(r"DEMUR_[A-Z_]+[A-Z]", text)}
    pages = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    assert sorted(n for n in names if n not in pages) == []


@pytest.mark.parametrize("name", ["dashboard", "report"])
def test_a_picture_is_a_small_png(name: str) -> None:
    """Each is a PNG of at least 1,000 pixels' width and at most 150 KB; `scripts/pictures` makes it anew."""
    picture = (ROOT / "docs" / "pictures" / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(picture[16:20], "big") >= 1000
    assert len(picture) <= LARGEST_PICTURE_BYTES
