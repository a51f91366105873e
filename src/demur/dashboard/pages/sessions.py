"""The list of sessions, and one session's exchanges.

Laws: pages follow each other by a link that anyone can keep; a search that stopped before a page was full says how far it came; a row says
what was decided and by whom the answer was kept back, in words as well as in colour.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from demur.dashboard.pages.charts import EFFECT_ORDER, when
from demur.dashboard.pages.frame import href, select
from demur.report.diff_words import counted
from demur.report.html.blocks import scrolled
from demur.report.markup import escaped
from demur.report.numbers import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.dashboard.pages.frame import PageFrame
    from demur.dashboard.pages.values import ExchangeRow, SessionFilter, SessionPage, SessionsPage

__all__ = ["CAUSES", "decision_tag", "session_page", "sessions_page"]

CAUSES = {
    "text_refusal": "model refused (text)",
    "provider_refusal": "model refused (signal)",
    "provider_filter": "provider filtered",
    "gateway_block": "gateway denied",
    "provider_error": "provider error",
    "empty": "empty answer",
}
_SHORT = 28
_RULES_SHOWN = 3


def decision_tag(word: str) -> str:
    """Return a decision as a tag; a record that cannot be read says so."""
    return (
        f'<span class="tag {escaped(word)}">{escaped(word)}</span>'
        if word
        else '<span class="tag fails">unreadable</span>'
    )


def sessions_page(frame: PageFrame, shown: SessionsPage) -> str:
    """Return a page of the list."""
    shows = (
        "the newest exchange of its session; earlier ones may say otherwise"
        if shown.asked.idle
        else "the newest that fits"
    )
    lead = f"{counted(shown.total, 'record')}; a row shows {shows}"
    return frame.page("Sessions", _sessions_parts(frame, shown), current="sessions", lead=lead)


def _sessions_parts(frame: PageFrame, shown: SessionsPage) -> Iterator[str]:
    yield _filter_form(frame, shown)
    if shown.rows:
        heads = ("Session", "Newest (UTC)", "Exchanges", "Model", "Decision", "Who said no", "Rules", "Record")
        body = "".join(_session_row(frame, row, total) for row, total in shown.rows)
        yield _exchange_table("Sessions", heads, body)
    elif shown.following is None:
        yield _none_found(frame, shown)
    if shown.searched_to is not None:
        yield f'<p class="reach">Searched back to {escaped(when(shown.searched_to))} (UTC); there is more to search.</p>'
    yield _pager(frame, shown)


def _none_found(frame: PageFrame, shown: SessionsPage) -> str:
    if shown.asked.idle and shown.first:
        return '<section class="empty"><h2>No session is on record yet</h2><p>Exchanges through the gateway appear here.</p></section>'
    clear = f'<p><a href="{escaped(frame.base)}sessions">Show all sessions</a></p>'
    return f'<section class="empty"><h2>No session fits</h2><p>Ask for less, or for another time.</p>{clear}</section>'


def _filter_form(frame: PageFrame, shown: SessionsPage) -> str:
    asked = shown.asked
    models = [("", "any"), *((name, name) for name in shown.models)]
    effects = [("", "any"), *((word, word) for word in EFFECT_ORDER)]
    rules = [("", "any"), *((name, name) for name in shown.rules)]
    search = (
        '<label class="wide-field">Session or record<input type="search" name="q" placeholder="a name, or #12" '
        f'value="{escaped(asked.search)}" maxlength="200"></label>'
    )
    times = "".join(
        f'<label>{word}<input type="date" name="{name}" value="{escaped(value[:10])}"></label>'
        for name, word, value in (("since", "From", asked.since), ("until", "To", asked.until))
    )
    ticked = " checked" if asked.gaps else ""
    clear = "" if asked.idle else f'<a class="button quiet" href="{escaped(frame.base)}sessions">Clear</a>'
    return (
        f'<form class="filters boxed" action="{escaped(frame.base)}sessions" role="search">{search}'
        + select("model", "Model", models, chosen=asked.model)
        + select("decision", "Decision", effects, chosen=asked.decision)
        + select("cause", "Who said no", [("", "any"), *CAUSES.items()], chosen=asked.cause)
        + (select("rule", "Rule", rules, chosen=asked.rule) if shown.rules else "")
        + f'{times}<label class="tick"><input type="checkbox" name="gaps" value="1"{ticked}>with gaps</label><button>Search</button>{clear}</form>'
    )


def _exchange_table(name: str, heads: Sequence[str], body: str) -> str:
    numbers = ("Exchanges", "Record")
    head = "".join(f'<th scope="col"{" class=num" if head in numbers else ""}>{head}</th>' for head in heads)
    return scrolled(name, f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')


def _session_row(frame: PageFrame, row: ExchangeRow, total: int) -> str:
    link = href(f"{frame.base}session", {"id": row.session})
    return (
        f'<tr><th scope="row"><a href="{link}" title="{escaped(row.session)}">{escaped(_shortened(row.session))}</a></th>'
        f'<td>{_time_of(row.at)}</td><td class="num" data-head="Exchanges">{total:,}</td>{_said_cells(frame, row)}</tr>'
    )


def _said_cells(frame: PageFrame, row: ExchangeRow) -> str:
    """Return the cells that every list of exchanges has."""
    causes = "".join(f'<span class="tag">{escaped(CAUSES.get(cause, cause))}</span>' for cause in row.causes)
    causes += f'<span class="tag gap">{counted(row.gaps, "gap")}</span>' if row.gaps else ""
    rules = "".join(f'<span class="tag">{escaped(rule)}</span>' for rule in row.rules[:_RULES_SHOWN])
    rules += f" +{len(row.rules) - _RULES_SHOWN}" if len(row.rules) > _RULES_SHOWN else ""
    return (
        f"<td>{escaped(row.model) or UNKNOWN}</td><td>{decision_tag(row.decision)}</td>"
        f'<td class="tags{"" if causes else " none"}"><span>{causes}</span></td>'
        f'<td class="tags{"" if rules else " none"}"><span>{rules}</span></td>'
        f'<td class="num"><a href="{escaped(frame.base)}exchange/{row.index}" aria-label="record {row.index}">#{row.index}</a></td>'
    )


def _time_of(at: str) -> str:
    return f'<time datetime="{escaped(at)}">{escaped(when(at[:19]))}</time>'


def _shortened(name: str) -> str:
    return name if len(name) <= _SHORT else f"{name[: _SHORT - 1]}…"


def _pager(frame: PageFrame, shown: SessionsPage) -> str:
    links = []
    asked = _asked_values(shown.asked)
    if not shown.first:
        links.append(f'<a class="button quiet" href="{href(f"{frame.base}sessions", asked)}">Back to the first</a>')
    if shown.following is not None:
        word = "Search on" if shown.searched_to is not None else "Next" if shown.asked.search else "Older"
        link = href(f"{frame.base}sessions", {**asked, "before": shown.following})
        links.append(f'<a class="button" rel="next" href="{link}">{word}</a>')
    return f'<nav class="pager" aria-label="More sessions">{"".join(links)}</nav>' if links else ""


def _asked_values(asked: SessionFilter) -> dict[str, object]:
    values: dict[str, object] = dict(asdict(asked))
    values["q"] = values.pop("search")
    values["gaps"] = "1" if asked.gaps else ""
    return values


def session_page(frame: PageFrame, shown: SessionPage) -> str:
    """Return one session."""
    heads = ("No.", "At (UTC)", "Model", "Decision", "Who said no", "Rules", "Record")
    body = "".join(
        f'<tr><th scope="row">{row.seq}</th><td>{_time_of(row.at)}</td>{_said_cells(frame, row)}</tr>'
        for row in shown.rows
    )
    parts = [f'<p class="mono">{escaped(shown.session)}</p>', _exchange_table("Exchanges", heads, body)]
    if shown.following is not None:
        link = href(f"{frame.base}session", {"id": shown.session, "before": shown.following})
        parts.append(
            f'<nav class="pager" aria-label="More exchanges"><a class="button" rel="next" href="{link}">Older</a></nav>'
        )
    return frame.page("Session", parts, current="sessions", lead=f"{counted(shown.total, 'exchange')}, newest first")
