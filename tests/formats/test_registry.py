"""Every format's examples through the registry: known for what they are, and judged as what they hold."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.example import Example, read_one
from tests.formats.examples import EXAMPLES as OWN_EXAMPLES
from tests.formats.examples_tools import TOOL_EXAMPLES
from tests.wire import laws

from demur.detect.check import classify
from demur.errors import InputError, UsageError
from demur.formats.registry import FORMATS, format_named, format_of
from demur.model.run import Skipped, Traced

EXAMPLES = (*OWN_EXAMPLES, *TOOL_EXAMPLES)
NAMES = sorted({example.format for example in EXAMPLES})
WORDS = sorted({key for example in OWN_EXAMPLES for record in example.records for key in record})
"""Field names that some format looks at, so that invented records come near to real ones."""


def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    """Return a way to draw objects with fields that formats know and values that they do not expect."""
    keys = st.sampled_from(WORDS) | st.text(max_size=8)
    flat = laws.SCALARS | st.lists(laws.SCALARS, max_size=2) | st.dictionaries(keys, laws.SCALARS, max_size=3)
    deep = st.lists(flat, max_size=2) | st.dictionaries(keys, flat, max_size=3)
    return st.dictionaries(keys, flat | deep, max_size=6)


@st.composite
def spoilt_examples(draw: st.DrawFn) -> dict[str, Any]:
    """Return a record of an example in which one value, at any depth, was replaced."""
    example = draw(st.sampled_from(OWN_EXAMPLES))
    record: dict[str, Any] = {**draw(st.sampled_from(example.records))}
    key = draw(st.sampled_from(sorted(record)))
    return {**record, key: _spoilt(draw, record[key])}


def _spoilt(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: _spoilt(draw, value[key])}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [_spoilt(draw, value[0]), *value[1:]]
    return {**value, draw(st.sampled_from(WORDS)): draw(laws.JSON)} if isinstance(value, dict) else draw(laws.JSON)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_is_known_for_what_it_is(example: Example) -> None:
    """The first format in the registry that a record's sniffers know is its own."""
    found = format_of(example.records[0])
    assert (found.NAME if found else None) == example.format
    assert format_named(example.format).sniffs(example.records[0])


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_is_judged_as_what_it_holds(example: Example) -> None:
    """The outcome, the pair key, the session and the prompt of an example are those written beside it."""
    traced = read_one(example.format, *example.records)
    exchange = traced.exchange
    assert classify(exchange.response).outcome is example.outcome
    assert (exchange.id, exchange.session) == (example.id, example.session)
    assert (exchange.request.prompt if exchange.request else None) == example.prompt


@pytest.mark.parametrize("name", NAMES)
def test_every_format_has_its_outcomes(name: str) -> None:
    """Each format's examples hold an answer, an abstention and a failure."""
    outcomes = {example.outcome.value for example in EXAMPLES if example.format == name}
    assert {"complied", "failed"} <= outcomes
    assert outcomes & {"refused", "filtered"}


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted({example.format for example in OWN_EXAMPLES}))
@given(record=json_objects() | spoilt_examples())
def test_no_json_breaks_a_reader(name: str, record: dict[str, Any]) -> None:
    """Sniffing never raises, and reading raises nothing but an error about the input, whatever the JSON."""
    known = FORMATS[name]
    assert known.sniffs(record) in (True, False)
    reader = known.open_reader()
    rows: list[Traced | Skipped] = []
    with contextlib.suppress(InputError):
        rows += reader.feed(record)
    rows += reader.close()
    assert all(isinstance(row, Traced | Skipped) for row in rows)
    assert all(classify(row.exchange.response) for row in rows if isinstance(row, Traced))


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(FORMATS))
@given(record=json_objects() | spoilt_examples())
def test_the_fields_of_a_format_are_necessary(name: str, record: dict[str, Any]) -> None:
    """Whether a record is of a format does not depend on the fields by which the registry decides to import it."""
    assert name == FORMATS[name].load().NAME
    assert FORMATS[name].sniffs(record) == FORMATS[name].load().sniffs(record)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_examples_pass_the_registry_as_they_pass_their_formats(example: Example) -> None:
    """Every format says of every example what it says by itself."""
    for record in example.records:
        assert [known.sniffs(record) for known in FORMATS.values()] == [
            known.load().sniffs(record) for known in FORMATS.values()
        ]


def test_the_registry_names_its_formats() -> None:
    """A format is found by its own name, in any case, and rows of columns are asked last."""
    assert sorted(FORMATS) == NAMES
    assert all(format_named(name.upper()) is known for name, known in FORMATS.items())
    assert list(FORMATS)[-1] == "flat"
    assert format_of({"nothing": "known"}) is None


def test_a_wrong_name_is_told_the_right_one() -> None:
    """An unknown format's error says the nearest name and all of them."""
    with pytest.raises(
        UsageError, match=r"unknown trace format `litelm`; did you mean `litellm`\? there are agentlog, "
    ):
        format_named("litelm")
    with pytest.raises(UsageError, match=r"unknown trace format `zzz`; there are agentlog, "):
        format_named("zzz")
