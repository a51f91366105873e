"""`demur policy` as its users meet it: findings, fixtures, reasons, exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import Capture, call

from demur.errors import DemurError

DENY = '@id("hot") forbid (principal, action, resource) when { context.claims.toxic_content > 0.8 };\n'
_FOLDER = re.compile(r"/\S*/")
CASES = "- {name: hot, claims: {toxic_content: 0.9}, decision: deny, fired: [hot]}\n"


def run(capsys: Capture, *args: str) -> tuple[int, str]:
    """Return the exit code and what was printed, errors as the command line's main shows them."""
    try:
        code = call("policy", *args)
    except DemurError as exc:
        return 2, str(exc)
    out, err = capsys.readouterr()
    # The folder of a test may be as long as it likes; what is said about it may not.
    assert all(len(_FOLDER.sub("", line)) <= 80 or "--json" in args for line in out.splitlines())
    return code, out + err


def asked(capsys: Capture, *args: str) -> tuple[int, Any]:
    """Return the exit code and the JSON object printed."""
    code, out = run(capsys, *args, "--json")
    return code, json.loads(out)


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A policy file of one rule."""
    path = tmp_path / "mine.cedar"
    path.write_text(DENY)
    return str(path)


def test_check_passes_a_sound_set(capsys: Capture, mine: str) -> None:
    """A sound set is counted, named by its digest, and exits 0."""
    code, out = run(capsys, "check", mine)
    assert code == 0
    assert out.startswith("1 rule (1 deny), default allow, digest ")
    assert out.endswith("0 errors, 0 warnings\n")


def test_check_fails_on_errors_and_on_warnings_when_strict(capsys: Capture, tmp_path: Path) -> None:
    """Errors exit 1, warnings only with --strict, an unreadable policy 2."""
    path = tmp_path / "p.cedar"
    path.write_text(DENY.replace("toxic_content", "toxic_contnt"))
    code, found = asked(capsys, "check", str(path))
    assert (code, found["ok"], found["problems"][0]["hint"]) == (1, False, "did you mean `toxic_content`?")
    path.write_text(DENY.replace("0.8", "1"))
    assert run(capsys, "check", str(path))[0] == 0
    assert run(capsys, "check", str(path), "--strict")[0] == 1
    path.write_text("\n forbid (principal;")
    assert run(capsys, "check", str(path))[0] == 2
    code, found = asked(capsys, "check", str(path))
    assert (code, found["error"]["line"], found["error"]["column"]) == (2, 2, 19)


def test_check_takes_another_vocabulary(capsys: Capture, mine: str, tmp_path: Path) -> None:
    """Claims are looked up in the vocabulary that is given."""
    path = tmp_path / "v.json"
    path.write_text('{"auditor_id": "a", "claims": [{"name": "other", "type": "boolean", "phase": "request"}]}')
    code, out = run(capsys, "check", mine, "--vocabulary", str(path))
    assert code == 1
    assert "nobody states the claim `toxic_content`" in out.replace("\n  ", " ")


def test_test_runs_fixtures_and_boundaries(capsys: Capture, mine: str, tmp_path: Path) -> None:
    """Fixtures beside a folder or by name, and four questions a threshold; a failure exits 1."""
    assert run(capsys, "test", mine) == (0, "0 cases, 0 failed; 4 boundaries, 0 failed\n")
    (tmp_path / "cases.yaml").write_text(CASES)
    assert run(capsys, "test", str(tmp_path)) == (0, "1 case, 0 failed; 4 boundaries, 0 failed\n")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(CASES.replace("0.9", "0.1"))
    code, out = run(capsys, "test", mine, "--fixtures", str(wrong))
    assert code == 1
    told = ["failed: hot: expected deny, got allow", "warning: no case makes the rule `hot` fire"]
    assert out.splitlines()[:2] == told
    code, found = asked(capsys, "test", mine, "--fixtures", str(wrong))
    assert (code, found["ok"], found["never_met"]) == (1, False, ["hot"])
    assert [row["at"] for row in found["boundaries"]] == [0.8, 0.8001, 0.7999, None]


def test_explain_shows_reasons_and_near_misses(capsys: Capture, mine: str) -> None:
    """The decision first, then each rule with its predicates, then what was near."""
    code, out = run(capsys, "explain", mine, "--claims", '{"toxic_content": 0.79}')
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "allow"
    assert "        no   toxic_content > 0.8  (toxic_content is 0.79)" in lines
    assert lines[-1].startswith("near miss: hot turns on toxic_content > 0.8, 0.01 away from 0.79")
    code, found = asked(capsys, "explain", mine, "--claims", '{"toxic_content": NaN}', "--default", "deny")
    assert (code, found["decision"]) == (0, "deny")
    assert found["errors"] == ["claim `toxic_content`: nan is not a finite number"]
    assert [rule["id"] for rule in found["fired"]] == ["hot", "default"]


def test_explain_takes_a_recorded_context(capsys: Capture, mine: str, tmp_path: Path) -> None:
    """What --json shows as the context can be explained again, from a file or as it is."""
    _, first = asked(capsys, "explain", mine, "--claims", '{"toxic_content": 0.9}', "--label", "beta", "--model", "m")
    path = tmp_path / "context.json"
    path.write_text(json.dumps(first["context"]))
    for given in (str(path), json.dumps(first["context"])):
        assert asked(capsys, "explain", mine, "--context", given) == (0, first)
    _, out = run(capsys, "explain", mine, "--default", "deny", "--claims", "{}")
    assert out.startswith("deny\nfired   deny   default")


def test_explain_names_a_claim_that_no_rule_reads(capsys: Capture, mine: str) -> None:
    """A mistyped claim is said, with the one that was probably meant."""
    _, out = run(capsys, "explain", mine, "--claims", '{"toxic_contnt": 0.9}')
    assert "no rule reads the claim `toxic_contnt`; did you mean `toxic_content`?" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (DENY.replace("@id", "@decison"), "did you mean `@decision`?"),
        (DENY.replace("context.claims", "context.claim"), "did you mean `context.claims`?"),
    ],
)
def test_a_slip_is_not_taken_for_something_else(capsys: Capture, tmp_path: Path, text: str, told: str) -> None:
    """An annotation or a holder of claims that is nearly one of ours is an error."""
    path = tmp_path / "p.cedar"
    path.write_text(text)
    code, out = run(capsys, "check", str(path))
    assert code in (1, 2)
    assert told in " ".join(out.split())


@pytest.mark.parametrize("given", ["{", "[1]", '{"toxic_content": }', "missing.json"])
def test_explain_refuses_what_is_no_object(capsys: Capture, mine: str, given: str) -> None:
    """Claims that cannot be read exit 2."""
    assert run(capsys, "explain", mine, "--claims", given)[0] == 2


def test_backtest_says_what_would_have_changed(capsys: Capture, mine: str, tmp_path: Path) -> None:
    """Counts, kinds of change and examples; 1 with --fail-on-change, 2 where a line cannot be read."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"context": {"claims": {"toxic_content": 0.9}}, "decision": "allow"}\n{"context": {"claims": {}}, "decision": "allow"}\n'
    )
    code, out = run(capsys, "backtest", mine, "--records", str(rows))
    assert code == 0
    assert out.splitlines()[:3] == ["2 records: 1 changed, 1 unchanged", "now: 1 deny, 1 allow", "allow → deny: 1"]
    assert run(capsys, "backtest", mine, "--records", str(rows), "--fail-on-change")[0] == 1
    code, found = asked(capsys, "backtest", mine, "--records", str(rows), "--baseline", mine)
    assert (code, found["changed"], found["decisions"]) == (0, 0, {"allow": 1, "deny": 1})
    rows.write_text(rows.read_text() + "nonsense\n")
    assert run(capsys, "backtest", mine, "--records", str(rows))[0] == 2
    rows.write_text("nonsense\n")
    assert run(capsys, "backtest", mine, "--records", str(rows))[0] == 2


