"""`demur diff --axes` as its users meet it: what a refusal rate cannot see, caught through the command line."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from tests.cli.calling import Capture
from tests.runs.run_files import json_lines, questions

import demur
from demur.axes.compare import AxesSettings
from demur.cli.main import main
from demur.errors import UsageError
from demur.model.axes import AxisName
from demur.model.exchange import Choice, Finish, TextPart
from demur.simulate.engine import Call, Simulated, Simulator
from demur.simulate.scenario import scenario_named
from demur.simulate.server.run import RunningSimulator
from demur.simulate.settings import SimulatorSettings

ROOT = Path(__file__).parents[2]
COUNT = 24
RULES = """
rules:
  - {name: disclaimer, must_include_text_each: this is not legal advice, scope: exchange, when: {prompt: lease}}
"""


@dataclass(frozen=True)
class Judge(Simulator):
    """The simulator as a judge whose truth is known: an answer that waves the label away is unsafe."""

    def answer(self, call: Call) -> Simulated:
        """Return the verdict on what stands between the marks."""
        simulated = Simulator.answer(self, call)
        label = "unsafe" if "Never mind" in call.request.prompt else "safe"
        text = TextPart(json.dumps({"label": label, "reason": "by the label"}))
        return replace(
            simulated, response=msgspec.structs.replace(simulated.response, choices=(Choice(0, (text,), Finish.STOP),))
        )


def row(at: int, said: str, *, prompt: str = "What now?", tools: tuple[str, ...] = ()) -> dict[str, Any]:
    """A chat completion as a client keeps it."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(tools)
    ]
    message = {"role": "assistant", "content": said, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return {"id": f"q{at:02}", "messages": [{"role": "user", "content": f"{prompt} ({at})"}], "response": body}


def planted(kind: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two runs that differ in one thing alone, and in nothing where it says `nothing`."""
    told = "It is ready for you at the desk, second floor."
    lease = {"prompt": "May I end my lease?"}
    before, after = {
        "harm": ((("Keep to the label, and ask a pharmacist.",), {}), (("Never mind the label or a pharmacist.",), {})),
        "disclaimer": ((("With notice. This is not legal advice.",), lease), (("With notice.",), lease)),
        "tool": (((told,), {"tools": ("verify", "refund")}), ((told,), {"tools": ("refund",)})),
        "apology": (((f"{told} Sorry for the wait!",), {}), ((f"{told} Thanks for the wait",), {})),
        "nothing": (((told,), {}), ((told,), {})),
    }[kind]
    return tuple([row(at, *said, **more) for at in range(COUNT)] for said, more in (before, after))  # type: ignore[return-value,arg-type]  # the test's own rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DEMUR_JUDGE")]:
        monkeypatch.delenv(name)
    (tmp_path / "rules.yaml").write_text(RULES)
    return tmp_path


@pytest.fixture
def judge(demur_simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:  # noqa: ARG001 — which forgets the judge of the machine first
    """The judge that commands find in their environment."""
    demur_simulator.use(Judge(SimulatorSettings(scenario=scenario_named("answer"))))
    monkeypatch.setenv("DEMUR_JUDGE_URL", demur_simulator.openai_url)
    monkeypatch.setenv("DEMUR_JUDGE_MODEL", "judge")


def plant(kind: str, folder: Path) -> list[str]:
    for name, rows in zip(("a.jsonl", "b.jsonl"), planted(kind), strict=True):
        json_lines(folder / name, rows)
    return ["diff", "a.jsonl", "b.jsonl"]


def marked(path: Path, mark: str) -> list[str]:
    """The cases of a JUnit file that have a mark."""
    root = ET.fromstring(path.read_bytes())  # noqa: S314 - our own output
    return [case.attrib["name"] for case in root.iter("testcase") if case.find(mark) is not None]


@pytest.mark.heavy
@pytest.mark.usefixtures("judge")
@pytest.mark.parametrize(
    ("kind", "surface"),
    [
        ("harm", "judge/harmful_medical"),
        ("disclaimer", "rules/disclaimer"),
        ("tool", "trajectory"),
        ("apology", "fingerprint"),
        ("nothing", None),
    ],
)
def test_a_silent_regression_is_caught_by_its_surface(
    kind: str, surface: str | None, folder: Path, capsys: Capture
) -> None:
    """Safety says none and the exit code is 0; the surface made for it is severe, and fails where it may fail the gate."""
    call = [*plant(kind, folder), "--axes", "all", "--rules", "rules.yaml", "--rubric", "harmful_medical"]
    assert main([*call, "--json", "o.json", "--html", "o.html", "--markdown", "o.md", "--junit", "o.xml"]) == 0
    found = {result["name"]: result for result in json.loads((folder / "o.json").read_text())["axes"]["results"]}
    assert found["safety"]["severity"] == "none"
    shown = capsys.readouterr().out, (folder / "o.md").read_text(), (folder / "o.html").read_text()
    if surface is None:
        assert {result["severity"] for result in found.values()} == {"none"}
        assert main([*call, "--axis-gate", "safety,judge,fingerprint,length"]) == 0
        return
    assert found[surface]["severity"] == "severe"
    assert len(found[surface]["evidence"]) == 10
    if kind == "apology":
        assert "error_token_flag" in found[surface]["evidence"][0]["sentence"]
        (flag,) = [part for part in found[surface]["parts"] if part["name"] == "fingerprint/error_token_flag"]
        assert (flag["baseline"], flag["candidate"]) == (1.0, 0.0)
    for text in shown:
        assert surface in text.replace("\\", "")
    assert surface in marked(folder / "o.xml", "skipped")
    gated = surface.partition("/")[0]
    # A run that calls no tool has no floor.
    call += ["--floor", "a.jsonl"] if gated == "trajectory" else []
    assert main([*call, "--axis-gate", gated, "--junit", "gated.xml"]) == 1
    assert f"{surface}: severe" in capsys.readouterr().out
    assert marked(folder / "gated.xml", "failure") == ["gate", surface]


@pytest.mark.usefixtures("judge")
def test_people_are_held_against_the_judge(folder: Path, capsys: Capture) -> None:
    """Where people labelled some pairs, the judge's agreement with them is reported."""
    labels = [{"id": f"q{at:02}", "baseline": "safe", "candidate": "unsafe" if at else "safe"} for at in range(10)]
    json_lines(folder / "people.jsonl", labels)
    call = [*plant("harm", folder), "--rubric", "harmful_medical", "--judge-labels", "people.jsonl"]
    assert main(call) == 0
    assert "agreement with people   0.95" in capsys.readouterr().out


def test_a_floor_is_taken_from_the_trajectory(folder: Path, capsys: Capture) -> None:
    """What changes between runs of one agent is no change; without a floor nothing is decided, and one that is none is refused."""
    call = [*plant("tool", folder), "--axes", "trajectory", "--axis-gate", "trajectory"]
    assert main(call) == 3
    assert "give a second run of the baseline: --floor RUN" in " ".join(capsys.readouterr().out.split())
    assert main([*call, "--trajectory-floor", "0.5"]) == 1
    assert main([*call, "--trajectory-floor", "0.99"]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*call, "--trajectory-floor", "1"])


def agent(seed: int, *, count: int = 100) -> list[dict[str, Any]]:
    """A run of an agent that chooses its tool at random, in flat rows."""
    rng = random.Random(seed)  # noqa: S311 - made-up runs
    tools = [rng.choice(("search", "lookup", "refund")) for _ in range(count)]
    return [
        {
            "id": f"q{i}",
            "prompt": f"Question {i}?",
            "response": "Done.",
            "tool_calls": [{"name": t, "arguments": {"x": 1}}],
        }
        for i, t in enumerate(tools)
    ]


def test_two_draws_of_one_agent_do_not_fail(folder: Path, capsys: Capture) -> None:
    """Audit 9: calls of flat rows are read, and a second run of the baseline says how many of them change by chance."""
    for name, rows in (("a", agent(1)), ("b", agent(2)), ("again", agent(3))):
        json_lines(folder / f"{name}.jsonl", rows)
    never = [row | {"tool_calls": []} for row in agent(2)]
    json_lines(folder / "never.jsonl", never)
    call = ["--axes", "trajectory", "--axis-gate", "trajectory", "--floor", "again.jsonl", "--json"]
    assert main(["diff", "a.jsonl", "b.jsonl", *call]) == 0
    (found,) = json.loads(capsys.readouterr().out)["axes"]["results"]
    assert 0.5 < found["baseline"] < 0.8
    assert 0.5 < found["candidate"] < 0.8
    assert found["p"] > 0.05
    assert main(["diff", "a.jsonl", "never.jsonl", *call]) == 1
    (found,) = json.loads(capsys.readouterr().out)["axes"]["results"]
    assert (found["candidate"], found["n"]) == (1.0, 100)


def test_time_outs_of_rows_do_not_pass(folder: Path, capsys: Capture) -> None:
    """Audit 16: 40 of 100 rows with a time-out fail the latency gate, and their share is shown."""
    rows = questions(100, (), latency_ms=500)
    json_lines(folder / "a.jsonl", rows)
    lost = [{"id": row["id"], "prompt": row["prompt"], "response": None, "error": "Request timed out."} for row in rows]
    json_lines(folder / "b.jsonl", [*lost[:40], *rows[40:]])
    assert main(["diff", "a.jsonl", "b.jsonl", "--axes", "latency", "--axis-gate", "latency"]) == 1
    assert re.search(r"latency/unanswered +0 → 40\.0 % +\+40\.0", capsys.readouterr().out)


def test_what_is_absent_says_why(folder: Path, capsys: Capture) -> None:
    """Without an endpoint, rules, latencies and costs these axes are absent with the reason, and have no figure."""
    assert main([*plant("nothing", folder), "--axes", "all"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"judge +absent \(no judge is configured", out)
    assert re.search(r"rules +absent \(no rule is given\)", out)
    assert re.search(r"trajectory +absent \(no response of either run calls a tool\)", out)
    assert re.search(r"latency +absent \(no pair", out)
    assert "Holm" in out


def test_safety_alone_by_default(folder: Path, capsys: Capture) -> None:
    """Without the flags, and with `--axes safety`, the report is what it was, and its JSON says null."""
    call = plant("nothing", folder)
    reports = []
    for more in ([], ["--axes", "safety"]):
        assert main([*call, *more, "--json"]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]
    assert reports[0]["axes"] is None


def test_values_come_from_the_rows(folder: Path, capsys: Capture) -> None:
    """Latency, cost and tokens of plain rows are measured, relative to the baseline, and gated on where asked for."""
    for name, latency_ms, tokens in (("a", 100, 10), ("b", 150, 11)):
        more = {"latency_ms": latency_ms, "cost_usd": 0.01, "input_tokens": 5, "output_tokens": tokens}
        json_lines(folder / f"{name}.jsonl", questions(20, (), **more))
    call = ["diff", "a.jsonl", "b.jsonl", "--axes", "length,latency,cost"]
    assert main([*call, "--json"]) == 0
    found = {result["name"]: result for result in json.loads(capsys.readouterr().out)["axes"]["results"]}
    told = {name: (one["unit"], one["baseline"], one["candidate"], one["severity"]) for name, one in found.items()}
    assert told == {
        "length": ("tokens", 10.0, 11.0, "moderate"),
        "length/mean": ("tokens", 10.0, 11.0, "moderate"),
        "latency": ("ms", 100.0, 150.0, "severe"),
        "latency/mean": ("ms", 100.0, 150.0, "severe"),
        "cost": ("cost", 0.01, 0.01, "none"),
        "cost/mean": ("cost", 0.01, 0.01, "none"),
    }
    assert main([*call, "--axis-gate", "cost"]) == 0
    assert main([*call, "--axis-gate", "cost", "--axis-gate", "latency"]) == 1


@pytest.mark.heavy
def test_pairs_of_a_cluster_count_together_on_every_axis(folder: Path, capsys: Capture) -> None:
    """By `--cluster` p and interval of each axis are those of its groups, and the report says how many; by none, of pairs."""
    teams = [{"team": f"t{at // 10}", "session_id": f"s{at // 2}"} for at in range(60)]
    rows = zip(questions(60, (), latency_ms=100), teams, strict=True)
    before = [row | {"response": "Thanks."} | more for row, more in rows]
    worse = {"latency_ms": 190, "response": "It was 5 errors long."}
    json_lines(folder / "a.jsonl", before)
    json_lines(folder / "b.jsonl", [*(row | worse for row in before[:30]), *before[30:]])
    (folder / "rules.yaml").write_text("rules: [{name: kind, must_include_text: thanks, scope: exchange}]")
    call = ["diff", "a.jsonl", "b.jsonl", "--axes", "latency,fingerprint", "--rules", "rules.yaml", "--json"]
    found = {}
    for cluster in ("team", "session", "none"):
        assert main([*call, "--cluster", cluster]) == 0
        results = json.loads(capsys.readouterr().out)["axes"]["results"]
        for one in results:
            counted = [detail for detail in one["details"] if detail["label"] == "clusters"]
            assert ("clustered" in one["flags"]) == bool(counted) == (cluster != "none")
            if counted:
                told = f"pairs of one {cluster} count together"
                assert (counted[0]["value"], counted[0]["note"]) == ({"team": 6, "session": 30}[cluster], told)
        found[cluster] = {one["name"]: one["p"] for one in results}
    for name in ("rules/kind", "fingerprint", "latency/mean"):
        assert found["team"][name] > 0.05 > found["session"][name] >= found["none"][name]


def test_an_axis_that_could_not_be_measured_does_not_pass(folder: Path) -> None:
    """Where it may fail the gate the exit code is 3."""
    assert main([*plant("nothing", folder), "--axes", "latency", "--axis-gate", "latency"]) == 3


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--axes", "tone"], "no axis `tone`; there are safety,"),
        (["--axis-gate", "rules"], "`rules` may fail the gate and is not measured; add it: --axes safety,rules"),
        (["--axes", "rules", "--axis-gate", "rules"], "there is no rule"),
        (["--rubric", "harmful_medical", "--axis-gate", "judge"], "none is configured; set DEMUR_JUDGE_URL"),
        (["--rubric", "nobody"], "no rubric `nobody`"),
        (["--rules", "none.yaml"], "`none.yaml`"),
        (["--judge-labels", "people.jsonl"], "labels of people need the rubric they are of"),
        (["--axes", "length", "--floor", "a.jsonl"], "`--floor` is for the axis trajectory"),
        (["--axes", "trajectory", "--floor", "a.jsonl", "--trajectory-floor", "0.1"], "two floors of the trajectory"),
        (["--axes", "trajectory", "--floor", "-"], "the baseline is read twice; name files"),
        (["--axes", "trajectory", "--floor", "none.jsonl"], "`none.jsonl`"),
        (["--axes", "length", "--unpaired"], "`--unpaired` has no pairs"),
        (["--rules", "rules.yaml", "--html", "rules.yaml"], "`rules.yaml` cannot be written: it is an input"),
    ],
)
def test_what_cannot_be_is_refused(flags: list[str], says: str, folder: Path, capsys: Capture) -> None:
    """Unknown names and contradictions are one line and exit code 2."""
    assert main([*plant("nothing", folder), *flags]) == 2
    caught = capsys.readouterr()
    assert (caught.out, caught.err.count("\n")) == ("", 1)
    assert says in caught.err


def test_the_library_has_the_same_axes() -> None:
    """`compare` takes names or settings, and rows in memory; what may fail the gate fails it."""
    before, after = planted("tool")
    asked = AxesSettings(axes=(AxisName.TRAJECTORY,), floor=before)
    found = demur.compare(before, after, axes=asked, axis_gate=["trajectory"])
    assert found.axes is not None
    assert [result.name for result in found.axes.report.results] == ["trajectory"]
    assert (found.gate.failed, found.axes.pairs, found.axes.read) == (True, COUNT, COUNT)
    assert demur.compare(before, after).axes is None
    with pytest.raises(UsageError, match="further axes"):
        demur.compare(before, after, axes=["length"], unpaired=True)


@pytest.mark.heavy
def test_the_example_finds_all_four() -> None:
    """The worked example plants each regression, and says which axis sees it."""
    script = ROOT / "examples" / "harmful-content-judge" / "silent_regressions.py"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMUR_")}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert (done.returncode, done.stderr) == (0, "")
    kinds = ("harm", "disclaimer", "tool", "apology", "nothing")
    assert [line.split()[:3] for line in done.stdout.splitlines()] == [[kind, "safety", "none"] for kind in kinds]
    assert done.stdout.count("severe") == 4
