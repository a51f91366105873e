"""Files whose rows are in several formats."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples as made
from tests.formats.example import ANSWER, QUESTION, REFUSAL

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.formats.interface import stands_alone
from demur.formats.mixed import reader_of
from demur.formats.registry import FORMATS, format_of_all
from demur.model.run import Skipped, Traced

FLAT = {"prompt": QUESTION, "response": REFUSAL}
ROWS: dict[str, dict[str, Any]] = {
    "openai-chat": made.chat(REFUSAL),
    "anthropic": made.claude("", stop="refusal"),
    "gemini": made.gemini(REFUSAL),
    "bedrock": made.converse(REFUSAL),
    "messages": {"messages": [*made.ASKED, {"role": "assistant", "content": REFUSAL}]},
    "sharegpt": {"conversations": [made.HUMAN, {"from": "gpt", "value": REFUSAL}]},
    "flat": FLAT,
    "flat with messages": {"messages": made.ASKED, "answer": REFUSAL},
    "openai-batch": made.openai_row(made.chat(REFUSAL))[0],
    "anthropic-batch": made.claude_row(type="succeeded", message=made.claude(REFUSAL))[0],
    "litellm": made.litellm(made.chat(REFUSAL))[0],
}
HOMES = [name for name in ROWS if name in FORMATS]


def read(name: str, record: dict[str, Any], *, named: bool = False) -> list[Traced | Skipped]:
    return list(reader_of(name, named=named).feed(record))


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_read_by_the_format_that_knows_it(home: str, row: str) -> None:
    """A refusal is found in a row of any provider's or plain form, whatever the other rows of its file are."""
    (traced,) = read(home, ROWS[row])
    assert isinstance(traced, Traced)
    assert classify(traced.exchange.response).outcome == "refused"


@pytest.mark.parametrize("home", [name for name in HOMES if name != "litellm"])
def test_what_no_format_knows_is_the_error_of_the_file(home: str) -> None:
    """A row of no format is the same error as if its file had one format only."""
    with pytest.raises(ShapeError) as alone:
        read(home, {"nothing": "known"}, named=True)
    with pytest.raises(ShapeError) as mixed:
        read(home, {"nothing": "known"})
    assert str(mixed.value) == str(alone.value)


def test_a_named_format_reads_alone() -> None:
    """Where the user named the format, a row of another one is an error."""
    with pytest.raises(ShapeError, match="no response of openai_chat"):
        read("openai-chat", FLAT, named=True)


def test_a_row_that_is_half_there_is_the_error_of_the_format_that_knows_it() -> None:
    """Where the format that knows a row cannot read it, its error is told."""
    with pytest.raises(ShapeError, match=r"`result\.message`"):
        read("flat", {"custom_id": "q", "result": {"type": "succeeded"}})


@pytest.mark.parametrize("home", ["openai-chat", "messages", "flat"])
def test_an_error_beside_messages_is_heard(home: str) -> None:
    """A row with the messages of a call that failed says why it failed, in a file of any form."""
    row = {"messages": made.ASKED, "error": "content_policy_violation"}
    (traced,) = read(home, row)
    assert isinstance(traced, Traced)
    assert classify(traced.exchange.response).outcome == "filtered"


def test_a_mixed_reader_stands_alone_where_its_format_does() -> None:
    """Lines can be read in pieces exactly where the file's own format allows it."""
    assert all(
        stands_alone(reader_of(name, named=False)) == stands_alone(known.open_reader())
        for name, known in FORMATS.items()
    )
    reader = reader_of("inspect", named=False)
    assert [isinstance(item, Traced) for item in reader.feed(FLAT)] == [True]
    assert list(reader.close()) == []


def test_two_responses_in_one_row_are_an_error() -> None:
    """A row with the responses of two providers says which fields they are in."""
    both = {**made.chat(ANSWER), "candidates": made.gemini(REFUSAL)["candidates"]}
    with pytest.raises(ShapeError, match=r"two providers in one row \(`choices` and `candidates`\); keep one"):
        read("openai-chat", both)


def test_columns_name_a_file_only_where_no_other_format_does() -> None:
    """Rows that a provider's format knows do not count as rows of columns, though they have a field like one."""
    rows = [made.converse(ANSWER), made.converse(REFUSAL), made.chat(ANSWER), FLAT]
    found = format_of_all(rows)
    assert found is not None
    assert found.NAME == "bedrock"
