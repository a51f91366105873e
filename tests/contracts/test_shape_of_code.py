"""The code keeps its shape: small files, small functions, no drawers for leftovers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
OUTERMOST = {"audit/server.py", "cli/main.py", "dashboard/app.py", "gateway/app.py", "simulate/server/app.py"}
"""The command line's `main` and the outermost layer of each server: only they may catch whatever is raised."""


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def catches_everything(node: ast.ExceptHandler) -> bool:
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_has_one_subject(path: Path) -> None:
    """No source file is longer than 600 lines and no function longer than 60."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    functions = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [f.name for f in functions if (f.end_lineno or 0) - f.lineno + 1 > MAX_FUNCTION_LINES]
    assert not long


@pytest.mark.heavy
def test_only_the_outermost_layers_catch_everything() -> None:
    """`except Exception` appears only in the command line's `main` and in the servers' outermost layer."""
    broad = [
        str(path.relative_to(ROOT / "src" / "demur"))
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]
    assert [b for b in broad if b not in OUTERMOST] == []


def test_no_drawer_for_leftovers() -> None:
    """No module is called utils, common, helpers, nor carries a version in its name."""
    leftovers = {"utils", "util", "common", "helpers", "misc"}
    assert not [p for p in SOURCES if p.stem in leftovers or p.stem.endswith(("_v2", "_advanced", "_legacy"))]
