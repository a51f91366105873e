"""The first page: how often the answer was no, whose no it was, and what else happened.

Laws: the model's refusal, the provider's filter and the gateway's denial have a chart each, for their denominators differ and they
never add up; what was counted over a part of the records says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.report.dashboard_charts import decision_chart, interval_words, ranking, rate_chart, share_words, when
from demur.report.dashboard_frame import href, panel, select
from demur.report.diff_words import counted
from demur.report.markup import escaped
from demur.report.numbers import PERCENT, UNKNOWN, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.estimate import Rate
    from demur.report.dashboard_frame import PageFrame
    from demur.report.dashboard_values import GapCount, Overview, Period, RateSeries, Reach, Shares

__all__ = ["gaps_table", "overview_page", "period_words", "range_links", "reach_note"]

_RANGES = (("24h", "24 h"), ("7d", "7 days"), ("30d", "30 days"), ("all", "All"))
_EMPTY = (
    '<section class="empty"><h2>Nothing is on record yet</h2><p>Send an exchange through the gateway; this page shows it within a second.</p>'
    "</section>"
)


def overview_page(frame: PageFrame, shown: Overview) -> str:
    """Return the page."""
    period = shown.period
    lead = f"{period_words(period)}{f', {shown.model}' if shown.model else ''}"
    aside = range_links(frame.base, period, more={"model": shown.model}) if period.buckets else ""
    if not period.buckets:
        return frame.page("Overview", [_EMPTY], lead="no exchange on record")
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
    if len(shown.models) > 1:
        yield _model_form(frame, shown)
    yield _tiles(shown)
    yield '<div class="panels">'
    refused, filtered, denied = shown.refused, shown.filtered, shown.denied
    left = len(shown.by_model) - len(refused)
    more = f"; the {len(refused)} busiest models, {left:,} more below" if left else ""
    lead = (
        f"the model itself declined, of the exchanges that a provider answered; bands are 95 % intervals (Wilson){more}"
    )
    yield panel("Model refused", rate_chart(refused, shown.period, name="Model refused"), lead=lead, kind="two-thirds")
    yield panel(
        "Decisions",
        decision_chart(shown.decisions, shown.period),
        lead="exchanges by their strongest decision",
        kind="third",
    )
    yield _quiet_panel(
        "Provider filtered", filtered, shown.period, "the provider's filter held the answer back, of those answered"
    )
    yield _quiet_panel("Gateway denied", denied, shown.period, "the policy denied, of all exchanges")
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
    options = [("", "all models"), *((name, name) for name in shown.models)]
    hidden = f'<input type="hidden" name="range" value="{escaped(shown.period.asked)}">' if shown.period.asked else ""
    choice = select("model", "Model", options, chosen=shown.model, submit=True)
    return f'<form class="filters" action="{escaped(frame.base)}">{choice}{hidden}<button>Show</button></form>'


def _tiles(shown: Overview) -> str:
    everything = shown.all
    gaps = sum(gap.n for gap in shown.gaps)
    rows = (
        ("Exchanges", f"{everything.exchanges:,}", f"{everything.unanswered:,} not answered by a provider"),
        ("Model refused", share_words(everything.refused), _tile_note(everything.refused)),
        ("Provider filtered", share_words(everything.filtered), _tile_note(everything.filtered)),
        ("Gateway denied", share_words(everything.denied), _tile_note(everything.denied)),
        ("Enforcement gaps", f"{gaps:,}", "of what was read so far" if not shown.reach.whole else "on record"),
    )
    tiles = "".join(
        f'<div><dt>{name}</dt><dd class="figure">{value}</dd><dd class="soft">{note}</dd></div>'
        for name, value, note in rows
    )
    return f'<dl class="tiles">{tiles}</dl>'


def _tile_note(rate: Rate) -> str:
    return f"{rate.count:,} of {rate.n:,}\n95 %: {interval_words(rate)}" if rate.n else "nothing to count"


def _quiet_panel(title: str, series: Sequence[RateSeries], period: Period, lead: str) -> str:
    """Return a chart, or a sentence where there is nothing to draw."""
    if any(line.whole.count for line in series):
        return panel(title, rate_chart(series, period, name=title), lead=lead, kind="half")
    n = sum(line.whole.n for line in series)
    return panel(title, f"<p>Never, in {counted(n, 'exchange')}.</p>", lead=lead, kind="half")


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
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>{link}'


def _models_table(frame: PageFrame, rows: Sequence[Shares]) -> str:
    heads = ("Model", "Exchanges", "Not answered", f"Refused,{PERCENT}", f"Filtered,{PERCENT}", f"Denied,{PERCENT}")
    body = "".join(_model_row(frame, row, heads) for row in rows)
    head = "".join(f'<th scope="col"{"" if name == "Model" else " class=num"}>{name}</th>' for name in heads)
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Rates by model">'
        f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


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
