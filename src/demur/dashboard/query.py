"""The query of a dashboard URL, read once and strictly; an empty field asks for nothing."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from demur.dashboard.pages import CAUSES, MEASURES
from demur.dashboard.reader import RANGES, period_of
from demur.dashboard.values import ComparedSide, SessionFilter
from demur.errors import UsageError
from demur.report.charts import EFFECT_WORDS, Period

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Query", "record_named"]

_MAX_FIELDS = 40
_MAX_CHARS = 500
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# The largest whole number that every reader of JSON and JavaScript keeps.
_MAX_NUMBER = 2**53
_RECORD_CHARS = 15


def record_named(text: str, *, mark: str) -> int | None:
    """Return the place in the log that stands after a mark, as in `#12`; None where none does."""
    number = text.removeprefix(mark)
    is_place = text.startswith(mark) and number.isascii() and number.isdecimal() and len(number) <= _RECORD_CHARS
    return int(number) if is_place else None


class Query:
    """The fields of one request."""

    def __init__(self, raw: bytes) -> None:
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
        except ValueError as exc:
            raise UsageError("the query cannot be read", hint="use the page's own links") from exc
        self._values = dict(pairs)
        # PostgreSQL takes no zero character in a text.
        if any(len(value) > _MAX_CHARS or "\0" in value for value in self._values.values()):
            raise UsageError(f"a field is longer than {_MAX_CHARS} characters, or holds a zero", hint="ask for less")

    def text(self, name: str) -> str:
        """Return a field as it is, without spaces around it."""
        return self._values.get(name, "").strip()

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return a field that can be one of these, or empty."""
        value = self.text(name)
        # Rejected, not ignored: a page without the filter would look like the one that was asked for.
        if value and value not in allowed:
            raise UsageError(f"`{name}` cannot be `{value}`", hint=f"choose from {', '.join(allowed)}")
        return value

    def number(self, name: str) -> int | None:
        """Return a field that is a whole number, None where it is empty."""
        value = self.text(name)
        if not value:
            return None
        if not (value.isascii() and value.isdecimal()) or int(value) > _MAX_NUMBER:
            raise UsageError(f"`{name}` is no number: `{value}`", hint="give a whole number from 0 on")
        return int(value)

    def day(self, name: str) -> str:
        """Return a field that is a day, or empty."""
        value = self.text(name)
        if not value:
            return ""
        try:
            # Python takes more spellings of ISO 8601, such as 20260131, which would not compare as text with the log's times.
            if _DAY.fullmatch(value):
                return date.fromisoformat(value).isoformat()
        except ValueError:
            pass
        raise UsageError(f"`{name}` is no day: `{value}`", hint="write it as 2026-01-31")

    def days(self, prefix: str = "") -> tuple[str, str]:
        """Return the first and the last day asked for; raise where the period ends before it begins."""
        since, until = self.day(f"{prefix}since"), self.day(f"{prefix}until")
        if since and until and until < since:
            raise UsageError(f"the period ends ({until}) before it begins ({since})", hint="turn them round")
        return since, until

    def period(self, hours: Sequence[str]) -> Period:
        """Return the period asked for, of a log with these hours."""
        since, until = self.days()
        return period_of(hours, range_=self.choice("range", tuple(RANGES)), since=since, until=until)

    def sessions(self) -> SessionFilter:
        """Return what is looked for among sessions."""
        since, until = self.days()
        return SessionFilter(
            search=self.text("q"),
            model=self.text("model"),
            decision=self.choice("decision", EFFECT_WORDS),
            cause=self.choice("cause", tuple(CAUSES)),
            rule=self.text("rule"),
            since=since,
            until=until,
            gaps=self.choice("gaps", ("1",)) == "1",
        )

    def measure(self) -> str:
        """Return what two sides are compared by."""
        return self.choice("measure", tuple(MEASURES)) or "refused"

    def side(self, letter: str) -> ComparedSide:
        """Return one side of a comparison."""
        since, until = self.days(f"{letter}_")
        return ComparedSide(self.text(f"{letter}_model"), since, until)

    def of_session(self) -> tuple[str, int]:
        """Return the session and the number in it that a record is named by."""
        session, seq = self.text("session"), self.number("seq")
        if not session or seq is None:
            raise UsageError("which exchange?", hint="give `session` and `seq`, or choose one from a list")
        return session, seq

    @property
    def compares(self) -> bool:
        """Whether anything was asked of a comparison."""
        return any(name.startswith(("a_", "b_")) and value for name, value in self._values.items())
