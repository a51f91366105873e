"""The test of linear time tells the line from the square."""

from __future__ import annotations

import pytest
from tests.growth import assert_linear


def test_a_line_passes() -> None:
    """Work that grows with the input passes, and so does work that does not grow."""
    assert_linear(lambda size: sum(range(size)), 400_000, 3_200_000, ratio=8)
    assert_linear(lambda _: sum(range(400_000)), 400_000, 3_200_000, ratio=8)


@pytest.mark.heavy
def test_a_square_fails() -> None:
    """Work that grows with the square of the input fails, and the message says how much it grew."""
    with pytest.raises(pytest.fail.Exception, match=r"^8 times the input took \d+\.\d times as long"):
        assert_linear(lambda size: sum(range(size * size)), 500, 4000, ratio=8)
