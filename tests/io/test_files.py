"""Settings from the environment: a default, a number, or a clear refusal."""

from __future__ import annotations

import io

import pytest

from demur.errors import ShapeError, UsageError
from demur.io.files import InputLimits, csv_rows, input_limits


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


def test_a_table_as_wide_as_a_book_is_refused() -> None:
    """A header of more columns than any table of responses has is one clear error, at once."""
    header = ",".join(f"c{i}" for i in range(100_000))
    with pytest.raises(ShapeError, match="100000 columns, more than 10000"):
        list(csv_rows(io.BytesIO(f"{header}\n".encode()), InputLimits()))
