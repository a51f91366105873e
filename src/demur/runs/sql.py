"""The SQL that DuckDB and Spark share, and the few words in which they differ.

Queries are built of our own names and of names that are quoted here, so that nothing that a user wrote is ever read as SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DUCKDB", "SPARK", "Dialect", "literal"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes what the other writes otherwise.

    `hash` is its function of 64 bits; `spread` orders the rows of a run as if by chance, but the same each time.
    """

    quote: str
    hash: str
    spread: str

    def name(self, word: str) -> str:
        """Return a name of a table or column."""
        return self.quote + word.replace(self.quote, self.quote * 2) + self.quote

    def field(self, name: str) -> str:
        """Return the column of judged rows that holds a field of the run."""
        return self.name(f"field:{name}")


# Both hash functions have 64 bits; they need not agree, since each engine compares only its own hashes.
DUCKDB = Dialect('"', "hash", "hash(rowid)")
SPARK = Dialect("`", "xxhash64", "md5(concat_ws('|', rowid.source, rowid.start, rowid.place))")


def literal(text: str) -> str:
    """Return a text, as DuckDB writes it; a backslash would be an escape to Spark."""
    return "'" + text.replace("'", "''") + "'"
