"""DeepEval's file of the latest test run.

A test case is one exchange, paired by its name; a conversation is judged by its last response; a case without an actual
output is missing. The format has neither finish reasons nor refusals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.formats.fields import fields_of, object_at, request_of, text_at
from demur.formats.interface import stateless
from demur.formats.responses import read_each, response_in, response_of_text
from demur.model.exchange import Exchange
from demur.model.run import Skipped, Traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "deepeval"
_FIELDS = ("success", "flaky", "scenario")


def sniffs(record: JsonObject) -> bool:
    """Return whether this is a test run."""
    run = _test_run(record)
    return any(isinstance(run.get(name), list) for name in ("testCases", "conversationalTestCases"))


def _test_run(record: JsonObject) -> JsonObject:
    return object_at(record, "testRunData") or record


def _read_test_run(record: JsonObject) -> Iterator[Traced | Skipped]:
    if not sniffs(record):
        raise ShapeError("`testCases`: expected a list, got something else", hint="it stands under `testRunData`")
    run = _test_run(record)
    model = text_at(object_at(run, "hyperparameters"), "model", "model_name", "LLM") or ""
    for name in ("testCases", "conversationalTestCases"):
        cases = run.get(name)
        listed = cases if isinstance(cases, list) else []
        rows = ({"model": model, **case} if isinstance(case, dict) else case for case in listed)
        yield from read_each(rows, _read_case)


def _read_case(case: JsonObject) -> Iterator[Traced | Skipped]:
    model = text_at(case, "model") or ""
    turns = case.get("turns")
    if isinstance(turns, list):
        said = [turn for turn in turns if isinstance(turn, dict)]
        last = max((i for i, turn in enumerate(said) if turn.get("role") == "assistant"), default=None)
        if last is None:
            yield Skipped("a conversation without an answer")
            return
        asked: object = said[:last]
        response = response_in(said[last], model=model, path=f"turns[{last}]")
    else:
        asked, output = case.get("input"), case.get("actualOutput")
        # A text is the answer as it was given, even where it reads as JSON.
        response = (
            response_of_text(output, model=model)
            if isinstance(output, str)
            else response_in(output, model=model, path="actualOutput")
        )
    row = {"model": model, **{name: case.get(name) for name in _FIELDS}, "metadata": case.get("metadata")}
    yield Traced(Exchange(None, response, request_of(asked, model), text_at(case, "name")), fields_of(row))


open_reader = stateless(_read_test_run)
