#!/usr/bin/env python3
"""Write docs/frameworks.md anew: what reaches an application through each client stack when a model refuses.

    python scripts/frameworks.py               every stack, which takes half an hour and a network
    python scripts/frameworks.py openai dspy   these; the others keep what was recorded
    python scripts/frameworks.py --table       no stack: only the table, from what was recorded

Each stack is installed by itself below build/frameworks, its application in examples/frameworks is run against `demur simulate`, and the
packages are removed. What the application printed is classified here, and kept with versions and date in examples/frameworks/results.json.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import demur

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
APPS = ROOT / "examples" / "frameworks"
RESULTS = APPS / "results.json"
PAGE = ROOT / "docs" / "frameworks.md"
BUILD = ROOT / "build" / "frameworks"
CASES = ("refusal", "streamed", "filter", "blocked", "structured")
"""The columns, in their order."""
CONTROLS = {"streamed": "answer streamed", "structured": "answer structured"}
"""What has to work before a case says anything; `answer` for the others."""
SCENARIOS = ("answer", "refuse", "filter", "filter-azure-400")
BEGIN, END = "<!-- table: make frameworks -->\n", "<!-- end of table -->"
RUN_S, INSTALL_S = 300, 1200
_SIGNS = {
    "contentfilter",
    "contentfiltered",
    "refusal",
    "safety",
    "guardrailintervened",
    "prohibitedcontent",
    "blocked",
}
"""Finish reasons, codes and types by which providers say that they declined, letters only."""
_NAMES = {"refusal", "block_reason", "blockreason"}
"""Fields that are there only where something was declined."""
_NAMED = re.compile(
    r"refus|content[ _-]?(filter|policy|management)|safety|guardrail|prohibited|can(?:'|’)t help", re.IGNORECASE
)
_QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MASTRA_TELEMETRY_DISABLED": "1",
    "OPENAI_API_KEY": "none",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONUTF8": "1",
}
"""No stack sends anything anywhere but to the simulator."""

Fields = dict[str, list[str]]


def stacks() -> list[dict[str, Any]]:
    """Return the stacks as their file lists them."""
    found: list[dict[str, Any]] = tomllib.loads((APPS / "stacks.toml").read_text(encoding="utf-8"))["stacks"]
    return found


def signs_in(fields: Fields, control: Fields) -> list[str]:
    """Return the paths under which a value says that the model declined, the plainest first."""
    found = []
    for path, values in fields.items():
        fresh = [value for value in values if value not in control.get(path, ())]
        last = path.replace("[]", "").rpartition(".")[2].lower()
        word = last in _NAMES and any(value not in ("True", "False") for value in fresh)
        if word or any(re.sub("[^a-z]", "", value.rpartition(".")[2].lower()) in _SIGNS for value in fresh):
            found.append(path)
    return sorted(found, key=lambda path: (path.count(".") + path.count("[]"), "refusal" not in path, path))


def classify(case: str, got: Mapping[str, Any], control: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcome of a case in one of five words, with where or what it was."""
    if "raised" in got:
        everything = " ".join([got["message"], *(value for values in got["fields"].values() for value in values)])
        said = bool(_NAMED.search(f"{got['raised']} {everything}"))
        return {"outcome": "raised", "where": got["raised"], "names_it": said}
    text = got["text"] or ""
    signs = signs_in(got["fields"], control.get("fields", {}))
    if case == "blocked" and not signs:
        # Some stacks keep the message of an error and not its code.
        signs = [path for path, values in got["fields"].items() if any(map(_NAMED.search, values))]
    if signs:
        return {"outcome": "reached", "where": signs[0]}
    if case == "filter":
        return {"outcome": "cut text as answer" if text else "lost"}
    return {"outcome": "text only" if text and demur.check(text).abstained else "lost"}


