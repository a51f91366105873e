"""The small values of a row, and the messages in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire import laws

from demur.errors import ShapeError
from demur.formats.fields import day_of, fields_of, key_of, parts_of, request_of, text_of
from demur.model.exchange import OpaquePart, RefusalPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart

KEYS = st.text(max_size=8) | st.sampled_from(["metadata", "model", "created", "tags", "lang"])


@pytest.mark.parametrize(
    ("value", "day"),
    [
        *((1_700_000_000 * unit, "2023-11-14") for unit in (1, 1000, 1_000_000)),
        (1_700_000_000.25, "2023-11-14"),
        ("1700000000000000000", "2023-11-14"),
        ("2026-04-28T10:00:00.123456789Z", "2026-04-28"),
        ("2026-01-31T23:30:00-05:00", "2026-02-01"),
        ("2026-01-31 23:30:00", "2026-01-31"),
        ("20260131", "2026-01-31"),
        *((number, None) for number in (7, True, -1_700_000_000, 2**70, float("nan"), float("inf"))),
        *((text, None) for text in ("0001-01-01T00:00:00+14:00", "yesterday", ["2026"], None)),
    ],
)
def test_a_day_is_read_from_any_clock(value: object, day: str | None) -> None:
    """Epochs of every unit and ISO times give the day in UTC; anything else gives none."""
    assert day_of(value) == day


def test_fields_stand_under_their_names() -> None:
    """Scalars are text under dotted names; model, category, language and day come first wherever they stand."""
    left_out = {"nothing": None, "empty": "", "long": "x" * 201, "huge": 10**30, "list": [1], "other": {"x": 1}}
    told = {"metadata": {"category": "a", "deep": {"x": 1}, "lang": "de"}, "created": 1_700_000_000, "modelId": "m"}
    row = {"score": 0.5, "ok": True, "n": 3, **left_out, **told, "prompt": "p"}
    assert fields_of(row, skip={"prompt"}) == (
        ("model", "m"),
        ("category", "a"),
        ("language", "de"),
        ("day", "2023-11-14"),
        ("score", "0.5"),
        ("ok", "true"),
        ("n", "3"),
        ("metadata.category", "a"),
        ("metadata.lang", "de"),
        ("created", "1700000000"),
        ("modelId", "m"),
    )


def test_fields_are_bounded() -> None:
    """A row with a thousand columns gives 64 fields, the normal ones among them."""
    fields = fields_of({**{f"c{i}": i for i in range(1000)}, "x" * 300: 1, "model": "m"})
    assert len(fields) == 64
    assert fields[0] == ("model", "m")


@given(st.dictionaries(KEYS, laws.SCALARS | st.dictionaries(KEYS, laws.SCALARS, max_size=3), max_size=6))
def test_no_row_breaks_the_fields(row: dict[str, Any]) -> None:
    """Fields are pairs of text, one a name, whatever the JSON."""
    fields = fields_of(row)
    assert len(dict(fields)) == len(fields) <= 64
    assert all(0 < len(value) <= 200 for _, value in fields)


@given(laws.JSON)
def test_text_is_always_text(value: Any) -> None:
    """Asking for the text, the day or the key of any JSON never raises."""
    assert isinstance(text_of(value), str)
    assert day_of(value) is None or len(day_of(value) or "") == 10
    assert key_of(value) is None or key_of(value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        ([{"type": "text", "text": "a"}, {"text": "b"}, {"type": "text", "content": "c"}, "d"], "a\nb\nc\nd"),
        (
            [{"type": "thinking", "thinking": "t"}, {"type": "reasoning", "text": "t"}, {"text": "t", "thought": True}],
            "",
        ),
        ([{"type": "tool_result", "content": "r"}, {"type": "image_url", "image_url": {"url": "u"}}], ""),
        ({"text": "a"}, "a"),
        (None, ""),
        (7, ""),
    ],
)
def test_text_is_what_people_read(content: object, text: str) -> None:
    """Texts are joined by lines; thoughts, tools and pictures are no text."""
    assert text_of(content) == text


@pytest.mark.parametrize(
    "asked",
    [
        "hi",
        ["hi"],
        [{"role": "user", "content": "hi"}],
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        [{"role": "user", "parts": [{"text": "hi"}]}],
        [{"role": "user", "content": [{"text": "hi"}]}],
        [{"type": "human", "content": "hi"}],
        [{"from": "human", "value": "hi"}],
        [[{"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "hi"}}]],
        {"messages": [{"role": "user", "content": "hi"}]},
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        {"input": "hi", "model": "m"},
        {"input": {"messages": [{"role": "human", "content": "hi"}]}},
        {"prompt": "hi"},
        {"role": "user", "content": "hi"},
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
    ],
    ids=str,
)
def test_a_prompt_is_found_in_any_spelling(asked: object) -> None:
    """The same question is the same prompt, whichever tool wrote it down."""
    request = request_of(asked)
    assert request is not None
    assert request.prompt == "hi"
    assert [message.role for message in request.messages] == ["user"]


@pytest.mark.parametrize("asked", ["", "  ", [], None, 7, {}, {"messages": []}, [{"role": "user", "content": None}]])
def test_no_prompt_is_none(asked: object) -> None:
    """A row that asks nothing has no request."""
    assert request_of(asked) is None


@pytest.mark.parametrize("name", ["system", "instructions", "systemInstruction", "system_prompt"])
def test_a_separate_system_text_leads(name: str) -> None:
    """A system text beside the messages is the first message; the model may stand there too."""
    said = {"parts": [{"text": "be kind"}]} if name == "systemInstruction" else "be kind"
    request = request_of({name: said, "messages": [{"role": "user", "content": "hi"}], "model": "m"})
    assert request is not None
    assert request.model == "m"
    assert [(m.role, m.text) for m in request.messages] == [("system", "be kind"), ("user", "hi")]


def test_a_tools_turn_is_no_prompt() -> None:
    """Calls and results of tools are parts of their own, in every provider's spelling."""
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    request = request_of([asked, {"role": "tool", "tool_call_id": "c", "content": "42"}])
    assert request is not None
    assert [m.parts for m in request.messages] == [(ToolCallPart("c", "f", "{}"),), (ToolResultPart("c", "42"),)]


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ({"type": "refusal", "refusal": "no"}, RefusalPart("no")),
        ({"type": "thinking", "thinking": "t"}, ThinkingPart("t")),
        ({"text": "t", "thought": True}, ThinkingPart("t")),
        ({"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}, ToolCallPart("c", "f", '{"a":1}')),
        ({"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}, ToolCallPart("c", "f", "{}")),
        ({"functionCall": {"name": "f", "args": {"a": 1}}}, ToolCallPart("", "f", '{"a":1}')),
        ({"type": "tool_result", "tool_use_id": "c", "content": [{"text": "r"}]}, ToolResultPart("c", "r")),
        ({"type": "image", "url": "u"}, OpaquePart("image", b'{"type":"image","url":"u"}')),
        (7, OpaquePart("unknown", b"7")),
        ("t", TextPart("t")),
    ],
)
def test_a_part_is_what_it_says(item: object, part: object) -> None:
    """Parts of every provider are read; what nobody reads is kept."""
    assert parts_of([item, "", None]) == (part,)


def test_a_part_that_is_no_json_is_an_error() -> None:
    """Half a character, which the wire cannot hold, is an error about the shape."""
    with pytest.raises(ShapeError, match="expected plain JSON"):
        parts_of([{"type": "image", "n": "\ud800"}])
