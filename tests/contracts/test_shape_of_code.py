"""The house keeps its shape: small files, small functions, one home for an idea."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_HOMES_OF_A_HELPER = 2
INTERFACE_FUNCTIONS = {
    # One function a codec, by the protocol in wire/interface.py.
    "reads_request",
    "read_request",
    "write_request",
    "reads_response",
    "read_response",
    "write_response",
    "open_stream",
    "write_stream",
    # Two functions a trace format, by the protocol in wire/traces/interface.py.
    "sniffs",
    "open_reader",
    # One function a command, by the protocol of cli/main.py.
    "add_parser",
    "run",
}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def catches_everything(node: ast.ExceptHandler) -> bool:
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_has_one_subject(path: Path) -> None:
    """No source file is longer than 500 lines and no function longer than 60."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    functions = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [f.name for f in functions if (f.end_lineno or 0) - f.lineno + 1 > MAX_FUNCTION_LINES]
    assert not long


def test_an_idea_has_one_home() -> None:
    """A top-level helper's name is defined in at most two modules, the functions of a protocol aside."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                homes[node.name].append(path.name)
    crowded = {n: h for n, h in homes.items() if len(h) > MAX_HOMES_OF_A_HELPER and n not in INTERFACE_FUNCTIONS}
    assert not {n: h for n, h in crowded.items() if not n.startswith("__")}


def test_only_two_places_catch_everything() -> None:
    """`except Exception` stands only in the command line's `main` and in the servers' outermost layer."""
    broad = [
        str(path.relative_to(ROOT / "src" / "demur"))
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]
    assert [b for b in broad if b != "cli/main.py" and not b.startswith("servers/")] == []


def test_no_drawer_for_leftovers() -> None:
    """No module is called utils, common, helpers, nor carries a version in its name."""
    leftovers = {"utils", "util", "common", "helpers", "misc"}
    assert not [p for p in SOURCES if p.stem in leftovers or p.stem.endswith(("_v2", "_advanced", "_legacy"))]
