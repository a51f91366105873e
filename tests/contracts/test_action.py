"""The GitHub Action: its inputs, and its scripts run as GitHub runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.runs.run_files import json_lines, questions

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "ci" / "pull-request.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
SCRIPTS = {name: step["run"] for name, step in STEPS.items() if "run" in step}
# How GitHub starts a step with `shell: bash`.
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]


def outside_scripts() -> str:
    """The text of all steps but their scripts, where GitHub fills expressions in safely."""
    return json.dumps([{k: v for k, v in step.items() if k != "run"} for step in STEPS.values()])


@pytest.mark.parametrize("name", ACTION["inputs"])
def test_every_input_is_described_used_and_on_its_page(name: str) -> None:
    """An input has a description, reaches a step, and stands in the table of docs/github_action.md."""
    assert ACTION["inputs"][name]["description"]
    assert re.search(rf"inputs\.{re.escape(name)}\b(?!-)", outside_scripts())
    assert f"| `{name}` |" in (ROOT / "docs" / "github_action.md").read_text(encoding="utf-8")


def test_only_known_inputs_are_read() -> None:
    """No step reads an input that the action does not declare, and the example gives none."""
    assert set(re.findall(r"inputs\.([a-z-]+)", outside_scripts())) == set(ACTION["inputs"])
    used = next(step for step in EXAMPLE["jobs"]["refusals"]["steps"] if "demur@" in step.get("uses", ""))
    required = {name for name, given in ACTION["inputs"].items() if given.get("required")}
    assert required <= set(used["with"]) <= set(ACTION["inputs"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_holds_no_expression(name: str) -> None:
    """What users and contributors write reaches a script by its environment alone, and every name it reads is set."""
    script, given = SCRIPTS[name], set(STEPS[name]["env"])
    assert "${{" not in script
    read = set(re.findall(r"\$\{?([A-Z_]+)", script))
    assert {n for n in read if not n.startswith(("GITHUB_", "RUNNER_"))} == given - {"GH_TOKEN"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_bash(name: str) -> None:
    """Every script parses."""
    assert STEPS[name]["shell"] == "bash"
    subprocess.run(["bash", "-n"], input=SCRIPTS[name], text=True, check=True)  # noqa: S607 — the shell on the path


def test_foreign_actions_are_pinned_to_a_major_version() -> None:
    """Actions of others are named with a major version."""
    steps = [*STEPS.values(), *EXAMPLE["jobs"]["refusals"]["steps"]]
    foreign = [step["uses"] for step in steps if "uses" in step and "OWNER" not in step["uses"]]
    assert foreign
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in foreign)


def stepped(name: str, folder: Path, **environment: str) -> tuple[int, str]:
    """Run a step's script as GitHub does, with Demur's command on the path."""
    script = folder / "step.sh"
    script.write_text(SCRIPTS[name], encoding="utf-8")
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"PATH": path, "HOME": str(folder), "GITHUB_REPOSITORY": "o/r", "RUNNER_TEMP": str(folder)}
    given |= {"GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "GITHUB_OUTPUT": str(folder / "output")}
    given |= dict.fromkeys(STEPS[name]["env"], "") | environment
    done = subprocess.run(  # noqa: S603 — the action's own script
        [*BASH, str(script)], cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def outputs_of(folder: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (folder / "output").read_text(encoding="utf-8").splitlines())


def answers(path: Path, refused: int) -> str:
    return json_lines(path, questions(60, range(refused))).name


@pytest.mark.heavy
@pytest.mark.parametrize(("refused", "code"), [(2, "0"), (50, "1")])
def test_the_comparison_runs(tmp_path: Path, refused: int, code: str) -> None:
    """The step writes all reports, the summary and the exit code, and leaves failing to the last step."""
    runs = {"BASELINE": answers(tmp_path / "a b.jsonl", 2), "CANDIDATE": answers(tmp_path / "-c.jsonl", refused)}
    status, printed = stepped("Compare", tmp_path, **runs, FAIL_ON="moderate", GATE_ON="increase")
    assert status == 0, printed
    given = outputs_of(tmp_path)
    assert given["exit-code"] == code, printed
    written = sorted(p.name for p in Path(given["reports"]).iterdir())
    assert written == ["report.html", "report.json", "report.md", "report.xml"]
    report = (Path(given["reports"]) / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "summary.md").read_text(encoding="utf-8") == report
    assert json.loads((Path(given["reports"]) / "report.json").read_text(encoding="utf-8"))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["FAIL_ON", "GATE_ON", "FORMAT", "ARGS", "BASELINE"])
def test_no_input_becomes_a_command(tmp_path: Path, name: str) -> None:
    """An input full of shell is an option that `demur diff` refuses, never a command."""
    runs = {"BASELINE": answers(tmp_path / "a.jsonl", 2), "CANDIDATE": answers(tmp_path / "b.jsonl", 2)}
    status, printed = stepped("Compare", tmp_path, **runs | {name: '$(touch owned); touch owned "`touch owned`'})
    assert status == 0, printed
    assert outputs_of(tmp_path)["exit-code"] == "2", printed
    assert not (tmp_path / "owned").exists()


def github(folder: Path, *, existing: str = "", refuses: str = "never") -> Path:
    """Put a `gh` on the path that answers like GitHub's API and notes what it was asked."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "gh"
    command.write_text(
        f'#!/bin/sh\necho "$@" >>"{folder}/asked"\ncase "$*" in\n  *{refuses}*) exit 1 ;;\n'
        f'  *--paginate*) printf "%s" "{existing}" ;;\n  *) cat "{folder}/comment.md" >"{folder}/posted" ;;\nesac\n',
        encoding="utf-8",
    )
    command.chmod(0o755)
    return folder / "asked"


