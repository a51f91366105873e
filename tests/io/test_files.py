"""Settings from the environment: a default, a number, or a clear refusal."""

from __future__ import annotations

import pytest

from demur.errors import UsageError
from demur.io.files import InputLimits, input_limits


def test_unset_means_the_default() -> None:
    """An empty environment gives the documented limits."""
    assert input_limits({}) == InputLimits(16 * 1024 * 1024, 64 * 1024 * 1024)


def test_a_number_is_taken() -> None:
    """Each limit has its own variable."""
    assert input_limits({"DEMUR_MAX_LINE_BYTES": "10", "DEMUR_MAX_DOCUMENT_BYTES": " 20 "}) == InputLimits(10, 20)


@pytest.mark.parametrize("value", ["0", "-1", "ten", "1e6"])
def test_anything_else_is_refused(value: str) -> None:
    """A value that is no number of bytes is an error with the variable's name, never ignored."""
    with pytest.raises(UsageError, match=f"`DEMUR_MAX_LINE_BYTES` is `{value}`"):
        input_limits({"DEMUR_MAX_LINE_BYTES": value})
