"""One exchange: what was decided and why, what the auditors stated, whether its passport holds, and its texts where they may be shown.

Laws: a text stands here only where it was handed over to be shown; what was withheld is said to be; a check that was not made says so
as plainly as one that failed; nothing is merged: verdict, decision and cause stand apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.dashboard.pages.charts import when
from demur.dashboard.pages.frame import href, panel
from demur.dashboard.pages.sessions import CAUSES, decision_tag
from demur.dashboard.pages.values import CheckState
from demur.report.html.blocks import scrolled
from demur.report.markup import escaped, marked
from demur.report.numbers import UNKNOWN, fraction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.dashboard.pages.frame import PageFrame
    from demur.dashboard.pages.values import CheckLine, DisclosedText, ExchangePage
    from demur.model.claim import Claim, ClaimValue
    from demur.model.passport import Passport, PhaseRecord

__all__ = ["exchange_page"]

_STATES = {CheckState.HOLDS: "holds", CheckState.FAILS: "fails", CheckState.OPEN: "open"}
_VERDICT_CLAIMS = ("refusal_outcome", "refusal_score", "refusal_reason", "model_refused")


def exchange_page(frame: PageFrame, shown: ExchangePage) -> str:
    """Return the page."""
    passport = shown.passport
    lead = f"{when(passport.at[:19])} (UTC), {passport.model_served or passport.model_asked}, number {passport.seq} of its session"
    return frame.page(
        f"Record #{shown.index}", _exchange_parts(shown), current="sessions", lead=lead, aside=_ways(frame, shown)
    )


def _ways(frame: PageFrame, shown: ExchangePage) -> str:
    passport = shown.passport
    links = [(href(f"{frame.base}session", {"id": passport.session}), "Whole session")]
    if passport.seq:
        links.insert(
            0, (href(f"{frame.base}exchange", {"session": passport.session, "seq": str(passport.seq - 1)}), "← Before")
        )
    if passport.seq < shown.last_seq:
        links.append(
            (href(f"{frame.base}exchange", {"session": passport.session, "seq": str(passport.seq + 1)}), "After →")
        )
    return (
        '<nav class="ranges" aria-label="Session">'
        + "".join(f'<a href="{link}">{word}</a>' for link, word in links)
        + "</nav>"
    )


def _exchange_parts(shown: ExchangePage) -> Iterator[str]:
    passport = shown.passport
    yield '<div class="panels">'
    yield panel("What happened", _happened(shown), kind="half")
    failed = any(line.state is CheckState.FAILS for line in shown.checks)
    lead = "checked now, with the keys and checkpoints beside the log" + ("; something does not hold" if failed else "")
    yield panel(
        "Passport", f'<ul class="checks">{"".join(map(_check_line, shown.checks))}</ul>', kind="half", lead=lead
    )
    for phase in passport.phases:
        kind = "half" if len(passport.phases) > 1 else ""
        yield panel(f"{phase.phase.capitalize()}: decided", _phase(phase), kind=kind)
    yield from _text_panels(shown)
    yield panel("On record", _record_facts(shown), lead="what was signed; the texts are not in it")
    yield "</div>"


def _happened(shown: ExchangePage) -> str:
    passport = shown.passport
    causes = "".join(f'<span class="tag">{escaped(CAUSES.get(cause, cause))}</span> ' for cause in passport.causes)
    gaps = "".join(
        f'<span class="tag gap">{escaped(gap.what.replace("_", " "))} in {gap.phase}{f", {escaped(gap.auditor)}" if gap.auditor else ""}</span> '
        for gap in passport.gaps
    )
    effect = max((phase.decision.effect for phase in passport.phases), default=None)
    rows = [
        ("Decision", decision_tag("allow" if effect is None else effect.word)),
        ("Verdict", _claimed_verdict(passport)),
        ("Who said no", causes or "nobody: the answer went through"),
        ("Gaps", gaps or "none"),
        ("Model", escaped(_model_words(passport))),
        ("Provider", escaped(_provider_words(passport))),
    ]
    return _facts(rows)


def _facts(rows: list[tuple[str, str]]) -> str:
    return '<dl class="facts">' + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows) + "</dl>"


def _claimed_verdict(passport: Passport) -> str:
    """Return the verdict as the auditors stated it when the exchange happened."""
    said = {
        claim.name: claim.value for phase in passport.phases for claim in phase.claims if claim.name in _VERDICT_CLAIMS
    }
    outcome = said.get("refusal_outcome")
    if outcome is None:
        refused = said.get("model_refused")
        if refused is None:
            return "none: the model was never asked" if passport.upstream_status is None else "no claim states it"
        return "refused or filtered" if refused else "not refused"
    score, reason = said.get("refusal_score"), said.get("refusal_reason")
    more = [f"score {fraction(score)}"] if isinstance(score, float) else []
    more += [f"reason: {reason}"] if isinstance(reason, str) else []
    return f"<b>{escaped(str(outcome))}</b> {escaped(', '.join(more))}"


def _model_words(passport: Passport) -> str:
    if passport.model_served in (None, passport.model_asked):
        return passport.model_asked or UNKNOWN
    return f"{passport.model_served} (asked for {passport.model_asked})"


def _provider_words(passport: Passport) -> str:
    if passport.upstream_status is None:
        return "never asked"
    ended = ", ".join(filter(None, passport.finish_reasons))
    return f"status {passport.upstream_status}" + (f", finished by {ended}" if ended else "")


def _check_line(line: CheckLine) -> str:
    return f'<li><b>{escaped(line.name)}</b><span class="tag {_STATES[line.state]}">{line.state}</span><span>{escaped(line.what)}</span></li>'


def _phase(phase: PhaseRecord) -> str:
    decision = phase.decision
    rules = "".join(
        f'<tr><th scope="row">{escaped(rule.id)}</th><td class="words">{decision_tag(rule.effect.word)}</td>'
        f'<td class="words">{escaped(rule.reason or "no reason given")}<small>{escaped(rule.place or "")}</small></td></tr>'
        for rule in decision.rules
    )
    head = '<tr><th scope="col">Rule that fired</th><th scope="col" class="words">Effect</th><th scope="col" class="words">Why</th></tr>'
    fired = (
        scrolled(f"{phase.phase}: rules", f"<table><thead>{head}</thead><tbody>{rules}</tbody></table>")
        if rules
        else "<p>No rule fired.</p>"
    )
    errors = "".join(f'<p class="tag fails">{escaped(error)}</p>' for error in decision.errors)
    return f"<p>{decision_tag(decision.effect.word)}</p>{fired}{errors}<h3>Claims</h3>{_claims_table(phase)}<h3>Auditors</h3>{_auditors_table(phase)}{_coverage(phase)}"


def _claims_table(phase: PhaseRecord) -> str:
    withheld = {item.claim for item in phase.withheld}
    rows = "".join(
        f'<tr><th scope="row">{_breakable(claim.name)}</th><td class="words">{_value_words(claim, hidden=claim.name in withheld)}</td>'
        f'<td class="words">{escaped(claim.auditor)}</td></tr>'
        for claim in phase.claims
    )
    if not rows:
        return "<p>None stated.</p>"
    head = '<tr><th scope="col">Claim</th><th scope="col" class="words">Value</th><th scope="col" class="words">Auditor</th></tr>'
    return scrolled(f"{phase.phase}: claims", f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>")


def _breakable(name: str) -> str:
    """Return a name that a narrow screen breaks between its words, not inside of one."""
    return escaped(name).replace("_", "_<wbr>")


def _value_words(claim: Claim, *, hidden: bool) -> str:
    if hidden:
        return '<span class="soft">withheld; its digest is on record</span>'
    return escaped(_plain(claim.value))


def _plain(value: ClaimValue) -> str:
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case tuple():
            return ", ".join(value) or "none"
        case _:
            return str(value)


def _auditors_table(phase: PhaseRecord) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escaped(run.auditor)} {escaped(run.version)}</th><td class="words">{run.status}'
        f"{f', {escaped(run.failure_mode)}' if run.failure_mode else ''}</td><td>{run.took_us / 1000:,.2f} ms</td></tr>"
        for run in phase.auditors
    )
    if not rows:
        return "<p>None was asked.</p>"
    head = '<tr><th scope="col">Auditor</th><th scope="col" class="words">Ended</th><th scope="col">Took</th></tr>'
    return scrolled(f"{phase.phase}: auditors", f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>")


def _coverage(phase: PhaseRecord) -> str:
    seen = phase.coverage
    if seen is None:
        return ""
    return f'<p class="reach">{seen.mode}: {seen.scanned_bytes:,} of {seen.total_bytes:,} bytes scanned</p>'


def _text_panels(shown: ExchangePage) -> Iterator[str]:
    if not shown.texts_on:
        yield panel("Texts", "<p>Not shown: this dashboard was started without texts.</p>")
        return
    kind = "half" if len(shown.texts) > 1 else ""
    for text in shown.texts:
        yield panel(f"{text.name.capitalize()}: text", _text_body(text), kind=kind, lead=text.state)


def _text_body(text: DisclosedText) -> str:
    if text.text is None:
        return ""
    said = ""
    if text.verdict is not None:
        said = f"<p>Judged again now: <b>{text.verdict.outcome}</b>, score {fraction(text.verdict.score)}</p>"
    rules = "".join(f"<li>{escaped(line)}</li>" for line in dict.fromkeys(text.evidence))
    evidence = f'<ul class="evidence">{rules}</ul>' if rules else ""
    name = f"{text.name}, text"
    return f'{said}<pre tabindex="0" role="region" aria-label="{escaped(name)}">{marked(text.text, text.spans)}</pre>{evidence}'


def _record_facts(shown: ExchangePage) -> str:
    passport = shown.passport
    rows = [("Session", f'<span class="mono">{escaped(passport.session)}</span>')]
    for name, commitment in (("Request", passport.request), ("Response", passport.response)):
        told = (
            UNKNOWN
            if commitment is None
            else f"{commitment.size_bytes:,} bytes, commitment <code>{escaped(commitment.digest)}</code>"
        )
        rows.append((name, told))
    named = (("Leaf", shown.leaf), ("Key", shown.key_id or "unsigned"), ("Policy", passport.policy_digest))
    rows += [(name, f"<code>{escaped(value)}</code>") for name, value in (*named, ("Settings", passport.config_digest))]
    rows.append(
        (
            "Hardware",
            "no evidence: a signature says who, not on which machine"
            if passport.attestation is None
            else "evidence is attached",
        )
    )
    return _facts(rows)
