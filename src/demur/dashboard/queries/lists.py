"""Which sessions fit what a reader looks for? A page at a time, the newest activity first or by name.

Laws: a page reads a bounded number of records and says how far it came; a session stands once, at its newest exchange that fits; what a
filter asks for is looked for as bytes by the engine where it can be, and always checked on the record itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from demur.dashboard.pages.values import SessionsPage
from demur.dashboard.queries.counts import row_of_payload
from demur.model.claim import Effect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.dashboard.pages.values import ExchangeRow, SessionFilter
    from demur.dashboard.queries.question import LogQuestion

__all__ = ["PAGE", "sessions_by_activity", "sessions_by_name"]

PAGE = 50
_WINDOW, _WIDEST = 500, 10_000
_MOST_READ, _MOST_SEARCHED = 20_000, 30_000
"""Records of which every one is decoded, and those of which the engine sorts most out."""
_MOST_NAMED = 400


def _fits(row: ExchangeRow, asked: SessionFilter) -> bool:
    return (
        asked.model in ("", row.model)
        and asked.decision in ("", row.decision)
        and (not asked.cause or asked.cause in row.causes)
        and (not asked.rule or asked.rule in row.rules)
        and (not asked.gaps or row.gaps > 0)
        and asked.since <= row.at
        and (not asked.until or row.at[: len(asked.until)] <= asked.until)
    )


def _needles(asked: SessionFilter) -> tuple[bytes, ...]:
    """Return bytes that the statement of every exchange that fits must hold; a name that JSON would escape is left out."""
    words = [asked.model, asked.cause, asked.rule]
    # An exchange without a phase is allowed and does not say so.
    words += [asked.decision] if asked.decision != Effect.ALLOW.word else []
    plain = (word for word in words if word and word.isprintable() and not {'"', "\\"} & set(word))
    return (*(f'"{word}"'.encode() for word in plain), *((b'"gaps":[{',) if asked.gaps else ()))


def sessions_by_activity(question: LogQuestion, asked: SessionFilter, *, before: str) -> SessionsPage:
    """Return the sessions that were last active before a place in the log."""
    low = question.place_of(asked.since) if asked.since else 0
    high = int(before) if before else question.place_of(asked.until + "~") if asked.until else question.size
    needles = _needles(asked)
    end = max(low, high - (_MOST_SEARCHED if needles else _MOST_READ))
    rows: list[tuple[ExchangeRow, int]] = []
    stop, wide, seen = high, _WINDOW, set[str]()
    while stop > end:
        start = max(end, stop - wide)
        for passport in question.newest(start, stop, holding=needles):
            row = row_of_payload(passport)
            if row.session in seen or not _fits(row, asked):
                continue
            seen.add(row.session)
            if (last := _last_unlisted(question, row, asked)) is not None:
                rows.append((row, last + 1))
            if len(rows) == PAGE:
                return _page_of(rows, asked, str(row.index) if row.index > low else None)
        stop, wide = start, min(2 * wide, _WIDEST if needles else _WINDOW)
    if stop <= low:
        return _page_of(rows, asked, None)
    return replace(_page_of(rows, asked, str(stop)), searched_to=question.time_at(stop))


def _last_unlisted(question: LogQuestion, row: ExchangeRow, asked: SessionFilter) -> int | None:
    """Return the number of a session's last exchange; None where a newer one that fits was listed before."""
    last = question.last_of(row.session) or 0
    for newer in question.of_session(row.session, last + 1, most=min(last - row.seq, _WINDOW)):
        if newer.seq > row.seq and _fits(row_of_payload(newer), asked):
            return None
    return last


def sessions_by_name(question: LogQuestion, asked: SessionFilter, *, after: str) -> SessionsPage:
    """Return the sessions whose names begin as looked for, in the order of their names."""
    found = question.named(asked.search, after=after, most=_MOST_NAMED)
    rows: list[tuple[ExchangeRow, int]] = []
    for session, last in found:
        row = _newest_fitting(question, session, last, asked=asked)
        rows += [] if row is None else [(row, last + 1)]
        if len(rows) == PAGE:
            return _page_of(rows, asked, session)
    return _page_of(rows, asked, found[-1][0] if len(found) == _MOST_NAMED else None)


def _newest_fitting(question: LogQuestion, session: str, last: int, *, asked: SessionFilter) -> ExchangeRow | None:
    """Return a session's newest exchange that fits: mostly its last, so that the others are not read before it."""
    for most in (1, _WINDOW):
        for passport in question.of_session(session, last + 1, most=most):
            row = row_of_payload(passport)
            if _fits(row, asked):
                return row
    return None


def _page_of(rows: Sequence[tuple[ExchangeRow, int]], asked: SessionFilter, following: str | None) -> SessionsPage:
    return SessionsPage(tuple(rows), asked, (), (), 0, following)