def row_of(printed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the outcomes of one application; a case whose control failed says nothing and is left out with the reason."""
    by_case = {got["case"]: got for got in printed}
    cells: dict[str, Any] = {}
    for case in CASES:
        control = by_case.get(CONTROLS.get(case, "answer"))
        if case not in by_case or control is None:
            cells[case] = {"outcome": "not offered"}
        elif "raised" in control and control["raised"] == by_case[case].get("raised"):
            why = f"{control['raised']}: {control['message']}".partition("\n")[0][:160]
            cells[case] = {"outcome": "not run", "why": f"an ordinary answer raises {why}"}
        else:
            cells[case] = classify(case, by_case[case], control)
            if cells[case]["outcome"] == "lost" and not control.get("text") and "raised" not in control:
                # Nothing was lost that would have been there.
                cells[case] = {"outcome": "not run", "why": "an ordinary answer of the simulator comes back empty too"}
    return cells


def cell(found: Mapping[str, Any]) -> str:
    """Return an outcome as the table shows it."""
    outcome: str = found["outcome"]
    where = found.get("where")
    if outcome == "reached":
        return f"reached (`{where}`)"
    if outcome == "raised":
        return f"raised (`{where}`)" + ("" if found["names_it"] else ", **refusal lost**")
    if outcome in ("lost", "cut text as answer"):
        return f"**{outcome}**"
    return {"not offered": "–", "not run": "not run"}.get(outcome, outcome)


def table_of(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the page."""
    heads = (
        "stack",
        "date",
        "refusal field",
        "streamed refusal",
        "filter after text",
        "400 or blocked prompt",
        "structured",
    )
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    notes = []
    for stack in stacks():
        name = stack["name"]
        result = results.get(name, {"why": "not run yet"})
        versions = ", ".join(f"{package} {version}" for package, version in result.get("versions", {}).items())
        first = f"[{name}](../examples/frameworks/{stack['app']})" + (f"<br>{versions}" if versions else "")
        if "cases" not in result:
            lines.append(f"| {first} | {result.get('date', '–')} |" + " not run |" * len(CASES))
            notes.append(f"- {name} could not be run: {result['why']}")
            continue
        cells = [result["cases"][case] for case in CASES]
        notes += [f"- {name}, {case}: {c['why']}" for case, c in zip(CASES, cells, strict=True) if "why" in c]
        lines.append(f"| {first} | {result['date']} | {' | '.join(cell(c) for c in cells)} |")
    return "\n".join([*lines, "", *notes, *([""] if notes else [])]) + "\n"


def page_with(table: str, page: str) -> str:
    """Return the page with another table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table}{END}{rest.partition(END)[2]}"


@contextmanager
def simulators() -> Iterator[dict[str, str]]:
    """Run a simulator for each scenario; give their addresses."""
    with ExitStack() as stack:
        urls = {}
        for scenario in SCENARIOS:
            command = [sys.executable, "-m", "demur", "simulate", "--port", "0", "--scenario", scenario]
            server = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
            stack.callback(server.terminate)
            for line in server.stdout or ():
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    urls[scenario] = found[0]
                    break
        yield urls


def install(stack: Mapping[str, Any], folder: Path) -> tuple[list[str], dict[str, str]]:
    """Install a stack's packages into a folder; return the command that runs its application, and the versions."""
    app, names = APPS / stack["app"], [re.sub(r"\[.*", "", package) for package in stack["packages"]]
    if app.suffix == ".mjs":
        folder.mkdir(parents=True)
        # Beside the packages, since Node looks for them above a file's own folder.
        for file in (app, app.with_name("harness.mjs")):
            shutil.copy(file, folder)
        (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
        _installed(
            "npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", *stack["packages"]
        )
        versions = {
            n: json.loads((folder / "node_modules" / n / "package.json").read_bytes())["version"] for n in names
        }
        return ["node", str(folder / app.name)], versions
    _installed(sys.executable, "-m", "venv", str(folder))
    python = str(folder / "bin" / "python")
    _installed(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *stack["packages"])
    asked = "import sys, json; from importlib.metadata import version; print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
    versions = json.loads(subprocess.check_output([python, "-c", asked, *names], text=True))
    return [python, str(app)], versions


class StackError(Exception):
    """A stack that could not be run; its text says why."""


def _installed(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired as exc:
        raise StackError(f"its packages did not install within {INSTALL_S} s") from exc
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if "error" in line.lower()] or ["no reason was given"]
        raise StackError(f"its packages do not install: {last[-1].strip()[:160]}")


def run_stack(stack: Mapping[str, Any], urls: Mapping[str, str]) -> dict[str, Any]:
    """Install a stack, run its application, remove it; return what goes on record."""
    folder = BUILD / re.sub(r"\W+", "_", stack["name"]).strip("_")
    shutil.rmtree(folder, ignore_errors=True)
    result: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "app": stack["app"]}
    try:
        command, result["versions"] = install(stack, folder)
        environment = os.environ | _QUIET | {"DEMUR_SIMULATORS": json.dumps(urls), "HOME": str(folder)}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=RUN_S, check=False)
        printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
        if printed:
            result |= {"cases": row_of(printed), "seen": [evidence(got) for got in printed]}
        else:
            result["why"] = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:200]
    except subprocess.TimeoutExpired:
        result["why"] = f"it did not end within {RUN_S} s"
    except (StackError, OSError) as exc:
        result["why"] = str(exc)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def evidence(got: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an application printed, without the fields that say nothing of a refusal."""
    fields: Fields = got["fields"]
    telling = set(signs_in(fields, {}))
    if "raised" in got or got["case"] == "blocked":
        telling |= {path for path, values in fields.items() if any(map(_NAMED.search, values))}
    kept = {name: got[name] for name in ("case", "text", "raised", "message") if name in got}
    return kept | {"fields": {path: fields[path] for path in fields if path in telling}}


def main(names: Sequence[str]) -> None:
    """Run the stacks that are named, or all of them, and write the table."""
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    known = [stack["name"] for stack in stacks()]
    if unknown := [name for name in names if name not in known and name != "--table"]:
        sys.exit(f"unknown stack `{unknown[0]}`; known are {', '.join(known)}")
    if "--table" not in names:
        with simulators() as urls:
            for stack in stacks():
                if not names or stack["name"] in names:
                    results[stack["name"]] = result = run_stack(stack, urls)
                    told = result.get("why") or ", ".join(f"{case} {cell(c)}" for case, c in result["cases"].items())
                    sys.stdout.write(f"{stack['name']}: {told}\n")
                    sys.stdout.flush()
                    ordered = {name: results[name] for name in known if name in results}
                    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page_with(table_of(results), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
