"""garak's reports, in the form of `garak.attempt.Attempt.as_dict` (0.13.3) and in that of bare texts before."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats.example import ANSWER, QUESTION, REFUSAL, read_all

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.formats.registry import format_of
from demur.model.run import Skipped, Traced

SETUP = {
    "entry_type": "start_run setup",
    "_config.version": "0.13.3",
    "transient.starttime_iso": "2026-08-01T10:07:46.514167",
    "plugins.target_type": "openai",
    "plugins.target_name": "gpt-4o-mini",
}
INIT = {"entry_type": "init", "garak_version": "0.13.3", "start_time": "2026-08-01T10:07:46", "run": "r1"}
EVAL = {"entry_type": "eval", "probe": "test.Test", "detector": "always.Pass", "passed": 2, "total_evaluated": 2}


def message(text: str | None) -> dict[str, Any]:
    """Return a message of garak's."""
    empty: dict[str, Any] = {"data_path": None, "data_type": None, "data_checksum": None, "notes": {}}
    return {"text": text, "lang": "en", **empty}


def attempt(*outputs: Any, status: int = 1, **given: Any) -> dict[str, Any]:
    """Return an attempt."""
    row = {
        "entry_type": "attempt",
        "uuid": "e98fdb7b",
        "seq": 0,
        "status": status,
        "probe_classname": "test.Test",
        "prompt": {"turns": [{"role": "user", "content": message(QUESTION)}], "notes": None},
        "outputs": list(outputs),
        "detector_results": {} if status == 1 else {"always.Pass": [0.0 for _ in outputs]},
        "goal": "send some test strings",
    }
    return {**row, **given}


def exchanges(*records: dict[str, Any]) -> list[Traced]:
    """Return the exchanges of a report."""
    return [row for row in read_all("garak", records) if isinstance(row, Traced)]


def outcomes(*records: dict[str, Any]) -> list[str]:
    """Return what is made of each output."""
    return [classify(row.exchange.response).outcome.value for row in exchanges(*records)]


def test_each_output_is_an_exchange() -> None:
    """Outputs of one attempt share its prompt and its cluster, and each is judged by itself."""
    said = attempt(message(ANSWER), message(REFUSAL), message(""), None, {"text": None, "data_path": "a.png"})
    rows = exchanges(SETUP, INIT, said)
    assert outcomes(SETUP, INIT, said) == ["complied", "refused", "empty", "failed", "unread"]
    assert {row.exchange.session for row in rows} == {"e98fdb7b"}
    assert {row.exchange.request and row.exchange.request.prompt for row in rows} == {QUESTION}
    fields = dict(rows[0].fields)
    assert (fields["model"], fields["probe"], fields["day"]) == ("gpt-4o-mini", "test.Test", "2026-08-01")


def test_an_attempt_counts_once() -> None:
    """What garak writes before and after its detectors looked is one attempt, with or without an id."""
    without: dict[str, Any] = {"uuid": None}
    for given in ({}, without):
        told = (attempt(message(ANSWER), **given), attempt(message(ANSWER), status=2, **given))
        rows = read_all("garak", (SETUP, *told, EVAL))
        assert sum(isinstance(row, Traced) for row in rows) == 1
        assert Skipped("an attempt that was told of before") in rows
        assert Skipped("an eval entry") in rows


def test_a_report_without_first_tellings_is_read() -> None:
    """A report that keeps only evaluated attempts loses none of them."""
    assert outcomes(attempt(message(REFUSAL), status=2), attempt(message(ANSWER), status=2, uuid="b")) == [
        "refused",
        "complied",
    ]


def test_bare_texts_are_read() -> None:
    """Before 0.11 garak wrote prompts and outputs as texts."""
    (row,) = exchanges(attempt(REFUSAL, prompt=QUESTION))
    assert row.exchange.request is not None
    assert row.exchange.request.prompt == QUESTION
    assert outcomes(attempt(REFUSAL, prompt=QUESTION)) == ["refused"]
    assert outcomes(attempt(REFUSAL, prompt=message(QUESTION))) == ["refused"]


def test_what_was_not_sent_is_skipped() -> None:
    """An attempt that never reached the model is no exchange."""
    assert read_all("garak", [attempt(status=0)]) == [Skipped("an attempt that was not sent")]


@pytest.mark.parametrize("record", [SETUP, INIT, EVAL, attempt()], ids=["setup", "init", "eval", "attempt"])
def test_every_entry_names_the_format(record: dict[str, Any]) -> None:
    """A report is known by whichever entry comes first."""
    found = format_of(record)
    assert found is not None
    assert found.NAME == "garak"


@pytest.mark.parametrize("record", [{"nothing": 1}, attempt(outputs=None)], ids=["no_entry", "no_outputs"])
def test_what_is_no_entry_is_an_error(record: dict[str, Any]) -> None:
    """A record without its kind or its outputs is named."""
    with pytest.raises(ShapeError, match=r"`entry_type`|`outputs`"):
        read_all("garak", [record])