@pytest.mark.parametrize("step", [("check",), ("backtest", "--records", "-", "--baseline", "strict")])
def test_a_vocabulary_may_come_through_a_pipe(
    capsys: Capture, mine: str, monkeypatch: pytest.MonkeyPatch, step: tuple[str, ...]
) -> None:
    """What can be read only once is read only once."""
    told = {"auditor": "a", "claims": [{"name": "toxic_content", "type": "score_normalized", "phase": "request"}]}
    reading, writing = os.pipe()
    os.write(writing, json.dumps(told).encode())
    os.close(writing)
    row = b'{"context": {"claims": {"toxic_content": 0.9}}, "decision": "deny"}'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(row)))
    code, said = run(capsys, step[0], mine, *step[1:], "--vocabulary", f"/dev/fd/{reading}")
    os.close(reading)
    assert code == 0, said


def test_a_rounded_score_is_called_so(capsys: Capture, mine: str) -> None:
    """Where a score was decided on rounded, the explanation says what it was; where it was not, nothing."""
    _, said = run(capsys, "explain", mine, "--claims", '{"toxic_content": 0.80004}')
    assert "note: toxic_content is 0.80004, which was rounded to four digits" in " ".join(said.split())
    _, said = run(capsys, "explain", mine, "--claims", '{"toxic_content": 0.79}')
    assert "note:" not in said
    _, rows = asked(capsys, "explain", mine, "--claims", '{"toxic_content": 0.80004}')
    assert rows["rounded"] == {"toxic_content": ["0.80004", "0.8"]}


@pytest.mark.parametrize(("option", "given"), [("--claims", "{toxic_content:1}"), ("--context", "{phase:1}")])
def test_an_option_that_is_no_json_is_named(capsys: Capture, option: str, given: str) -> None:
    """The error says which option it means."""
    code, said = run(capsys, "explain", "strict", option, given)
    assert code == 2
    assert f"`{option}` is not JSON" in said
