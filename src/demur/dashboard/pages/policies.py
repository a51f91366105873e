"""Which rules fired, and how the store is.

Laws: a share says of how many; a policy in the shadow is shown beside the one in force, or it is said that none is known of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.dashboard.pages.charts import when
from demur.dashboard.pages.frame import href, panel
from demur.dashboard.pages.overview import period_words, range_links, reach_note
from demur.dashboard.pages.sessions import decision_tag
from demur.report.diff_words import counted
from demur.report.html.blocks import scrolled
from demur.report.markup import escaped
from demur.report.numbers import PERCENT, UNKNOWN, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.dashboard.pages.frame import PageFrame
    from demur.dashboard.pages.values import AuditorHealth, FiredCount, HealthPage, PoliciesPage, ShadowCount

__all__ = ["health_page", "policies_page"]

_DIGEST_SHOWN = 16
_STATUSES = ("ok", "timeout", "error", "skipped")


def policies_page(frame: PageFrame, shown: PoliciesPage) -> str:
    """Return which rules fired."""
    aside = range_links(f"{frame.base}policies", shown.period, more={}) if shown.period.buckets else ""
    return frame.page(
        "Policies", _policies_parts(frame, shown), current="policies", lead=period_words(shown.period), aside=aside
    )


def _policies_parts(frame: PageFrame, shown: PoliciesPage) -> Iterator[str]:
    yield '<div class="panels">'
    lead = f"of {counted(shown.exchanges, 'exchange')}; a rule can fire in several phases of one"
    yield panel("Rules that fired", _rules_table(frame, shown) + reach_note(shown.reach), lead=lead)
    yield panel(
        "Shadow", _shadow(shown.shadow), kind="half", lead="what a policy that is not yet in force would have decided"
    )
    rows = "".join(
        f'<tr><th scope="row"><code title="{escaped(digest)}">{escaped(digest[:_DIGEST_SHOWN])}…</code></th><td>{n:,}</td></tr>'
        for digest, n in shown.policies
    )
    head = '<tr><th scope="col">Digest</th><th scope="col">Exchanges</th></tr>'
    table = (
        scrolled("Policy sets", f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>")
        if rows
        else "<p>None yet.</p>"
    )
    errors = (
        f'<p class="tag fails">{counted(shown.errors, "decision")} met an error</p>'
        if shown.errors
        else "<p>No decision met an error.</p>"
    )
    yield panel(
        "Policy sets in force", table + errors, kind="half", lead="replay one with demur passport verify --policy"
    )
    yield "</div>"


def _rules_table(frame: PageFrame, shown: PoliciesPage) -> str:
    if not shown.rules:
        return "<p>No rule fired in this period.</p>"
    heads = ("Rule", "Effect", "Phase", "Times", f"Of exchanges,{PERCENT}", "Reason")
    rows = "".join(_rule_row(frame, row, shown.exchanges, heads=heads) for row in shown.rules)
    head = "".join(f'<th scope="col"{" class=num" if name in heads[3:5] else ""}>{name}</th>' for name in heads)
    table = f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return scrolled("Rules that fired", table)


def _rule_row(frame: PageFrame, row: FiredCount, exchanges: int, *, heads: Sequence[str]) -> str:
    share = percent(row.n / exchanges) if exchanges else UNKNOWN
    return (
        f'<tr><th scope="row"><a href="{href(f"{frame.base}sessions", {"rule": row.rule})}">{escaped(row.rule)}</a></th>'
        f"<td>{decision_tag(row.effect)}</td><td>{escaped(row.phase)}</td>"
        f'<td class="num" data-head="{heads[3]}">{row.n:,}</td><td class="num" data-head="{heads[4]}">{share}</td>'
        f'<td class="words">{escaped(row.reason or UNKNOWN)}</td></tr>'
    )


def _shadow(rows: Sequence[ShadowCount] | None) -> str:
    if rows is None:
        return "<p>No policy is known to run in the shadow; passports hold the decisions in force alone.</p>"
    disagreed = [row for row in rows if row.live != row.shadow]
    total = sum(row.n for row in rows)
    if not disagreed:
        return f"<p>No disagreement in {counted(total, 'decision')}.</p>"
    body = "".join(
        f'<tr><th scope="row">{escaped(row.phase)}</th><td class="words">{decision_tag(row.live)}</td>'
        f'<td class="words">{decision_tag(row.shadow)}</td><td>{row.n:,}</td></tr>'
        for row in disagreed
    )
    head = '<tr><th scope="col">Phase</th><th scope="col" class="words">In force</th><th scope="col" class="words">Shadow</th><th scope="col">Times</th></tr>'
    table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f'{scrolled("Disagreements", table)}<p class="reach">of {counted(total, "decision")}</p>'


def health_page(frame: PageFrame, shown: HealthPage) -> str:
    """Return how the store is."""
    return frame.page("Health", _health_parts(shown), current="health", lead=shown.origin)


def _health_parts(shown: HealthPage) -> Iterator[str]:
    yield '<div class="panels">'
    yield panel("Log", _log_facts(shown), kind="half")
    keys = "".join(
        f'<tr><th scope="row"><code>{escaped(key)}</code></th><td class="words">{escaped(when(start[:19]))}</td><td class="words">{escaped(when(end[:19]))}</td></tr>'
        for key, start, end in shown.keys
    )
    head = '<tr><th scope="col">Key</th><th scope="col" class="words">From</th><th scope="col" class="words">Until</th></tr>'
    table = (
        scrolled("Keys", f"<table><thead>{head}</thead><tbody>{keys}</tbody></table>")
        if keys
        else "<p>None lie beside the log; a gateway makes one when it first signs.</p>"
    )
    yield panel("Public keys", table, kind="half", lead="hand them over by a way that is not the log's own")
    yield panel(
        "Auditors",
        _auditors(shown.auditors) + reach_note(shown.reach),
        lead="how their turns ended, and how long they took",
    )
    yield "</div>"


def _log_facts(shown: HealthPage) -> str:
    covered = shown.checkpoint_size or 0
    after = shown.records - covered
    checkpoints = f"{shown.checkpoints:,}; the last covers {counted(covered, 'record')}" if covered else "none yet"
    rows = (
        ("Name", escaped(shown.origin)),
        ("Place", f"<code>{escaped(shown.place)}</code>"),
        ("Records", f"{shown.records:,}"),
        ("Root", f"<code>{escaped(shown.root)}</code>"),
        ("Last record", escaped(f"{when(shown.last_at[:19])} (UTC)") if shown.last_at else "none yet"),
        ("Checkpoints", checkpoints),
        (
            "After it",
            f"{counted(after, 'record')} whose order is not yet vouched for" if after else "no record",
        ),
        ("Texts", escaped(shown.texts)),
    )
    facts = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    check = '<p class="reach">The whole log is checked by <code>demur passport verify</code>.</p>'
    return f'<dl class="facts">{facts}</dl>{check}'


def _auditors(rows: Sequence[AuditorHealth]) -> str:
    if not rows:
        return "<p>No auditor is on record yet; each exchange adds the turns of those it was put to.</p>"
    heads = ("Auditor", "Turns", "Ok", "Timed out", "Failed", "Skipped", "Mean, ms", "Longest, ms")
    body = "".join(_auditor_row(row, heads) for row in rows)
    head = "".join(f'<th scope="col"{"" if name == "Auditor" else " class=num"}>{name}</th>' for name in heads)
    return scrolled("Auditors", f'<table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')


def _auditor_row(row: AuditorHealth, heads: Sequence[str]) -> str:
    ended = (f"{row.statuses.get(status, 0):,}" for status in _STATUSES)
    cells = (f"{row.calls:,}", *ended, f"{row.mean_us / 1000:,.2f}", f"{row.most_us / 1000:,.2f}")
    tds = "".join(
        f'<td class="num" data-head="{name}">{cell}</td>' for name, cell in zip(heads[1:], cells, strict=True)
    )
    return f'<tr><th scope="row">{escaped(row.name)}</th>{tds}</tr>'
