"""Rows that people write by hand."""

from __future__ import annotations

import pytest

from demur.errors import ShapeError
from demur.model.exchange import SignalKind
from demur.wire.flat import read_flat, reads_flat


@pytest.mark.parametrize("field", ["response", "output", "completion", "answer", "text"])
def test_common_names_are_read(field: str) -> None:
    """Each usual name of a response field is taken."""
    row = {field: "hello", "question": "hi?", "id": 7, "conversation_id": "s", "model": "m"}
    read = read_flat(row)
    assert reads_flat(row)
    assert read.response is not None
    assert read.request is not None
    assert (read.response.choices[0].text, read.request.prompt) == ("hello", "hi?")
    assert (read.id, read.session, read.response.model) == ("7", "s", "m")


def test_a_null_answer_is_missing() -> None:
    """A null is no answer at all, which is not the same as an empty one."""
    assert read_flat({"response": None}).response is None
    empty = read_flat({"response": ""}).response
    assert empty is not None
    assert empty.choices[0].text == ""


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"text": "", "finish_reason": "ERROR_TOXIC"}, SignalKind.FILTER_STOP),
        ({"response": None, "stop_reason": "content_filter"}, SignalKind.FILTER_STOP),
        ({"response": "x", "done_reason": "refusal"}, SignalKind.REFUSAL_STOP),
        ({"response": "x", "refusal": "No."}, SignalKind.REFUSAL_FIELD),
    ],
)
def test_a_rows_own_signals_are_read(row: dict[str, object], kind: SignalKind) -> None:
    """A stop word or a refusal beside the text is the provider's own word."""
    response = read_flat(row).response
    assert response is not None
    assert [signal.kind for signal in response.signals] == [kind]


def test_other_rows_are_not_flat() -> None:
    """A row without a text is left to the other shapes, and refused when asked for."""
    assert not reads_flat({"response": {"a": 1}})
    assert not reads_flat({"prompt": "x"})
    with pytest.raises(ShapeError, match="no response field; name it one of response"):
        read_flat({"prompt": "x"})
