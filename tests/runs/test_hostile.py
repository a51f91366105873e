"""What a hostile run must not be able to do: each law was once broken."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.growth import assert_linear
from tests.patience import until
from tests.runs.run_files import NO, YES, json_lines, questions

import demur
from demur.cli.main import main
from demur.errors import DemurError, UsageError
from demur.model.comparison import Pairing
from demur.model.verdict import Outcome


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"error": {"code": "content_filter", "message": "x"}}, Outcome.FILTERED),
        ({"error": "Error code: 400 - {'error': {'code': 'content_filter'}}"}, Outcome.FILTERED),
        ({"error": {"code": 500}}, Outcome.FAILED),
        ({"error": 500}, Outcome.FAILED),
        ({"error": True}, Outcome.FAILED),
        ({"finish_reason": "error"}, Outcome.FAILED),
        ({"error": "length"}, Outcome.FAILED),
        ({"error": False}, Outcome.COMPLIED),
        ({"error": None}, Outcome.COMPLIED),
    ],
)
def test_an_error_is_no_answer(more: dict[str, Any], outcome: Outcome, tmp_path: Path) -> None:
    """A row that carries an error, of whatever type, is a failure or a block, in memory and from a file."""
    rows = [{**row, **more} for row in questions(6, ())]
    found = demur.compare(questions(7, ()), [*rows, *questions(1, ())], unpaired=True)
    assert dict(found.tally.candidate.outcomes)[outcome] >= 6
    assert demur.check({"response": YES, **more}).outcome is outcome
    scanned = demur.scan(json_lines(tmp_path / "a.jsonl", rows))
    assert dict(scanned.tally.runs[0].outcomes) == {outcome: 6}


def test_a_row_that_failed_may_have_no_answer_at_all(tmp_path: Path) -> None:
    """A flat row with an error and no response field is a failed row."""
    rows = [*questions(2, ()), {"id": "x", "prompt": "p", "error": "timeout"}]
    assert dict(demur.scan(json_lines(tmp_path / "a.jsonl", rows)).tally.runs[0].outcomes)["failed"] == 1


def test_one_shared_id_does_not_outweigh_shared_prompts() -> None:
    """Rows pair by what pairs most of them: an id that both runs happen to have is no key."""
    before = [{**row, "id": f"b{i}"} for i, row in enumerate(questions(40, ()))]
    after = [{**row, "id": f"c{i}"} for i, row in enumerate(questions(40, range(40)))]
    before[0]["id"] = after[0]["id"] = "only"
    found = demur.compare(before, after)
    assert (found.tally.pairing, found.tally.counts.candidate_only) == (Pairing.PROMPT, 40)


def test_a_question_asked_in_every_session_is_one_question() -> None:
    """Where sessions repeat questions, rows move together by both: one question that flips everywhere proves nothing."""
    rows, after = ([row for s in range(10) for row in questions(5, no, session_id=f"s{s}")] for no in ((), (0,)))
    found = demur.compare(rows, after)
    assert found.difference.p > 0.05
    assert found.clustering is not None
    assert found.clustering.count == 1


@pytest.mark.heavy
def test_the_order_of_repeats_decides_nothing() -> None:
    """Repeats of a question pair alike in whatever order the rows stand, sessions and fields included."""
    before = [
        {"id": "q", "session_id": f"s{i % 5}", "category": "ab"[i % 2], "prompt": "p", "response": YES}
        for i in range(10)
    ]
    after = [{"id": "q", "prompt": "p", "response": NO if i < 5 else YES} for i in range(10)]
    first = demur.compare(before, after)
    for seed in range(5):
        chance = random.Random(seed)  # noqa: S311 — an order, no secret
        found = demur.compare(chance.sample(before, 10), chance.sample(after, 10))
        assert found.difference == first.difference
        assert found.slices == first.slices


def test_a_retry_meets_the_answer() -> None:
    """An answer got by a retry pairs with the other run's answer, wherever the failed try stands."""
    rows = questions(40, ())
    failed = [{**row, "response": None, "error": "timeout"} for row in rows]
    assert demur.compare([*failed, *rows], rows).tally.counts.n == 40


def test_the_first_rows_do_not_name_the_format(tmp_path: Path) -> None:
    """Rows of errors in a provider's shape at the start of a flat file do not make it another format."""
    blocked = {"response": None, "error": {"code": "content_filter", "message": "x"}}
    errors = [{"id": f"e{i}", "prompt": "p", **blocked} for i in range(20)]
    for rows in ([*errors, *questions(20, ())], [*questions(20, ()), *errors]):
        found = demur.scan(json_lines(tmp_path / "a.jsonl", rows))
        assert dict(found.tally.runs[0].outcomes) == {"complied": 20, "filtered": 20}


def test_a_file_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A glob that names a folder and the files in it reads each file once, and a link to itself is no file."""
    (tmp_path / "runs").mkdir()
    json_lines(tmp_path / "runs" / "a.jsonl", questions(7, ()))
    monkeypatch.chdir(tmp_path)
    assert demur.scan("./runs/**").tally.runs[0].rows == 7
    (tmp_path / "runs" / "loop.jsonl").symlink_to("loop.jsonl")
    assert demur.scan("./runs").tally.runs[0].rows == 7


def test_paths_are_not_taken_for_answers(tmp_path: Path) -> None:
    """A list of texts that are all files is refused: it was meant as paths."""
    path = str(json_lines(tmp_path / "a.jsonl", questions(2, ())))
    with pytest.raises(UsageError, match="is a file"):
        demur.compare([path], [path])


@pytest.mark.heavy
@pytest.mark.parametrize("columns", ["1", "20", "24"])
def test_a_narrow_terminal_gets_its_report(columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the terminal, the report ends."""
    monkeypatch.setenv("COLUMNS", columns)
    path = str(json_lines(tmp_path / "a.jsonl", questions(5, ())))
    assert main(["diff", path, path]) == 0
    assert main(["scan", path]) == 0


@pytest.mark.heavy
def test_many_values_cost_no_more_than_their_number(tmp_path: Path) -> None:
    """Many values of a field that nobody named cost no more than their number."""
    rows = [{"id": str(i), "category": f"c{i}", "response": YES} for i in range(20_000)]
    few, many = json_lines(tmp_path / "few.jsonl", rows[:2500]), json_lines(tmp_path / "many.jsonl", rows)
    assert_linear(demur.scan, few, many, ratio=8)


def test_half_a_character_in_an_id_is_shown_as_unknown(tmp_path: Path) -> None:
    """JSON can spell half of a surrogate pair; it neither crashes nor hides the row."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a\\ud83d", "category": "\\udc00", "prompt": "p", "response": "ok, done"}\n' * 2)
    assert demur.compare(path, path).tally.counts.n == 2


def test_an_error_is_one_harmless_line() -> None:
    """Whatever a user's id holds, an error cannot start a line or steer a terminal."""
    before, after = ([{"id": "x\n::error title=pwn::hi\x1b[2J", "prompt": p, "response": YES}] for p in "ab")
    with pytest.raises(DemurError) as told:
        demur.compare(before, after)
    assert str(told.value).isprintable()


@pytest.mark.heavy
@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="no such signal here")
def test_a_terminated_scan_leaves_nothing_behind(tmp_path: Path) -> None:
    """A scan that is told to end removes its folder, prompts and all."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "demur", "scan", "-"], stdin=subprocess.PIPE, env=environment, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"id": "1", "response": "ok"}\n' * 10)
        process.stdin.flush()
        until(lambda: process.poll() is not None or list(tmp_path.glob("demur-*")))
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert list(tmp_path.glob("demur-*")) == []
