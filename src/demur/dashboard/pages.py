"""The dashboard's pages: what a template cannot work out by itself, and the environment they are rendered in.

A page loads its style and its script from its own server and nothing else, and every link stays below the dashboard's own path.
Templates escape every value; nothing here is markup.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from demur.report.charts import EFFECT_WORDS, decision_chart, interval_words, ranking, rate_chart, share_words, when
from demur.report.diff_view import diff_view
from demur.report.diff_words import counted
from demur.report.html import environment, package_text
from demur.report.numbers import UNKNOWN, fraction, percent
from demur.report.view import Fact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

    from demur.dashboard.values import (
        ComparePage,
        ExchangePage,
        HealthPage,
        Overview,
        PoliciesPage,
        SessionPage,
        SessionsPage,
    )
    from demur.model.claim import ClaimValue
    from demur.model.passport import Passport
    from demur.report.charts import Period

__all__ = ["ASSETS", "CAUSES", "MEASURES", "Pages", "link"]

CAUSES = {
    "text_refusal": "model refused (text)",
    "provider_refusal": "model refused (signal)",
    "provider_filter": "provider filtered",
    "gateway_block": "gateway denied",
    "provider_error": "provider error",
    "empty": "empty answer",
    "unread": "answer not read",
}
MEASURES = {"refused": "model refused", "filtered": "provider filtered", "denied": "gateway denied"}
# Names of claims that our own auditors make; a log may hold none of them.
_VERDICT_CLAIMS = ("refusal_outcome", "refusal_score", "refusal_reason", "model_refused")
_ERROR_TITLES = {
    400: "That cannot be asked",
    404: "Not found",
    405: "Not this way",
    413: "Too long",
    503: "The store cannot be read",
}
_STYLE = package_text("demur.report", "report.css") + package_text("demur.dashboard", "dashboard.css")
_SCRIPT = package_text("demur.dashboard", "dashboard.js")


def _asset(stem: str, ending: str, text: str) -> str:
    # The name changes with the content, so that a browser may keep the file for ever.
    return f"{stem}-{sha256(text.encode()).hexdigest()[:12]}.{ending}"


_STYLE_NAME, _SCRIPT_NAME = _asset("style", "css", _STYLE), _asset("script", "js", _SCRIPT)
ASSETS = {
    _STYLE_NAME: ("text/css; charset=utf-8", _STYLE.encode()),
    _SCRIPT_NAME: ("text/javascript; charset=utf-8", _SCRIPT.encode()),
}
"""The two files that pages load: their media type and their bytes."""


def link(path: str, **values: object) -> str:
    """Return a link with its query, not yet escaped; what is empty is left out."""
    # Zero is a value: the first exchange of a session has the number 0.
    kept = {name: str(value) for name, value in values.items() if value not in ("", None)}
    return f"{path}?{urlencode(kept, quote_via=quote, safe='', errors='replace')}" if kept else path


@cache
def _templates() -> Environment:
    env = environment("demur.dashboard", "demur.report")
    env.filters |= {"fraction": fraction, "millis": lambda us: f"{us / 1000:,.2f}", "percent": percent}
    env.globals |= {
        "causes": CAUSES,
        "claim_words": _claim_words,
        "counted": counted,
        "decision_chart": decision_chart,
        "effects": EFFECT_WORDS,
        "href": link,
        "interval_words": interval_words,
        "measures": MEASURES,
        "named": _named,
        "ranking": ranking,
        "rate_chart": rate_chart,
        "script_name": _SCRIPT_NAME,
        "style_name": _STYLE_NAME,
        "unknown": UNKNOWN,
        "when": when,
    }
    return env


class Pages:
    """The pages of a dashboard below one base path; `can_leave` shows the way to log out."""

    def __init__(self, base: str = "/-/", *, can_leave: bool = False) -> None:
        self._base, self._can_leave = base, can_leave

    def _page(self, template: str, title: str, *, current: str = "", lead: str = "", **values: object) -> str:
        common = {"base": self._base, "can_leave": self._can_leave, "title": title, "current": current, "lead": lead}
        return _templates().get_template(template).render(common | values)

    def login(self, *, wrong: bool = False) -> str:
        """Return the page that asks for the token."""
        return self._page("login.html", "Log in", wrong=wrong)

    def error(self, status: int, what: str, hint: str = "") -> str:
        """Return the page that says what is wrong, in a sentence."""
        # No entry of the menu is the current one: an error belongs to none of its pages.
        title, lead = _ERROR_TITLES.get(status, "A fault of our own"), f"Status {status}"
        return self._page("error.html", title, current="-", lead=lead, what=what, hint=hint)

    def overview(self, shown: Overview) -> str:
        """Return the first page: how often the answer was no, and who said it."""
        lead = _period_words(shown.period) + (f", {shown.model}" if shown.model else "")
        rates = (("Model refused", shown.all.refused), ("Provider filtered", shown.all.filtered))
        gaps = f"{sum(gap.n for gap in shown.gaps):,}"
        read = "in this period" if shown.reach.whole else "in what was read so far"
        figures = [
            Fact(
                "Exchanges",
                f"{shown.all.exchanges:,}",
                f"{shown.all.unanswered:,} not answered by a provider, {shown.all.unjudged:,} empty or unread",
            )
        ]
        for name, rate in (*rates, ("Gateway denied", shown.all.denied)):
            # A rate is never shown without its interval and n.
            note = f"{rate.count:,} of {rate.n:,}\n95 %: {interval_words(rate)}" if rate.n else "nothing to count"
            figures.append(Fact(name, share_words(rate), note))
        figures.append(Fact("Enforcement gaps", gaps, read))
        lead = lead if shown.period.buckets else "no exchange on record"
        return self._page("overview.html", "Overview", lead=lead, shown=shown, figures=figures)

    def sessions(self, shown: SessionsPage) -> str:
        """Return a page of the list of sessions."""
        newest = "the newest exchange of its session; earlier ones may say otherwise"
        lead = f"{counted(shown.total, 'record')}; a row shows {newest if shown.asked.idle else 'the newest that fits'}"
        values = asdict(shown.asked) | {"q": shown.asked.search, "search": "", "gaps": "1" if shown.asked.gaps else ""}
        return self._page("sessions.html", "Sessions", current="sessions", lead=lead, shown=shown, values=values)

    def session(self, shown: SessionPage) -> str:
        """Return the exchanges of one session."""
        lead = f"{counted(shown.total, 'exchange')}, newest first"
        return self._page("session.html", "Session", current="sessions", lead=lead, shown=shown)

    def exchange(self, shown: ExchangePage) -> str:
        """Return one exchange: what was decided and why, whether its passport holds, and its texts where they may be shown."""
        passport = shown.passport
        # An exchange without a phase was allowed: nothing was there to decide otherwise.
        effect = max((phase.decision.effect for phase in passport.phases), default=None)
        model = passport.model_served or passport.model_asked
        asked = f" (asked for {passport.model_asked})" if model != passport.model_asked else ""
        provider, ended = "never asked", ", ".join(filter(None, passport.finish_reasons))
        if passport.upstream_status is not None:
            provider = f"status {passport.upstream_status}" + (f", finished by {ended}" if ended else "")
        return self._page(
            "exchange.html",
            f"Record #{shown.index}",
            current="sessions",
            lead=f"{when(passport.at[:19])} (UTC), {model}, number {passport.seq} of its session",
            shown=shown,
            decision="allow" if effect is None else effect.word,
            verdict=_claimed_verdict(passport),
            model=f"{model}{asked}" or UNKNOWN,
            provider=provider,
        )

    def compare(self, shown: ComparePage) -> str:
        """Return two periods or models beside each other, with the statistics of `demur diff`."""
        view = None if shown.comparison is None else diff_view(shown.comparison)
        return self._page(
            "compare.html",
            "Compare",
            current="compare",
            lead="the same statistics as demur diff, for exchanges that are not paired",
            shown=shown,
            view=view,
            blocks=[] if view is None else [(type(block).__name__, block) for block in view.blocks],
        )

    def policies(self, shown: PoliciesPage) -> str:
        """Return which rules fired."""
        return self._page(
            "policies.html", "Policies", current="policies", lead=_period_words(shown.period), shown=shown
        )

    def health(self, shown: HealthPage) -> str:
        """Return the state of the store."""
        return self._page("health.html", "Health", current="health", lead=shown.origin, shown=shown)


def _period_words(period: Period) -> str:
    if not period.buckets:
        return "no exchange on record"
    bounds = when(period.since) if period.since == period.until else f"{when(period.since)} to {when(period.until)}"
    return f"{bounds} (UTC), by {period.step}"


def _named(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return names as the options of a choice."""
    return [(name, name) for name in names]


def _claimed_verdict(passport: Passport) -> tuple[str, str]:
    """Return the outcome that the auditors stated when the exchange happened, if they did, and more about it."""
    claims = (claim for phase in passport.phases for claim in phase.claims if claim.name in _VERDICT_CLAIMS)
    # The page shows what was stated at the time; a later detector might judge the same text otherwise.
    said = {claim.name: claim.value for claim in claims}
    outcome, refused = said.get("refusal_outcome"), said.get("model_refused")
    if outcome is None:
        if refused is None:
            return "", "none: the model was never asked" if passport.upstream_status is None else "no claim states it"
        return "", "refused or filtered" if refused else "not refused"
    score, reason = said.get("refusal_score"), said.get("refusal_reason")
    more = [f"score {fraction(score)}"] if isinstance(score, float) else []
    more += [f"reason: {reason}"] if isinstance(reason, str) else []
    return str(outcome), ", ".join(more)


def _claim_words(value: ClaimValue) -> str:
    match value:
        case None:
            return UNKNOWN
        # Before the numbers: in Python a bool is an int.
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case tuple():
            return ", ".join(value) or "none"
        case _:
            return str(value)
