"""The first page: how often the answer was no, whose no it was, and what else happened.

Laws: the model's refusal, the provider's filter and the gateway's denial have a chart each, for their denominators differ and they
never add up; what was counted over a part of the records says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.dashboard.pages.charts import decision_chart, interval_words, ranking, rate_chart, share_words, when
from demur.dashboard.pages.frame import href, panel, select
from demur.report.diff_words import counted
from demur.report.html.blocks import figure_tiles, scrolled
from demur.report.markup import escaped
from demur.report.numbers import PERCENT, UNKNOWN, percent
from demur.report.view import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.dashboard.pages.frame import PageFrame
    from demur.dashboard.pages.values import GapCount, Overview, Period, Reach, Shares
    from demur.model.estimate import Rate

__all__ = ["gaps_table", "overview_page", "period_words", "range_links", "reach_note"]

_RANGES = (("24h", "24 h"), ("7d", "7 days"), ("30d", "30 days"), ("all", "All"))
_ANSWERED = "exchanges that a provider answered"
_EMPTY = (
    '<section class="empty"><h2>Nothing is on record yet</h2><p>Point a client at the gateway by its base URL, or send one exchange by hand, '
    "and load this page again:</p><pre>curl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' \\\n"
    """  -d '{"model": "small", "messages": [{"role": "user", "content": "Hello"}]}'</pre></section>"""
)


def overview_page(frame: PageFrame, shown: Overview) -> str:
    """Return the page."""
    period = shown.period
    lead = f"{period_words(period)}{f', {shown.model}' if shown.model else ''}"
    if not period.buckets:
        return frame.page("Overview", [_EMPTY], lead="no exchange on record")
    aside = f'<div class="aside">{_model_form(frame, shown)}{range_links(frame.base, period, more={"model": shown.model})}</div>'
    return frame.page("Overview", _overview_parts(frame, shown), lead=lead, aside=aside)


def period_words(period: Period) -> str:
    """Return a period for people."""
    if not period.buckets:
        return "no exchange on record"
    bounds = when(period.since) if period.since == period.until else f"{when(period.since)} to {when(period.until)}"
    return f"{bounds} (UTC), by {period.step}"


def range_links(path: str, period: Period, *, more: dict[str, str]) -> str:
    """Return the ways to other periods; they end with the last hour on record."""
    links = "".join(
        f'<a href="{href(path, {**more, "range": name})}"{" aria-current=true" if period.asked == name else ""}>{word}</a>'
        for name, word in _RANGES
    )
    return f'<nav class="ranges" aria-label="Period">{links}</nav>'


def reach_note(reach: Reach) -> str:
    """Return over how many records was counted, where it was not over all, and how many cannot be read."""
    parts = []
    if not reach.whole:
        part = f"the latest {reach.counted:,} of {counted(reach.total, 'record')}"
        parts.append(f"Counted over {part} so far; it is reading on.")
    if reach.unreadable:
        parts.append(f"{counted(reach.unreadable, 'record')} cannot be read; see `demur passport verify`.")
    return f'<p class="reach">{escaped(" ".join(parts))}</p>' if parts else ""


def _overview_parts(frame: PageFrame, shown: Overview) -> Iterator[str]:
    yield _tiles(shown)
    yield '<div class="panels">'
    refused, filtered, denied = shown.refused, shown.filtered, shown.denied
    left = len(shown.by_model) - len(refused)
    more = f"; the {len(refused)} busiest models, {left:,} more below" if left else ""
    lead = f"the model itself declined; bands are 95 % intervals (Wilson){more}"
    yield panel(
        "Model refused",
        rate_chart(refused, shown.period, name="Model refused", of=_ANSWERED),
        lead=lead,
        kind="two-thirds",
    )
    yield panel(
        "Decisions",
        decision_chart(shown.decisions, shown.period),
        lead="exchanges by their strongest decision",
        kind="third",
    )
    chart = rate_chart(filtered, shown.period, name="Provider filtered", of=_ANSWERED)
    lead = "the provider's filter held the answer back"
    yield _quiet_panel("Provider filtered", chart, shown.all.filtered, lead=lead)
    chart = rate_chart(denied, shown.period, name="Gateway denied", of="all exchanges")
    yield _quiet_panel("Gateway denied", chart, shown.all.denied, lead="the policy denied")
    yield panel(
        "Attack attempts and harmful requests",
        _attacks(shown),
        kind="half",
        lead="by category, as the auditors' claims name them",
    )
    yield panel(
        "Enforcement gaps",
        gaps_table(frame, shown.gaps) + reach_note(shown.reach),
        kind="half",
        lead="where a decision did not hold, or nothing was scanned",
    )
    yield panel(
        "By model",
        _models_table(frame, shown.by_model),
        lead="with 95 % intervals; many exchanges of one session make them too narrow",
    )
    yield "</div>"


def _model_form(frame: PageFrame, shown: Overview) -> str:
    """Return the choice of a model, where there is one."""
    if len(shown.models) < 2:  # noqa: PLR2004 — one alone is no choice
        return ""
    options = [("", "all models"), *((name, name) for name in shown.models)]
    hidden = f'<input type="hidden" name="range" value="{escaped(shown.period.asked)}">' if shown.period.asked else ""
    choice = select("model", "Model", options, chosen=shown.model, submit=True)
    return f'<form class="filters" action="{escaped(frame.base)}">{choice}{hidden}<button data-scriptless>Show</button></form>'


def _tiles(shown: Overview) -> str:
    everything = shown.all
    gaps = sum(gap.n for gap in shown.gaps)
    rows = (
        ("Exchanges", f"{everything.exchanges:,}", f"{everything.unanswered:,} not answered by a provider"),
        ("Model refused", share_words(everything.refused), _tile_note(everything.refused)),
        ("Provider filtered", share_words(everything.filtered), _tile_note(everything.filtered)),
        ("Gateway denied", share_words(everything.denied), _tile_note(everything.denied)),
        ("Enforcement gaps", f"{gaps:,}", "in what was read so far" if not shown.reach.whole else "in this period"),
    )
    return figure_tiles([Fact(*row) for row in rows])


def _tile_note(rate: Rate) -> str:
    return f"{rate.count:,} of {rate.n:,}\n95 %: {interval_words(rate)}" if rate.n else "nothing to count"


def _quiet_panel(title: str, chart: str, whole: Rate, *, lead: str) -> str:
    """Return a chart, or a sentence where there is nothing to draw."""
    bound = f" (95 %: {interval_words(whole)})" if whole.n else ""
    never = f"<p>Never, in {counted(whole.n, 'exchange')}{bound}.</p>"
    return panel(title, chart if whole.count else never, lead=lead, kind="half")


def _attacks(shown: Overview) -> str:
    if not shown.attacks:
        return f"<p>No claim names any in this period.</p>{reach_note(shown.reach)}"
    return ranking(shown.attacks[:12]) + reach_note(shown.reach)


def gaps_table(frame: PageFrame, gaps: Sequence[GapCount]) -> str:
    """Return where enforcement did not hold."""
    if not gaps:
        return "<p>None in this period.</p>"
    rows = "".join(
        f'<tr><th scope="row">{escaped(gap.what.replace("_", " "))}</th><td class="words">{escaped(gap.phase)}</td>'
        f'<td class="words">{escaped(gap.auditor or UNKNOWN)}</td><td>{gap.n:,}</td></tr>'
        for gap in gaps
    )
    head = '<tr><th scope="col">What</th><th scope="col" class="words">Phase</th><th scope="col" class="words">Auditor</th><th scope="col">Times</th></tr>'
    link = f'<p><a href="{href(f"{frame.base}sessions", {"gaps": "1"})}">Sessions with gaps</a></p>'
    return scrolled("Gaps", f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>") + link


def _models_table(frame: PageFrame, rows: Sequence[Shares]) -> str:
    heads = ("Model", "Exchanges", "Not answered", f"Refused,{PERCENT}", f"Filtered,{PERCENT}", f"Denied,{PERCENT}")
    body = "".join(_model_row(frame, row, heads) for row in rows)
    head = "".join(f'<th scope="col"{"" if name == "Model" else " class=num"}>{name}</th>' for name in heads)
    table = f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return scrolled("Rates by model", table)


def _model_row(frame: PageFrame, row: Shares, heads: Sequence[str]) -> str:
    link = f'<a href="{href(f"{frame.base}sessions", {"model": row.name})}">{escaped(row.name) or UNKNOWN}</a>'
    cells = (f"{row.exchanges:,}", f"{row.unanswered:,}", *map(_rate_words, (row.refused, row.filtered, row.denied)))
    tds = "".join(
        f'<td class="num" data-head="{name}"><span>{cell}</span></td>'
        for name, cell in zip(heads[1:], cells, strict=True)
    )
    return f'<tr><th scope="row">{link}</th>{tds}</tr>'


def _rate_words(rate: Rate) -> str:
    if not rate.n:
        return UNKNOWN
    ends = f"{percent(rate.interval.low)} to {percent(rate.interval.high)}"
    return f"{percent(rate.value)}<small>{ends}, {rate.count:,} of {rate.n:,}</small>"
