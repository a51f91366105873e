"""From a pilot, or from stated numbers, to a plan: how many pairs, sessions and labels a question needs.

A pilot measures what it can: one run its refusal rate and how far rows of a session go together, two runs also how many pairs flip
anyway. What is stated beside a pilot fills the gaps and never overrules a measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.measure.plan import (
    Clusters,
    anova_icc,
    churn_of,
    clusters_of,
    labels_to_correct,
    min_clusters,
    minimum_detectable,
    minimum_provable,
    pairs_to_detect,
    pairs_to_prove,
    power_to_detect,
    power_to_prove,
    rows_to_estimate,
    width_of_correction,
    width_of_estimate,
)
from demur.measure.rates import wilson
from demur.model.plan import Assumption, Need, Plan, PlanBasis, PlanPoint, Question
from demur.model.verdict import NOT_JUDGED
from demur.runs.api import compare
from demur.runs.engine import open_engine
from demur.runs.options import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demur.model.comparison import Comparison, LabelledPair
    from demur.runs.engine import Engine

__all__ = ["MIN_PILOT", "Stated", "plan_basis", "plan_questions"]

MIN_PILOT = 30
"""Judged rows, or pairs, that a pilot needs: fewer say next to nothing about rates of a few percent."""
MIN_PILOT_SESSIONS = 10
MIN_PILOT_FLIPS = 5
MIN_PILOT_LABELS = 30
_LEAST_POWER = 0.5


@dataclass(frozen=True, slots=True)
class Stated:
    """What the user says of the runs to come; None where nothing is said."""

    rate: float | None = None
    churn: float | None = None
    turns: float | None = None
    icc: float | None = None
    sensitivity: float | None = None
    false_alarms: float | None = None


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a pilot shows, with how many of what it is from."""

    source: str
    rate: float
    rate_from: str
    churn: float | None = None
    churn_from: str = ""
    sessions: int = 0
    turns: float = 1.0
    icc: float | None = None
    icc_from: str = ""
    errors: float | None = None
    errors_from: str = ""


def plan_basis(
    stated: Stated,
    pilot: Sequence[str] = (),
    *,
    labels: str | None = None,
    labels_are_random: bool = False,
    alpha: float = 0.05,
    power: float = 0.8,
    reading: ReadOptions | None = None,
) -> PlanBasis:
    """Return what a plan rests on: what the pilot (none, one or two runs) measures, and what is stated beside it."""
    found = None
    if not alpha < power or power < _LEAST_POWER:
        raise UsageError(
            f"a power of {_points(power)} is a coin toss or less", hint="ask for 50 % or more, above alpha"
        )
    if labels and len(pilot) < 2:  # noqa: PLR2004 - a label is of a pair
        raise UsageError("`--labels` are of pairs", hint="give the two runs that they are of with --pilot")
    if len(pilot) == 1:
        found = _measure_run(pilot[0], reading or ReadOptions())
    elif pilot:
        compared = compare(*pilot, labels=labels, labels_are_random=labels_are_random, reading=reading, show=0)
        found = _measure_pair(compared, " and ".join(pilot))
    if found is not None:
        _check_overlap(stated, found)
    rate = _rate(stated, found)
    churn = _churn(stated, found, rate.value)
    turns, icc = _sessions(stated, found)
    errors = _errors(stated, found, rate.value)
    return PlanBasis(
        rate=rate.value,
        churn=churn.value,
        turns=turns.value or 1.0,
        icc=icc.value or 0.0,
        errors=errors.value,
        alpha=alpha,
        power=power,
        assumptions=(rate, churn, turns, icc, errors),
    )


def plan_questions(basis: PlanBasis, questions: Sequence[tuple[Question, float]], *, pairs: int | None = None) -> Plan:
    """Return what each question needs, and what a given number of pairs shows."""
    needs = tuple(_need(basis, question, size, pairs) for question, size in questions)
    least = min_clusters(basis.alpha)
    if pairs is None:
        return Plan(basis, needs, min_sessions=least)
    share = _known_churn(basis, "what pairs can show")
    sessions = _sessions_of(basis, pairs)
    clusters = None if sessions is None else Clusters(sessions, basis.icc)
    provable = None
    if clusters is None or clusters.count >= least:
        provable = minimum_provable(pairs, share, clusters=clusters, alpha=basis.alpha, power=basis.power)
    return Plan(
        basis,
        needs,
        pairs=pairs,
        sessions=sessions,
        min_sessions=least,
        detectable=minimum_detectable(pairs, share, clusters=clusters, alpha=basis.alpha, power=basis.power),
        provable=provable,
    )


