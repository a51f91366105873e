"""The names of Shadow's records, which are digests of canonical JSON."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from tests.wire import laws

from demur.errors import ShapeError
from demur.wire.agentlog import record_id


def sha256(canonical: str) -> str:
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def test_the_seeds_known_vector() -> None:
    """The seed's specification names this payload and its id."""
    expected = "sha256:93a23971a914e5eacbf0a8d25154cda309c3c1c72fbb9914d47c60f3cb681588"
    assert record_id({"hello": "world"}) == expected


@pytest.mark.parametrize(
    ("payload", "canonical"),
    [
        ({"b": 2, "a": {"d": [], "c": None}}, '{"a":{"c":null,"d":[]},"b":2}'),
        ([True, False, None], "[true,false,null]"),
        (
            [1.0, 1.5, -0.0, 0.1, -17, 1e20, 1e-7, 123456789.125],
            "[1,1.5,0,0.1,-17,100000000000000000000,0.0000001,123456789.125]",
        ),
        ([2**64 - 1, -(2**63), 2**64], "[18446744073709551615,-9223372036854775808,18446744073709552000]"),
        ({"x": 'a"b\\c\n\t\r\b\f\x01\x1f\x7f/'}, '{"x":"a\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\x7f/"}'),
        ({"e\u0301": "e\u0301 €"}, '{"\u00e9":"\u00e9 €"}'),
        ({"\U0001f600": 1, "\uffee": 2, "z": 3}, '{"z":3,"\uffee":2,"\U0001f600":1}'),
    ],
)
def test_the_canonical_form(payload: Any, canonical: str) -> None:
    """Sorted by UTF-8, in NFC, without white space, numbers in their shortest form without an exponent."""
    assert record_id(payload) == sha256(canonical)


@given(laws.JSON)
def test_the_order_of_keys_does_not_matter(payload: Any) -> None:
    """An object has the same id in whichever order its fields came."""
    wrapped = {"a": payload, "b": 1}
    assert record_id(wrapped) == record_id(dict(reversed(wrapped.items())))


@pytest.mark.parametrize("payload", ["\ud800", {"x": object()}, 10**400])
def test_what_is_no_json_has_no_id(payload: Any) -> None:
    """Half a character, an object of another kind and a number beyond all doubles are errors."""
    with pytest.raises(ShapeError, match="`payload`: expected plain JSON"):
        record_id(payload)


@pytest.mark.heavy
def test_a_bottomless_payload_has_no_id() -> None:
    """A payload that is nested too deeply is an error about the input, not a crash."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ShapeError, match="`payload`: expected plain JSON"):
        record_id(deep)
