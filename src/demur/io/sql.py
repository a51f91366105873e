"""Names and texts inside a query: quoted here, so that nothing that a user wrote is ever read as SQL."""

from __future__ import annotations

__all__ = ["literal", "quoted"]


def quoted(name: str) -> str:
    """Return a name of a table or column."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text."""
    return "'" + text.replace("'", "''") + "'"
