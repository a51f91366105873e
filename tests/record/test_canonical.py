"""The canonical form is RFC 8785, held against an independent writer of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import JsonError, ShapeError
from demur.record.commit import canonical, is_canonical, read_exact, read_object

EXACT = st.integers(-(2**53) + 1, 2**53 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | EXACT | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
def test_the_bytes_are_those_of_the_rfc(value: object) -> None:
    """Any value without fractions is written as the reference library writes it, and known again."""
    data = canonical(value)
    assert data == rfc8785.dumps(value)  # type: ignore[arg-type]  # plain values by construction
    assert canonical(read_exact(json.dumps({"a": value}))) == b'{"a":' + data + b"}"
    assert is_canonical(data)


def test_keys_are_ordered_by_utf16() -> None:
    """A key beyond the basic plane comes before one at its end, as the RFC has it and code points do not."""
    keys: dict[str, Any] = {
        "\ufb33": 1,
        "\U0001f600": 2,
        "a": {"\uffff": 1, "\U00010000": [{"\ufb33": 1, "\U0001f600": 2}]},
    }
    assert canonical(keys) == rfc8785.dumps(keys)
    assert canonical(keys).decode().index("\U0001f600") < canonical(keys).decode().rindex("\ufb33")


@pytest.mark.parametrize("text", ['{"a": 1}', '{"b":1,"a":1}', '{"a":1,"a":1}', '"\\u0041"', "[1.5]", "{", "\ud800"])
def test_other_spellings_are_known(text: str) -> None:
    """White space, order, repetition, needless escapes, fractions and what is no JSON are not canonical."""
    assert not is_canonical(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "a fraction, ") for text in ('{"a":0.5}', '{"a":[1e3]}', '{"a":{"b":-0.0}}')),
        (f'{{"a":{2**53}}}', "beyond 2\\^53 - 1"),
        (f'{{"a":[{{"b":{-(2**53)}}}]}}', "beyond 2\\^53 - 1"),
        (f'{{"a":[{2**80}]}}', "beyond 2\\^53 - 1"),
        (f'{{"a":[[[[[[{{"b":{2**53}}}]]]]]]}}', "beyond 2\\^53 - 1"),
    ],
)
def test_numbers_that_others_would_round_are_refused(text: str, why: str) -> None:
    """Neither a float nor an integer beyond 2^53 - 1 ever reaches a record."""
    with pytest.raises(ShapeError, match=why):
        read_exact(text)


@pytest.mark.parametrize("depth", range(8))
@pytest.mark.parametrize("most", [2**53 - 1, 1 - 2**53])
def test_exact_integers_are_read_at_any_depth(depth: int, most: int) -> None:
    """However deep it stands, the largest exact integer is read as it is, and digits in a text are no integer."""
    value: Any = {"a": most, "b": str(2**80)}
    for _ in range(depth):
        value = {"in": [value]}
    assert read_exact(json.dumps(value)) == value


def test_what_cannot_be_written() -> None:
    """A lone surrogate is no text, broken JSON no value, a list no object."""
    with pytest.raises(ShapeError, match="cannot be written"):
        canonical({"a": "\ud800"})
    with pytest.raises(JsonError, match="not JSON"):
        read_exact("{")
    with pytest.raises(ShapeError, match="not an object"):
        read_object("[]")
