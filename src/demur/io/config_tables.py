"""Which tables may stand in a `demur.toml`? Those that a command reads; any other is a mistake that would pass for a default."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from demur.errors import ShapeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["check_tables"]

_TABLES = ("gateway", "simulator")


def check_tables(found: Iterable[str], source: str, *, text: str, parts: Collection[str] = ()) -> None:
    """Raise where a table, or a key outside of all tables, is none of ours; `parts` are tables that belong under `gateway`."""
    for name in found:
        if name in _TABLES:
            continue
        near = get_close_matches(name, _TABLES, n=1, cutoff=0.6)
        hint = f"did you mean [gateway.{name}]?" if name in parts else f"did you mean [{near[0]}]?" if near else None
        known = " and ".join(f"[{table}]" for table in _TABLES)
        line = _line_naming(text, name)
        raise ShapeError(f"`{name}` is no table of ours", source=source, line=line, hint=hint or f"there are {known}")


def _line_naming(text: str, name: str) -> int | None:
    found = (n for n, line in enumerate(text.splitlines(), 1) if re.match(rf"\s*\[*\s*{re.escape(name)}\b", line))
    return next(found, None)
