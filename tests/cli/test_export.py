"""`demur export`: what is written as an `.agentlog` reads as what it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.calling import Capture, call
from tests.cli.test_diff_axes import row
from tests.runs.run_files import json_lines, questions

import demur
from demur.errors import UsageError
from demur.runs.api import Reading
from demur.wire.agentlog import record_id

TIME = "2026-04-28T10:00:00.000Z"


def test_a_run_comes_back_as_it_was(folder: Path, capsys: Capture) -> None:
    """The log verifies, pairs with its run by prompts, has the same outcomes, texts and tool calls, and shows no change."""
    said = ("Done.", "I can't help with that.", "I can't help with that.")
    json_lines(folder / "a.jsonl", [row(at, said[at % 3], tools=("find", "buy")[: at % 3]) for at in range(12)])
    assert call("export", "--agentlog", "a.agentlog", "a.jsonl") == 0
    assert capsys.readouterr().out == "12 exchanges written to a.agentlog\n"
    found = demur.compare("a.jsonl", "a.agentlog", key="prompt", axes=["trajectory", "fingerprint", "length"])
    assert (found.difference.n, found.tally.counts.discordant, found.baseline.count) == (12, 0, 8)
    assert found.axes is not None
    differences = {one.name: one.difference for one in found.axes.report.results if one.name != "fingerprint"}
    assert differences == {"trajectory": 0.0, "length": 0.0, "length/mean": 0.0}
    checked = demur.compare("a.agentlog", "a.agentlog", reading=Reading(verify=True))
    assert checked.tally.candidate.outcomes == found.tally.baseline.outcomes


def test_ids_are_the_hashes_of_payloads(folder: Path) -> None:
    """Every id is the seed's hash of its payload, every parent a record before it, every session and time as given."""
    rows = questions(4, (), session_id="s1", latency_ms=120, input_tokens=3, output_tokens=5)
    json_lines(folder / "a.jsonl", rows)
    assert call("export", "--agentlog", "a.agentlog", "a.jsonl", "--time", "2026-04-28T12:00:00+02:00") == 0
    records = [json.loads(line) for line in (folder / "a.agentlog").read_text().splitlines()]
    assert [record["kind"] for record in records] == ["metadata", *["chat_request", "chat_response"] * 4]
    for at, record in enumerate(records):
        assert record["id"] == record_id(record["payload"])
        assert record["ts"] == TIME
        assert record["parent"] is None if at == 0 else record["parent"] in {other["id"] for other in records[:at]}
    answers = [record for record in records if record["kind"] == "chat_response"]
    assert {record["meta"]["session_tag"] for record in answers} == {"s1"}
    assert answers[0]["payload"]["latency_ms"] == 120
    assert answers[0]["payload"]["usage"] == {"input_tokens": 3, "output_tokens": 5}


def test_the_same_run_and_time_give_the_same_bytes(folder: Path) -> None:
    """Nothing but the time is from outside."""
    json_lines(folder / "a.jsonl", questions(5, range(2)))
    for name in ("x.agentlog", "y.agentlog"):
        assert call("export", "--agentlog", name, "a.jsonl", "--time", TIME) == 0
    assert (folder / "x.agentlog").read_bytes() == (folder / "y.agentlog").read_bytes()


def test_failed_rows_and_the_prompts_of_a_batch(folder: Path) -> None:
    """A row without an answer has failed in the log too; a batch has the prompts of its requests."""
    json_lines(folder / "a.jsonl", [*questions(3, ()), {"id": "z", "prompt": "gone", "response": None}])
    assert call("export", "--agentlog", "a.agentlog", "a.jsonl") == 0
    assert dict(demur.scan("a.agentlog").tally.runs[0].outcomes) == {"complied": 3, "failed": 1}
    bodies = [{"model": "m", "messages": [{"role": "user", "content": f"ask {i}"}]} for i in range(2)]
    asked = [{"custom_id": f"q{i}", "method": "POST", "url": "/", "body": body} for i, body in enumerate(bodies)]
    json_lines(folder / "in.jsonl", asked)
    json_lines(folder / "out.jsonl", [{"id": f"q{i}", "response": "Yes."} for i in range(2)])
    assert call("export", "--agentlog", "b.agentlog", "out.jsonl", "--requests", "in.jsonl") == 0
    assert (folder / "b.agentlog").read_text().count("ask ") == 2


def test_what_cannot_be_written_is_refused(folder: Path, capsys: Capture) -> None:
    """Another ending, a folder that is not there, an input as the output, a time that is none, and rows that cannot be read."""
    json_lines(folder / "a.jsonl", [*questions(2, ()), {"x": 1}])
    for name, says in (("a.jsonl", "names no agentlog"), ("no/a.agentlog", "its folder is not there")):
        with pytest.raises(UsageError, match=says):
            call("export", "--agentlog", name, "a.jsonl")
    (folder / "b.agentlog").write_text("{}\n")
    with pytest.raises(UsageError, match="it is an input"):
        call("export", "--agentlog", "b.agentlog", "b.agentlog")
    with pytest.raises(SystemExit):
        call("export", "--agentlog", "c.agentlog", "a.jsonl", "--time", "yesterday")
    capsys.readouterr()
    assert call("export", "--agentlog", "c.agentlog", "a.jsonl") == 2
    assert "line 3" in capsys.readouterr().err
    assert call("export", "--agentlog", "c.agentlog", "a.jsonl", "--skip-bad") == 0
