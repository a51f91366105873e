"""What the documents show is what the program does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
# These set a machine up or take minutes; the other targets run them.
NOT_RUN_HERE = ("make ", "git ", "pip ")


def shown() -> list[tuple[str, str, str]]:
    """Every command on the pages with the output shown below it."""
    found = []
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
            for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = piece.partition("\n")
                if not command.startswith(NOT_RUN_HERE):
                    found.append((page.name, command, output.rstrip()))
    return found


@pytest.mark.parametrize(("page", "command", "output"), shown(), ids=lambda value: value[:40])
def test_every_command_prints_what_is_shown(page: str, command: str, output: str) -> None:
    """A command on a page prints exactly the lines below it."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    done = subprocess.run(  # noqa: S602 — the project's own pages
        command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    printed = "\n".join(line.rstrip() for line in (done.stdout + done.stderr).rstrip().splitlines())
    assert printed == output, page


def test_python_on_the_pages_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block on a page runs, in order, in one namespace a page."""
    monkeypatch.chdir(tmp_path)
    for page in PAGES:
        namespace: dict[str, object] = {}
        for block in PYTHON.findall(page.read_text(encoding="utf-8")):
            exec(compile(block, page.name, "exec"), namespace)  # noqa: S102 — the project's own pages


def test_pages_are_finished() -> None:
    """No placeholder is left on a page, and every link to a file leads to one."""
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"OUTPUT\d|TODO|TBD|example\.invalid", text), page.name
        links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name


def test_every_dependency_has_its_reason() -> None:
    """Each run-time dependency stands in docs/dependencies.md."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[<>=\[ ]", d)[0] for d in project["dependencies"]]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert [n for n in names if f"`{n}`" not in page] == []


def test_every_setting_is_documented() -> None:
    """Each environment variable that the source reads is named in a help text or a page."""
    names = {
        n
        for p in (ROOT / "src").rglob("*.py")
        for n in re.findall(r"DEMUR_[A-Z_]+[A-Z]", p.read_text(encoding="utf-8"))
    }
    pages = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    assert sorted(n for n in names if n not in pages) == []
