"""The pictures of the README are there, and small enough to be loaded with it."""

from __future__ import annotations

from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
LARGEST_BYTES = 150_000


@pytest.mark.parametrize("name", ["dashboard", "report"])
def test_a_picture_is_a_small_png(name: str) -> None:
    """Each is a PNG of at least 1,000 pixels' width and at most 150 KB; `scripts/pictures` makes it anew."""
    picture = (PICTURES / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(picture[16:20], "big") >= 1000
    assert len(picture) <= LARGEST_BYTES
