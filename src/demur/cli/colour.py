"""May what is printed have colours? On a terminal that shows them, unless its owner does not want them."""

from __future__ import annotations

import os
import sys

__all__ = ["has_colour"]


def has_colour() -> bool:
    """Return whether standard output takes colours; NO_COLOR, set to anything, says no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
