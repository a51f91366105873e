"""What could be read in two ways is found, whatever the texts look like."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demur.gateway.request import reads_two_ways

TEXTS = st.text('a":\\ \n{,', max_size=6)
PAIRS = st.lists(st.tuples(st.sampled_from(["a", "b", 'a"', "a\\", "a:", ":"]), TEXTS), max_size=4)
SPACES = st.sampled_from(["", " ", "\n\t"])


def written(pairs: list[tuple[str, str]], space: str) -> str:
    """Return a JSON object of these names and texts, as often as they stand there."""
    return "{" + ",".join(f"{json.dumps(name)}{space}:{space}{json.dumps(text)}" for name, text in pairs) + "}"


@given(PAIRS, PAIRS, SPACES)
@example([("a\\", ""), ("a\\", "")], [], "")
@example([("a", ""), ("a", ""), ("b", ":")], [], "")
@example([("a\\", ""), ("a\\", ":")], [("a", '":')], "")
def test_a_name_that_stands_twice_is_found_among_texts_that_look_like_names(
    outer: list[tuple[str, str]], inner: list[tuple[str, str]], space: str
) -> None:
    """Quotes, colons and backslashes in names and texts change nothing: a body is refused where a name stands twice."""
    text = f'{{"x":{written(outer, space)},"y":[{written(inner, space)}]}}'
    twice = any(len(dict(pairs)) != len(pairs) for pairs in (outer, inner))
    assert reads_two_ways(text.encode(), json.loads(text)) is twice


@pytest.mark.parametrize("name", ["Messages", "MODEL", "meſſages", "Content"])
def test_a_name_that_differs_by_capitals_is_found(name: str) -> None:
    """Capitals, and letters that fold to the same, make another reading; so they do in a turn."""
    for body in ({name: 1}, {"messages": [{"role": "user", name: "x"}]}):
        assert reads_two_ways(json.dumps(body).encode(), body)


def test_capitals_are_free_where_names_are_not_the_apis() -> None:
    """A name of nobody's, and one in a schema, may have capitals."""
    body = {"model": "m", "xTemperature": 1, "tools": [{"Content": {"Role": "x"}}]}
    assert not reads_two_ways(json.dumps(body).encode(), body)
