"""The files that a hosting service and a contributor's tools read: workflow, hooks, templates, security policy."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = frozenset(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


WORKFLOW = load(GITHUB / "workflows" / "ci.yml")
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
HOOKS = [hook for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]


def test_the_workflow_runs_every_declared_python_on_every_system() -> None:
    """The matrix has the Pythons of the classifiers, and the three systems that "OS Independent" promises."""
    matrix = WORKFLOW["jobs"]["quick"]["strategy"]["matrix"]
    classifiers = [
        line.rpartition(" :: ")[2] for line in PROJECT["project"]["classifiers"] if " :: Python :: 3." in line
    ]
    assert matrix["python"] == classifiers
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert classifiers[0] == PROJECT["project"]["requires-python"].removeprefix(">=")


def test_the_whole_check_runs_on_the_oldest_python_with_everything_installed() -> None:
    """One job runs `make check` on the oldest Python, with PostgreSQL, a browser and Java."""
    job = WORKFLOW["jobs"]["check"]
    used = " ".join(step.get("uses", "") for step in job["steps"])
    run = "\n".join(step.get("run", "") for step in job["steps"])
    versions = [step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")]
    assert versions == [PROJECT["project"]["requires-python"].removeprefix(">=")]
    assert "setup-java" in used
    assert {"sh scripts/postgres", "sh scripts/chromium", "make check", "make test-cluster"} <= set(run.splitlines())


def test_the_workflow_may_do_little() -> None:
    """It may only read the repository, keeps no credentials in the checkout, and uses no secret; every job has an end."""
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert [job for job in WORKFLOW["jobs"].values() if "permissions" in job or not job["timeout-minutes"]] == []
    checkouts = [step for step in STEPS if "actions/checkout" in step.get("uses", "")]
    assert [step for step in checkouts if step["with"]["persist-credentials"] is not False] == []
    assert "secrets." not in (GITHUB / "workflows" / "ci.yml").read_text(encoding="utf-8")


def test_actions_are_pinned() -> None:
    """An action is the hosting service's own at a major version, or anybody's at a commit."""
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"actions/[\w-]+@v\d+|[\w./-]+@[0-9a-f]{40}", name)] == []


def test_no_expression_of_an_event_is_run_as_shell() -> None:
    """What a contributor can choose (a branch, a title) is not put into a script; the matrix is ours."""
    found = [name for step in STEPS for name in re.findall(r"\$\{\{(.*?)\}\}", step.get("run", ""))]
    assert [name for name in found if not name.strip().startswith("matrix.")] == []


def test_targets_and_scripts_of_the_workflow_exist() -> None:
    """Every `make` target and script that the workflow names is there; the quick tests are those of `make quick`."""
    run = "\n".join(step.get("run", "") for step in STEPS)
    assert sorted(set(re.findall(r"\bmake ([a-z-]+)", run)) - TARGETS) == []
    scripts = re.findall(r"\bsh (scripts/\w+)", run)
    assert "scripts/quick" in scripts
    assert [name for name in scripts if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_hooks_run_from_the_project(hook: dict[str, Any]) -> None:
    """A hook calls a target of the Makefile or a program of the environment, and fetches nothing."""
    assert hook["language"] == "system"
    program, *arguments = shlex.split(hook["entry"])
    if program == "make":
        assert set(arguments) <= TARGETS
    else:
        folder, _, name = program.rpartition("/")
        assert folder == ".venv/bin"
        assert list(Path(sys.executable).parent.glob(f"{name}*"))


def test_hooks_are_the_fast_half_of_the_check() -> None:
    """Format, lint, import contracts and types have a hook; all come from this repository."""
    assert {hook["id"] for hook in HOOKS} == {"format", "lint", "imports", "types"}
    assert {repo["repo"] for repo in load(ROOT / ".pre-commit-config.yaml")["repos"]} == {"local"}


@pytest.mark.parametrize("path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem)
def test_issue_forms_are_whole(path: Path) -> None:
    """A form has a name, a description and fields with different ids."""
    form = load(path)
    assert form["name"]
    assert form["description"]
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert fields
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)


def test_the_security_policy_says_how_to_report() -> None:
    """It says how to report, what is supported and in scope, and has the threat model of keys, logs, gateway and passports."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Report a vulnerability", "Supported versions", "In scope", "Threat model, on one page"]
    assert [part for part in ("Keys", "Logs", "Gateway", "Passports") if f"**{part}.**" not in text] == []
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []
