"""The report of `demur plan`: what each question needs, what half and twice as much would give, and what that rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.plan import Question
from demur.report.numbers import PERCENT, UNKNOWN, percent
from demur.report.view import Column, Fact, Facts, Headline, Note, NoteKind, Table, Tone, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.plan import Need, Plan, PlanPoint
    from demur.report.view import Block

__all__ = ["PLAN_SCHEMA", "plan_object", "plan_view"]

PLAN_SCHEMA = "demur-plan/1"
_UNITS = {Question.ESTIMATE: "responses", Question.CORRECT: "labels"}
_LABELS = {
    "rate": "baseline refusal rate",
    "churn": "flips without a change",
    "turns": "pairs in a session",
    "icc": "ICC of a session's turns",
    "errors": "changes misread",
}
_SHARES = frozenset({"rate", "churn", "errors"})
_ADDS = "a rise comes on top of the pairs that flip without a change"


def plan_view(plan: Plan) -> View:
    """Return what people see of a plan."""
    sentences = [_sentence(need, plan) for need in plan.needs]
    if plan.pairs is not None:
        sentences.append(_shown(plan))
    headline = Headline("PLAN", sentences[0], Tone.NEUTRAL, tuple(sentences[1:]))
    basis = plan.basis
    subtitle = f"{100 * basis.power:g}{PERCENT} power, {100 * (1 - basis.alpha):g}{PERCENT} intervals"
    return View("Plan", subtitle, headline, None, (), tuple(_blocks(plan)))


def plan_object(plan: Plan) -> dict[str, object]:
    """Return the plan as plain lists and dicts."""
    basis = plan.basis
    return {
        "schema": PLAN_SCHEMA,
        "alpha": basis.alpha,
        "power": basis.power,
        "assumptions": [{"name": a.name, "value": a.value, "source": a.source} for a in basis.assumptions],
        "needs": [
            {
                "question": str(need.question),
                "size": need.size,
                "unit": _UNITS.get(need.question, "pairs"),
                "count": need.count,
                "sessions": need.sessions,
                "curve": [{"count": p.count, "sessions": p.sessions, _measure(need): p.value} for p in need.curve],
            }
            for need in plan.needs
        ],
        "pairs": plan.pairs,
        "sessions": plan.sessions,
        "detectable": plan.detectable,
        "provable": plan.provable,
    }


def _measure(need: Need) -> str:
    return "width" if need.question in _UNITS else "power"


def _task(need: Need) -> str:
    size = f"{100 * need.size:.3g} points"
    match need.question:
        case Question.DETECT:
            return f"detect +{size}"
        case Question.PROVE:
            return f"prove less than +{size}"
        case Question.ESTIMATE:
            return f"estimate the rate to ±{size}"
        case Question.CORRECT:
            return f"correct the difference to ±{size}"


def _sentence(need: Need, plan: Plan) -> str:
    task = f"To {_task(need)}"
    if need.count is None:
        too_few = (
            "more pairs than these are needed first" if need.question is Question.CORRECT else "no number would do"
        )
        return f"{task}: {too_few}."
    if need.question is Question.CORRECT:
        return f"{task}: label {need.count:,} of the {plan.pairs:,} pairs."
    sessions = f" in {need.sessions:,} sessions" if need.sessions is not None else ""
    return f"{task}: {need.count:,} {_UNITS.get(need.question, 'pairs')}{sessions}."


def _shown(plan: Plan) -> str:
    """Return what the pairs at hand can show."""
    if plan.sessions is not None and plan.sessions < plan.min_sessions:
        return f"{plan.sessions:,} sessions cannot support a test at {100 * plan.basis.alpha:g}{PERCENT}: {plan.min_sessions} are the fewest."
    pairs = f"{plan.pairs:,} pairs" + (f" in {plan.sessions:,} sessions" if plan.sessions is not None else "")
    if plan.detectable is None:
        return f"{pairs} show no rise, however large."
    proven = "" if plan.provable is None else f", and prove less than +{percent(plan.provable)} if nothing changed"
    return f"{pairs} detect +{percent(plan.detectable)} points{proven}."


def _blocks(plan: Plan) -> Iterator[Block]:
    clustered = plan.basis.turns > 1
    if plan.needs:
        columns = [
            Column("", number=False),
            Column("needed"),
            Column("sessions"),
            Column("with half"),
            Column("with twice"),
        ]
        rows = []
        for need in plan.needs:
            half, twice = (need.curve[0], need.curve[-1]) if need.curve else (None, None)
            count = UNKNOWN if need.count is None else f"{need.count:,} {_UNITS.get(need.question, 'pairs')}"
            sessions = UNKNOWN if need.sessions is None else f"{need.sessions:,}"
            rows.append((_task(need), count, sessions, _gives(need, half), _gives(need, twice)))
        kept = [i for i in range(len(columns)) if clustered or i != 2]  # noqa: PLR2004 - the sessions
        cells = tuple(tuple(row[i] for i in kept) for row in rows)
        yield Table("What it needs", tuple(columns[i] for i in kept), cells, "power, or the half-width of the interval")
    hidden = set() if clustered else {"turns", "icc"}
    # A rate has no pairs that flip.
    if plan.pairs is None and all(need.question is Question.ESTIMATE for need in plan.needs):
        hidden.add("churn")
    known = [a for a in plan.basis.assumptions if a.value is not None and a.name not in hidden]
    yield Facts("What it rests on", tuple(Fact(_LABELS[a.name], _shape(a.name, a.value), a.source) for a in known))
    few = [need.sessions for need in plan.needs if need.sessions is not None and need.sessions < 2 * plan.min_sessions]
    if few:
        text = f"With {min(few):,} sessions one unusual session decides: more sessions of fewer turns say more."
        yield Note(NoteKind.WARNING, "few sessions", text)
    yield Note(NoteKind.HINT, "methods", f"{_capital(_methods(plan))}.")


def _methods(plan: Plan) -> str:
    asked = {need.question for need in plan.needs}
    parts = []
    if plan.pairs is not None or asked & {Question.DETECT, Question.PROVE}:
        parts.append(f"the power is that of the tests and intervals of demur diff; {_ADDS}")
    if Question.PROVE in asked:
        parts.append("no rise is proven where the whole interval is below the margin, if nothing changed")
    if Question.CORRECT in asked:
        parts.append("labels are of pairs drawn at random; a draw that favours flips needs fewer")
    if Question.ESTIMATE in asked:
        parts.append("a rate's interval is Wilson's")
    return "; ".join(parts)


def _gives(need: Need, point: PlanPoint | None) -> str:
    if point is None:
        return UNKNOWN
    return f"±{percent(point.value)} points" if need.question in _UNITS else f"{percent(point.value)}{PERCENT}"


def _shape(name: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{percent(value)}{PERCENT}" if name in _SHARES else f"{value:.3g}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
