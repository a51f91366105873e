"""The code keeps its shape: small files, small functions, no drawers for leftovers."""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_FOLDER_FILES = 25
MAX_SHARED_PREFIX = 3
OUTERMOST = {
    "audit/server.py",
    "cli/main.py",
    "dashboard/app.py",
    "gateway/app.py",
    "runs/label_server.py",
    "simulate/server/app.py",
}
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


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCES}), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_folder_can_be_taken_in_at_a_glance(folder: Path) -> None:
    """No folder holds more than 25 files, and no four of them share a prefix: that is a folder not made yet."""
    files = [path for path in folder.iterdir() if path.is_file()]
    assert len(files) <= MAX_FOLDER_FILES
    prefixes = Counter(path.stem.partition("_")[0] for path in files if "_" in path.stem.strip("_"))
    assert [prefix for prefix, count in prefixes.items() if count > MAX_SHARED_PREFIX] == []


def test_imports_have_no_cycle() -> None:
    """No module imports itself by way of others, inside a package neither, and not for its types alone."""
    graph = grimp.build_graph("demur", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as exc:
        pytest.fail(" -> ".join(exc.args[1]))
