"""What the package needs is declared, bounded where it has to be, and installed in the same versions everywhere."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
CONSTRAINTS = sorted((ROOT / "constraints").glob("*.txt"))
DISTRIBUTIONS = {
    "ahocorasick_rs": "ahocorasick-rs",
    "opentelemetry": "opentelemetry-sdk",
    # Brought along by the package that they belong to.
    "py4j": "pyspark",
    "scramp": "pg8000",
    "yaml": "pyyaml",
}
"""The distribution of an imported package, where it has another name."""
HOSTS = frozenset(("inspect_ai", "litellm", "pytest"))
"""Programs that load our plug-ins: who runs the plug-in has them."""
UNPROMISED = {
    "cedarpy.pst": "its docstring says that it follows the engine, not the package's own stability",
    "duckdb.func": "it had another name before 1.4.1",
    "py4j": "an inner part of PySpark",
    "pyspark.logger": "not in the reference of the API",
    "pyspark.sql.pandas": "not in the reference of the API",
    "scramp": "a dependency of the driver, which may choose another",
    "uvicorn.protocols": "an implementation, not in the documentation",
}
"""Modules whose names and behaviour may change in any release; a part of a name that begins with `_` is one by itself."""


def imported() -> set[str]:
    """Return the dotted names of all that the package imports from other distributions."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names | {"demur", "__future__"}}


def declared() -> dict[str, Requirement]:
    """Return the requirements of the package and all its extras, by name."""
    lines = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    return {wanted.name: wanted for wanted in map(Requirement, lines) if wanted.name != "demur"}


def distribution_of(name: str) -> str:
    top = name.partition(".")[0]
    return DISTRIBUTIONS.get(top, top)


def has_upper_bound(wanted: Requirement) -> bool:
    return any(bound.operator in ("<", "<=", "==", "~=") for bound in wanted.specifier)


@pytest.mark.heavy
def test_every_imported_package_is_declared() -> None:
    """The package imports nothing that neither its dependencies nor its extras name."""
    tops = {name for name in imported() if name.partition(".")[0] not in HOSTS}
    assert sorted({distribution_of(name) for name in tops} - declared().keys()) == []


@pytest.mark.heavy
def test_what_a_package_does_not_promise_is_bounded() -> None:
    """A dependency that we use more of than it promises to keep has an upper bound."""
    unpromised = tuple(f"{part}." for part in UNPROMISED)
    found = {name for name in imported() if f"{name}.".startswith(unpromised) or f".{name}".count("._")}
    assert {distribution_of(name) for name in found} >= {"uvicorn", "cedarpy"}
    free = sorted(name for name in found if not has_upper_bound(declared()[distribution_of(name)]))
    assert free == []


def test_every_upper_bound_has_its_reason() -> None:
    """A bound that keeps users from a newer version says why, in a comment on its line."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    bounded = [name for name, wanted in declared().items() if has_upper_bound(wanted)]
    assert [name for name in bounded if not re.search(rf'"{name}[^"]*<[^"]*", # \S', text)] == []


@pytest.mark.parametrize("path", CONSTRAINTS, ids=lambda path: path.name)
def test_constraints_are_of_no_machine(path: Path) -> None:
    """A constraints file holds released versions alone: no path, no address, no hash, no local build, no demur."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", line)] == []
    names = [canonicalize_name(line.partition("==")[0]) for line in lines]
    assert len(set(names)) == len(names)
    assert "demur" not in names


@pytest.mark.parametrize("path", CONSTRAINTS, ids=lambda path: path.name)
def test_constraints_fit_the_project(path: Path) -> None:
    """Each version in a constraints file is one that the project accepts, and what `make setup` asks for is in it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    versions = {canonicalize_name(n): Version(v) for n, _, v in (line.partition("==") for line in lines) if v}
    extras = PROJECT["optional-dependencies"]
    wanted = [Requirement(line) for line in chain(PROJECT["dependencies"], extras["gateway"], extras["postgres"])]
    wanted += [Requirement(line) for group in PYPROJECT["dependency-groups"].values() for line in group]
    assert [r.name for r in wanted if canonicalize_name(r.name) not in versions] == []
    assert [str(r) for r in wanted if not r.specifier.contains(versions[canonicalize_name(r.name)])] == []


def test_the_oldest_python_has_constraints() -> None:
    """The Python that CI checks everything with has a constraints file, and `make setup` uses it."""
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert oldest in {path.stem for path in CONSTRAINTS}
    assert '--constraint "$constraints"' in (ROOT / "scripts" / "setup").read_text(encoding="utf-8")