def _need(basis: PlanBasis, question: Question, size: float, pairs: int | None) -> Need:
    turns, icc, alpha, power = basis.turns, basis.icc, basis.alpha, basis.power
    match question:
        case Question.DETECT:
            share = _known_churn(basis, "`--detect`")
            if basis.rate is not None and basis.rate + size > 1:
                what = f"refusals cannot rise by {_points(size)} from {_points(basis.rate)}"
                raise UsageError(what, hint="ask for a smaller rise")
            count = pairs_to_detect(size, share, turns=turns, icc=icc, alpha=alpha, power=power)
            return _with_curve(
                basis, question, size, count, lambda n, c: power_to_detect(n, size, share, clusters=c, alpha=alpha)
            )
        case Question.PROVE:
            share = _known_churn(basis, "`--prove-no-increase`")
            count = pairs_to_prove(size, share, turns=turns, icc=icc, alpha=alpha, power=power)
            return _with_curve(
                basis, question, size, count, lambda n, c: power_to_prove(n, size, share, clusters=c, alpha=alpha)
            )
        case Question.ESTIMATE:
            if (rate := basis.rate) is None:
                raise UsageError("`--estimate` needs the rate", hint="state --rate, or give a --pilot")
            count = rows_to_estimate(size, rate, turns=turns, icc=icc, alpha=alpha, power=power)
            return _with_curve(
                basis,
                question,
                size,
                count,
                lambda n, c: width_of_estimate(n, rate, clusters=c, alpha=alpha, power=power),
            )
        case Question.CORRECT:
            return _labels_needed(basis, size, pairs)


