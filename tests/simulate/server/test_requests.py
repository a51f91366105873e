"""What a request asks for, beyond its body: the seed and the attempt in its headers."""

from __future__ import annotations

import msgspec
import pytest

from demur.errors import UsageError
from demur.model.exchange import Shape
from demur.simulate.server.requests import Endpoint, RawRequest, Route, call_of

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def called(**headers: str) -> object:
    """Return the call of a chat with these headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = RawRequest("/v1/chat/completions", "", named, msgspec.json.encode(BODY))
    return call_of(Route(Endpoint.ANSWER, Shape.OPENAI_CHAT), raw, BODY)


@pytest.mark.parametrize("seed", ["", "x", "1.5", "9" * 19, "9" * 5000, "--1"])
def test_a_seed_that_is_no_number_is_refused(seed: str) -> None:
    """A seed of any length that cannot be used is the caller's mistake, never the simulator's."""
    with pytest.raises(UsageError, match="x-demur-seed"):
        called(x_demur_seed=seed)


@pytest.mark.parametrize(
    ("again", "first"),
    [({"x_stainless_retry_count": "1"}, False), ({"amz_sdk_request": "attempt=2"}, False)]
    + [({"amz_sdk_request": f"attempt={number}"}, True) for number in ("1", "9" * 5000)],
)
def test_an_attempt_of_any_length_is_no_fault(again: dict[str, str], *, first: bool) -> None:
    """A retry has draws of its own; a counter that no client sends reads as the first attempt."""
    assert (called(**again) == called()) is first
