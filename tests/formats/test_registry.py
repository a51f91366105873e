"""Every format's examples through the registry: known for what they are, and judged as what they hold."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.every_example import EVERY_EXAMPLE as EXAMPLES
from tests.formats.example import Example, read_one
from tests.wire import laws

from demur.detect.check import classify
from demur.errors import ShapeError, UsageError
from demur.formats.registry import FORMATS, format_named, format_of
from demur.model.run import Skipped, Traced

NAMES = sorted({example.format for example in EXAMPLES})
RECORDS = {
    name: {f"{e} {i}": record for e in EXAMPLES if e.format == name for i, record in enumerate(e.records)}
    for name in NAMES
}
KEYS = st.sampled_from(sorted({key for e in EXAMPLES for record in e.records for key in record})) | st.text(max_size=8)
"""Field names that some format looks at, so that invented records come near to real ones."""


@cache
def records_near(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return a way to draw records that are almost of the format, of another one, or of none."""
    flat = laws.SCALARS | st.lists(laws.SCALARS, max_size=2) | st.dictionaries(KEYS, laws.SCALARS, max_size=3)
    deep = st.lists(flat, max_size=2) | st.dictionaries(KEYS, flat, max_size=3)
    invented = st.dictionaries(KEYS, flat | deep | laws.JSON, max_size=6)
    every = {what: record for records in RECORDS.values() for what, record in records.items()}
    spoilt = laws.spoilt(RECORDS[name]) | laws.spoilt(every)
    return invented | spoilt | st.builds(lambda one, other: {**one, **other}, spoilt, invented)


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
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_no_json_breaks_a_reader(name: str, data: st.DataObject) -> None:
    """Sniffing never raises, reading raises nothing but `ShapeError`, and what is read can be judged."""
    record = data.draw(records_near(name))
    known = FORMATS[name].load()
    assert known.sniffs(record) in (True, False)
    reader = known.open_reader()
    rows: list[Traced | Skipped] = []
    with contextlib.suppress(ShapeError):
        rows += reader.feed(record)
    rows += reader.close()
    assert all(isinstance(row, Traced | Skipped) for row in rows)
    assert all(classify(row.exchange.response) for row in rows if isinstance(row, Traced))


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_the_fields_of_a_format_are_necessary(name: str, data: st.DataObject) -> None:
    """Whether a record is of a format does not depend on the fields by which the registry decides to import it."""
    record = data.draw(records_near(name))
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