def _labels_needed(basis: PlanBasis, size: float, pairs: int | None) -> Need:
    share = _known_churn(basis, "`--correct`")
    if (errors := basis.errors) is None:
        hint = "state --sensitivity and --false-alarms, or give --labels of a pilot"
        raise UsageError("`--correct` needs to know how often the detector errs", hint=hint)
    if pairs is None:
        raise UsageError("`--correct` needs the number of pairs whose difference is corrected", hint="state --pairs")
    # Pairs of sessions are worth fewer: both numbers are scaled by the same design effect.
    design = 1 + (basis.turns - 1) * basis.icc
    count = labels_to_correct(size, errors, share=share, pairs=pairs / design, alpha=basis.alpha)
    if count is None:
        return Need(Question.CORRECT, size, None, None)
    labels = min(pairs, math.ceil(count * design))
    tried = [n for n in (labels // 2, labels, min(pairs, 2 * labels)) if n > 0]
    widths = (
        width_of_correction(n / design, errors, share=share, pairs=pairs / design, alpha=basis.alpha) for n in tried
    )
    curve = tuple(PlanPoint(n, None, width) for n, width in zip(tried, widths, strict=True))
    return Need(Question.CORRECT, size, labels, None, curve)


def _with_curve(
    basis: PlanBasis,
    question: Question,
    size: float,
    count: int | None,
    value: Callable[[float, Clusters | None], float],
) -> Need:
    if count is None:
        return Need(question, size, None, None)
    points = []
    for n in (count // 2, count, 2 * count):
        sessions = _sessions_of(basis, n)
        points.append(PlanPoint(n, sessions, value(n, None if sessions is None else Clusters(sessions, basis.icc))))
    return Need(question, size, count, _sessions_of(basis, count), tuple(points))


def _sessions_of(basis: PlanBasis, n: int) -> int | None:
    """Return how many sessions so many pairs make; None where each pair stands alone."""
    return max(1, round(n / basis.turns)) if basis.turns > 1 else None


def _known_churn(basis: PlanBasis, what: str) -> float:
    if basis.churn is None:
        raise UsageError(f"{what} needs the churn", hint="state --churn or --rate, or give two runs with --pilot")
    return basis.churn


def _measure_pair(comparison: Comparison, source: str) -> _Measured:
    counts, tally = comparison.tally.counts, comparison.tally
    _check_size(counts.n, "judged pairs", source)
    changed = comparison.difference.p <= comparison.settings.alpha
    how = _seen(counts.discordant, counts.n)
    if changed:
        fewer = min(counts.baseline_only, counts.candidate_only)
        how = f"twice the flips against the pilot's own change, {_seen(2 * fewer, counts.n)}"
    clusters = clusters_of(counts, tally.clusters)
    labelled = _label_errors(tally.labelled)
    return _Measured(
        source,
        (counts.both + counts.baseline_only) / counts.n,
        _seen(counts.both + counts.baseline_only, counts.n),
        churn_of(counts, changed=changed),
        how,
        sessions=clusters.count if clusters else 0,
        turns=counts.n / clusters.count if clusters else 1.0,
        icc=clusters.even_icc if clusters and _shows_icc(clusters.count, counts.discordant) else None,
        icc_from=f"the changes of {clusters.count:,} sessions" if clusters else "",
        errors=labelled,
        errors_from=f"{len(tally.labelled):,} labelled pairs",
    )


def _label_errors(labelled: Sequence[LabelledPair]) -> float | None:
    """Return the mean square by which the detector misreads a pair's change, never 0; None without labels."""
    if not labelled:
        return None
    if len(labelled) < MIN_PILOT_LABELS:
        what = f"{len(labelled):,} labelled pairs are too few to measure the detector's errors"
        raise UsageError(what, hint=f"{MIN_PILOT_LABELS} would do, or state --sensitivity and --false-alarms")
    # Pairs that were drawn more often than others count for less.
    weight = math.fsum(pair.weight for pair in labelled) / len(labelled)
    errors = math.fsum(pair.weight * (pair.human - pair.detector) ** 2 for pair in labelled) / weight
    return min(1.0, (errors + 1) / (len(labelled) + 2))


def _measure_run(name: str, options: ReadOptions) -> _Measured:
    with open_engine(jobs=options.jobs) as engine:
        run = engine.load_run("pilot", name, fields=(), options=options)
        groups = _session_counts(engine, run.table, options.counted_words)
    rows, refused = (sum(each[i] * each[2] for each in groups) for i in (1, 0))
    _check_size(rows, "judged rows", name)
    clustered = any(n > 1 for _, n, _ in groups)
    sessions = sum(times for _, _, times in groups) if clustered else 0
    sizes = Clusters(sessions, anova_icc(groups), tuple((n, times) for _, n, times in groups))
    return _Measured(
        name,
        refused / rows,
        _seen(refused, rows),
        sessions=sessions,
        turns=rows / sessions if sessions else 1.0,
        icc=sizes.even_icc if clustered and _shows_icc(sessions, min(refused, rows - refused)) else None,
        icc_from=f"the refusals of {sessions:,} sessions, as if their changes went together as much",
    )


def _session_counts(engine: Engine, table: str, counted: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return how many sessions of a run have so many abstained and judged rows: (abstained, judged, sessions)."""
    words, unjudged = (", ".join(f"'{word}'" for word in each) for each in (counted, NOT_JUDGED))
    # A row without a session stands alone.
    each = (
        f"SELECT sum(CASE WHEN outcome IN ({words}) THEN 1 ELSE 0 END) AS abstained, count(*) AS n FROM {table} "  # noqa: S608 - all of it is ours
        f"WHERE outcome IN ({words}) OR outcome NOT IN ({unjudged}) "
        "GROUP BY coalesce('v' || session, 'r' || CAST(rowid AS STRING))"
    )
    query = f"SELECT abstained, n, count(*) FROM ({each}) AS sessions GROUP BY abstained, n ORDER BY abstained, n"  # noqa: S608 - as above
    return [(int(abstained), int(n), int(times)) for abstained, n, times in engine.ask(query)]


def _shows_icc(sessions: int, events: int) -> bool:
    return sessions >= MIN_PILOT_SESSIONS and events >= MIN_PILOT_FLIPS


def _check_size(n: int, what: str, source: str) -> None:
    if n < MIN_PILOT:
        raise UsageError(f"the pilot `{source}` has {n:,} {what}, too few to plan by", hint=f"{MIN_PILOT} would do")


def _check_overlap(stated: Stated, found: _Measured) -> None:
    """Raise where something is stated that the pilot measures, or asked of sessions that it does not have."""
    both = {
        "--rate": stated.rate is not None,
        "--churn": stated.churn is not None and found.churn is not None,
        "--icc": stated.icc is not None and found.icc is not None,
        "--sensitivity": stated.sensitivity is not None and found.errors is not None,
        "--false-alarms": stated.false_alarms is not None and found.errors is not None,
    }
    for flag, given in both.items():
        if given:
            raise UsageError(f"`{flag}` is stated and measured by the pilot", hint=f"drop {flag}, or the pilot")
    if not found.sessions and (stated.turns is not None or stated.icc is not None):
        flag = "--turns" if stated.turns is not None else "--icc"
        hint = f"drop {flag}, or name the column of the sessions with --session-field"
        raise UsageError(f"`{flag}` is about sessions, and no row of the pilot `{found.source}` shares one", hint=hint)


def _rate(stated: Stated, found: _Measured | None) -> Assumption:
    if found is not None:
        return Assumption("rate", found.rate, f"measured: {found.rate_from}")
    return Assumption("rate", stated.rate, "not known" if stated.rate is None else "stated")


def _churn(stated: Stated, found: _Measured | None, rate: float | None) -> Assumption:
    if found is not None and found.churn is not None:
        return Assumption("churn", found.churn, f"measured: {found.churn_from}")
    if stated.churn is None:
        if rate is None:
            return Assumption("churn", None, "not known")
        return Assumption("churn", 2 * rate * (1 - rate), "assumed: as if the runs answered independently")
    # Of runs that refuse equally often, no more can flip either way than are refused, or answered.
    most = 1.0 if rate is None else 2 * min(rate, 1 - rate)
    if stated.churn > most:
        what = f"a churn of {_points(stated.churn)} cannot be at a rate of {_points(rate or 0.0)}"
        raise UsageError(what, hint=f"it is {_points(most)} at most")
    return Assumption("churn", stated.churn, "stated")


def _sessions(stated: Stated, found: _Measured | None) -> tuple[Assumption, Assumption]:
    """Return the pairs of a session and how far they go together."""
    if found is not None and found.sessions:
        icc = found.icc if found.icc is not None else stated.icc
        if icc is None:
            what = f"the pilot `{found.source}` shows too little to measure how turns of a session go together"
            hint = f"{MIN_PILOT_SESSIONS} sessions with {MIN_PILOT_FLIPS} flips or refusals would do, or state --icc"
            raise UsageError(what, hint=hint)
        source = f"measured: {found.icc_from}" if found.icc is not None else "stated"
        turns = found.turns if stated.turns is None else stated.turns
        said = f"measured: {found.sessions:,} sessions" if stated.turns is None else "stated"
        return Assumption("turns", turns, said), Assumption("icc", icc, source)
    if (stated.turns is None) != (stated.icc is None):
        given, other = ("--turns", "--icc") if stated.turns is not None else ("--icc", "--turns")
        raise UsageError(f"`{given}` says nothing without `{other}`", hint=f"state {other} too, or give a --pilot")
    if stated.turns is None:
        return Assumption("turns", 1.0, "every pair stands alone"), Assumption("icc", 0.0, "every pair stands alone")
    return Assumption("turns", stated.turns, "stated"), Assumption("icc", stated.icc, "stated")


def _errors(stated: Stated, found: _Measured | None, rate: float | None) -> Assumption:
    """Return the share of pairs whose change the detector misreads: its errors on both sides, taken as independent."""
    if found is not None and found.errors is not None:
        return Assumption("errors", found.errors, f"measured: {found.errors_from}")
    if stated.sensitivity is None and stated.false_alarms is None:
        return Assumption("errors", None, "not known")
    if stated.sensitivity is None or stated.false_alarms is None:
        given = "--sensitivity" if stated.sensitivity is not None else "--false-alarms"
        raise UsageError(f"`{given}` is half of what is needed", hint="state both --sensitivity and --false-alarms")
    if rate is None:
        raise UsageError("the detector's errors depend on the rate", hint="state --rate, or give a --pilot")
    missed, invented = rate * (1 - stated.sensitivity), (1 - rate) * stated.false_alarms
    said = f"stated: {_points(1 - stated.sensitivity)} of refusals missed, {_points(stated.false_alarms)} of the rest taken for one"
    return Assumption("errors", min(1.0, 2 * (missed + invented)), said)


def _seen(count: int, n: int) -> str:
    """Return a count with the interval of its share: how well a pilot of this size knows it."""
    interval = wilson(count, n).interval
    return f"{count:,} of {n:,}, 95 % {100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def _points(share: float) -> str:
    return f"{100 * share:.3g} %"
