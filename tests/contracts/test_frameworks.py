"""The table of client stacks: made of what was recorded, classified as recorded, one application for each row."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from scripts.frameworks import APPS, CASES, PAGE, RESULTS, classify, page_with, row_of, stacks, table_of

RECORDED: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
STACKS = {stack["name"]: stack for stack in stacks()}
NO = "I'm sorry, but I can't help with that request."


def got(text: str | None = None, **fields: list[str]) -> dict[str, Any]:
    return {"text": text, "fields": fields}


def raised(message: str) -> dict[str, Any]:
    return {"raised": "SomeError", "message": message, "fields": {}}


@pytest.mark.parametrize(
    ("case", "seen", "outcome"),
    [
        ("refusal", got(None, refusal=[NO]), "reached"),
        ("refusal", got(NO, stop_reason=["refusal"]), "reached"),
        ("refusal", got("", finish=["FinishReason.SAFETY"]), "reached"),
        ("refusal", got(NO), "text only"),
        ("refusal", got(""), "lost"),
        ("refusal", got(None, finish_reason=["stop"]), "lost"),
        ("filter", got("Take some", finish_reason=["content_filter"]), "reached"),
        ("filter", got("Take some", finish_reason=["stop"]), "cut text as answer"),
        ("filter", got(""), "lost"),
        ("blocked", got("", block_reason=["OTHER"]), "reached"),
        ("blocked", got("", status=["Error code: 400 - the content management policy filtered this"]), "reached"),
    ],
)
def test_what_was_seen_has_one_word(case: str, seen: dict[str, Any], outcome: str) -> None:
    """A field that says so is found wherever it is; without one there is the text, a piece of it, or nothing."""
    control = got("Flour.", finish_reason=["stop"], finish=["FinishReason.STOP"])
    assert classify(case, seen, control)["outcome"] == outcome


def test_what_is_there_in_every_response_is_no_sign() -> None:
    """A field that has the same value when the model answers says nothing of a refusal."""
    assert classify("refusal", got("", kind=["safety"]), got("Flour.", kind=["safety"]))["outcome"] == "lost"


def test_an_exception_names_the_refusal_or_loses_it() -> None:
    """An exception counts as telling where its message or its attributes speak of a refusal or a filter."""
    assert classify("blocked", raised("the content filter was triggered"), got("Flour."))["names_it"]
    assert not classify("refusal", raised("expected an object, got null"), got("Flour."))["names_it"]


def test_a_case_whose_control_fails_alike_is_not_run() -> None:
    """Where an ordinary answer raises the same or is empty too, the case says nothing, and the table says why."""
    row = row_of([{"case": "answer"} | raised("no such model"), {"case": "refusal"} | raised("no such model")])
    assert row["refusal"]["outcome"] == "not run"
    assert "no such model" in row["refusal"]["why"]
    assert row["structured"]["outcome"] == "not offered"
    row = row_of([{"case": "answer"} | got(None), {"case": "refusal"} | got(None)])
    assert row["refusal"]["outcome"] == "not run"


def test_every_stack_has_its_application() -> None:
    """Each row names an application that is there, and each application has its row."""
    apps = {str(path.relative_to(APPS)) for path in APPS.glob("*/*.*") if path.stem != "harness"}
    assert {stack["app"] for stack in STACKS.values()} == apps


@pytest.mark.parametrize("name", STACKS)
def test_a_row_is_what_was_recorded(name: str) -> None:
    """A row has its date and versions, and its outcomes follow from what its application printed; or it has its reason."""
    recorded = RECORDED[name]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", recorded["date"])
    assert recorded["app"] == STACKS[name]["app"]
    if "cases" in recorded:
        assert recorded["versions"]
        assert row_of(recorded["seen"]) == recorded["cases"]
        assert set(recorded["cases"]) == set(CASES)
    else:
        assert recorded["why"]


def test_the_page_shows_what_was_recorded() -> None:
    """The table on the page is the one that the records make."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with(table_of(RECORDED), page)
    assert list(RECORDED) == list(STACKS)