@pytest.mark.parametrize(
    ("existing", "refuses", "told", "asked"),
    [
        ("", "never", "wrote a comment", "--method POST repos/o/r/issues/7/comments "),
        ("41\n42\n", "never", "updated comment 41", "--method PATCH repos/o/r/issues/comments/41 "),
        ("41\n", "PATCH", "wrote a comment", "--method POST repos/o/r/issues/7/comments "),
        ("", "api", "::warning::", "--method POST repos/o/r/issues/7/comments "),
    ],
)
def test_one_comment_is_kept_up_to_date(tmp_path: Path, existing: str, refuses: str, told: str, asked: str) -> None:
    """Our comment is found by its marker and rewritten; without one it is written; without the right it is a warning."""
    calls = github(tmp_path, existing=existing, refuses=refuses)
    (tmp_path / "report.md").write_text("# Réfusals\n", encoding="utf-8")
    status, printed = stepped("Comment on the pull request", tmp_path, REPORTS=str(tmp_path), NUMBER="7")
    assert (status, told in printed) == (0, True), printed
    assert asked in calls.read_text(encoding="utf-8").splitlines()[-1]
    assert (tmp_path / "comment.md").read_text(encoding="utf-8") == "<!-- demur-diff -->\n# Réfusals\n"


def test_a_long_report_is_cut_between_characters(tmp_path: Path) -> None:
    """A comment stays below GitHub's limit and is whole UTF-8, wherever the report is cut."""
    github(tmp_path)
    (tmp_path / "report.md").write_text("x" + "é" * 100_000, encoding="utf-8")
    assert stepped("Comment on the pull request", tmp_path, REPORTS=str(tmp_path), NUMBER="7")[0] == 0
    assert 25_000 < len((tmp_path / "posted").read_text(encoding="utf-8")) < 65_536


@pytest.mark.heavy
def test_what_could_not_be_compared_is_said(tmp_path: Path) -> None:
    """Runs that cannot be read leave a report that says so, so that no older pass stays on the pull request."""
    runs = {"BASELINE": answers(tmp_path / "a.jsonl", 2), "CANDIDATE": "missing.jsonl"}
    status, printed = stepped("Compare", tmp_path, **runs)
    given = outputs_of(tmp_path)
    assert (status, given["exit-code"]) == (0, "2"), printed
    report = (Path(given["reports"]) / "report.md").read_text(encoding="utf-8")
    assert report.startswith("<!-- demur-diff -->\n### Refusal diff: nothing was compared")
    assert "missing.jsonl" in report


def test_without_a_report_there_is_no_comment(tmp_path: Path) -> None:
    """Where the comparison could not be made nothing is written."""
    calls = github(tmp_path)
    assert stepped("Comment on the pull request", tmp_path, REPORTS=str(tmp_path), NUMBER="7")[0] == 0
    assert not calls.exists()


@pytest.mark.parametrize("code", ["0", "1", "2"])
def test_the_job_ends_as_the_comparison_did(tmp_path: Path, code: str) -> None:
    """The last step exits with the code of `demur diff`."""
    assert stepped("Hold the gate", tmp_path, CODE=code)[0] == int(code)
