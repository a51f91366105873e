"""What an example of a trace format is, and how it is read; `examples` and `examples_tools` are the tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from demur.formats.registry import format_named
from demur.model.exchange import Response
from demur.model.run import Skipped, Traced
from demur.model.verdict import Outcome

ANSWER = "The sky is blue because air scatters blue light more than red."
REFUSAL = "I'm sorry, but I can't help with that."
QUESTION = "Why is the sky blue?"


@dataclass(frozen=True, slots=True)
class Example:
    """The records of one exchange in a format, and what is to be read of them.

    The first record that `sniffs` must know is the first of `records`; rows that are no exchange may stand around it.
    """

    format: str
    what: str
    records: tuple[dict[str, Any], ...]
    outcome: Outcome
    id: str | None = None
    session: str | None = None
    prompt: str | None = QUESTION

    def __str__(self) -> str:
        """The name of the test case."""
        return f"{self.format}: {self.what}"


def read_all(name: str, records: Iterable[dict[str, Any]]) -> list[Traced | Skipped]:
    """Return all that a fresh reader of the format makes of the records."""
    reader = format_named(name).open_reader()
    return [row for record in records for row in reader.feed(record)] + list(reader.close())


def read_one(name: str, *records: dict[str, Any]) -> Traced:
    """Return the only exchange in the records."""
    (traced,) = [row for row in read_all(name, records) if isinstance(row, Traced)]
    return traced


def answer_of(name: str, *records: dict[str, Any]) -> Response:
    """Return the response of the only exchange in the records."""
    response = read_one(name, *records).exchange.response
    assert response is not None
    return response
