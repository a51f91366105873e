"""What the numbers of a comparison mean, in words.

The first sentence of a report holds both rates, the difference, its interval, p and n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.comparison import Change, Pairing
from demur.model.estimate import Direction, Flag, Severity
from demur.report.numbers import PERCENT, chance_is, level, percent, points, points_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.comparison import Comparison, Flip
    from demur.model.estimate import Difference, Rate
    from demur.model.labels import CorrectedRate
    from demur.model.run import RunSummary

__all__ = [
    "CHANGE_WORDS",
    "FLAG_WORDS",
    "SEVERITY_WORDS",
    "capitalised",
    "change_sentence",
    "counted",
    "counted_words",
    "difference_words",
    "flip_words",
    "meaning",
    "shown_rates",
    "size_words",
    "subject",
    "unread_warning",
]

CHANGE_WORDS = {
    Change.INCREASED: "increased",
    Change.DECREASED: "decreased",
    Change.EQUIVALENT: "equivalent",
    Change.INCONCLUSIVE: "inconclusive",
}
SEVERITY_WORDS = {
    Severity.NONE: "no difference",
    Severity.MINOR: "below 5 points, or not told apart from zero",
    Severity.MODERATE: "5 to 15 points",
    Severity.SEVERE: "15 points or more",
}
FLAG_WORDS = {
    Flag.LOW_POWER: "There are fewer than five pairs: hardly any change could be seen.",
    Flag.CI_CROSSES_ZERO: "The interval behind the severity reaches to both sides of zero.",
    Flag.FEW_DISCORDANT: "Fewer than five pairs flipped, and five flips one way are the least that can prove a change.",
    Flag.UNDERPOWERED: "The minimum detectable difference is above 15 points (80 % power).",
    Flag.BOUNDARY_RATE: "A rate is 0 or 100 %: the true one may still lie anywhere in its interval.",
    Flag.CLUSTERED: "Rows come in groups that move together; intervals and p count groups, not rows.",
    Flag.DETECTOR_UNCALIBRATED: (
        "Not enough labels of people (`demur label`) correct for the detector's own errors: if a run refuses in words the detector knows less "
        "well, that shows here as a change."
    ),
    Flag.UNPAIRED: "The runs are not paired, so a difference may come from other questions being asked.",
}
WARN_UNREAD_ABOVE = 0.01
"""The share of unread responses above which a report warns."""
UNREAD_WORDS = {
    "unknown_part": "of an unknown part type",
    "not_text": "with something else where the text should be",
    "not_stored": "whose text was not stored",
    "language": "in a language that the detector does not cover",
}
# Never better or worse: only people know whether a refusal was right.
_SENTENCES = {
    Change.INCREASED: "{What} increased",
    Change.DECREASED: "{What} decreased",
    Change.EQUIVALENT: "Rates of {what} are equivalent within {margin} points",
    Change.INCONCLUSIVE: "Inconclusive whether {what} changed",
}
# What is compared where it is not refusals, by the outcomes that count.
_SUBJECTS: dict[tuple[str, ...], str] = {("filtered",): "filtered answers", ("denied",): "denials"}
# Without pairs the questions may differ as well, so the change alone cannot be blamed on the model.
_UNPAIRED = {
    Change.INCREASED: "An increase is possible over-refusal, or other questions were asked: look at the exchanges themselves.",
    Change.DECREASED: "A decrease means lost refusals, or other questions were asked: look at the exchanges themselves.",
}


def counted(count: int, noun: str) -> str:
    """Return `1 pair` or `1,200 pairs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def unread_warning(run: RunSummary, name: str) -> str | None:
    """Return the warning about responses of a run that could not be read, None where there are none worth one."""
    share = run.share("unread")
    if share <= WARN_UNREAD_ABOVE:
        return None
    causes = dict(run.causes)
    why = ", ".join(f"{causes[cause]:,} {words}" for cause, words in UNREAD_WORDS.items() if causes.get(cause))
    number = counted(dict(run.outcomes)["unread"], "response")
    examples = "; ".join(f"{e.source if e.line is None else f'{e.source}:{e.line}'}: {e.detail}" for e in run.unread)
    told = f" For example {examples}." if examples else ""
    return f"{number} of {name} ({percent(share)}{PERCENT} of its rows) could not be read and count for nothing: {why}.{told}"


def counted_words(outcomes: Sequence[str], joint: str = " and ") -> str:
    """Return the outcomes that count as saying no, in words."""
    # A comparison counts at least one outcome, so there is always a last one.
    *most, last = outcomes
    return f"{', '.join(most)}{joint}{last}" if most else last


def capitalised(name: str) -> str:
    """Return words with a large first letter; a method that bears two people's names keeps both, joined by a dash."""
    return "\u2013".join(part[:1].upper() + part[1:] for part in name.split("-"))


def size_words(comparison: Comparison) -> str:
    """Return how much was compared: the pairs, or the rows of each run where there are none."""
    if comparison.tally.pairing is Pairing.NONE:
        return f"{comparison.baseline.n:,} and {comparison.candidate.n:,} answers, not paired"
    pairs = counted(comparison.difference.n, "pair")
    by = comparison.correction if comparison.labels_decide else None
    return pairs if by is None else f"{pairs}, by the labels of {by.labelled:,} of them"


def shown_rates(comparison: Comparison) -> tuple[Rate | CorrectedRate, Rate | CorrectedRate]:
    """Return the rates of both runs: those of people's labels where they decide."""
    if comparison.correction is not None and comparison.labels_decide:
        return comparison.correction.baseline, comparison.correction.candidate
    return comparison.baseline, comparison.candidate


def difference_words(difference: Difference) -> str:
    """Return a difference with interval and p: `+7.0 points (95 % +0.6 to +14.6), p = 0.039`."""
    interval = difference.interval
    ends = points_range(interval.low, interval.high)
    return f"{points(difference.value)} points ({level(interval)} {ends}), {chance_is('p', difference.p)}"


def subject(comparison: Comparison) -> str:
    """Return what is compared: refusals, unless only what others kept back is counted."""
    return _SUBJECTS.get(comparison.tally.counted, "refusals")


def change_sentence(comparison: Comparison) -> str:
    """Return what was found, with all of its figures."""
    before, after = shown_rates(comparison)
    rates = f"{percent(before.value)}{PERCENT} → {percent(after.value)}{PERCENT}"
    what = subject(comparison)
    margin = percent(comparison.settings.margin)
    said = _SENTENCES[comparison.decision.change].format(what=what, What=capitalised(what), margin=margin)
    return f"{said}: {rates}, {difference_words(comparison.difference)}, {size_words(comparison)}."


def meaning(comparison: Comparison) -> tuple[str, ...]:  # noqa: PLR0911 — one return for each decision
    """Return what follows from the decision: how to read it, or what would settle it."""
    if comparison.doubts:
        return tuple(f"{doubt[:1].upper()}{doubt[1:]}." for doubt in comparison.doubts)
    change = comparison.decision.change
    if comparison.settings.sequential:
        return (_sequential_words(comparison),)
    if comparison.tally.pairing is Pairing.NONE and change in _UNPAIRED:
        return (_UNPAIRED[change],)
    match change:
        case Change.INCREASED:
            return (
                "An increase is possible over-refusal: see below whether the newly refused questions deserve an answer.",
            )
        case Change.DECREASED:
            return (
                "A decrease means lost refusals: see below whether the newly answered questions deserve a refusal.",
            )
        case Change.EQUIVALENT:
            return _turnover(comparison)
        case Change.INCONCLUSIVE:
            return _inconclusive(comparison)


def _inconclusive(comparison: Comparison) -> tuple[str, ...]:
    """Return why nothing can be said, and what would settle it."""
    power, margin = comparison.power, percent(comparison.settings.margin)
    unit = "answers a run" if comparison.tally.pairing is Pairing.NONE else "pairs"
    seen = "So few cannot show a difference of any size with 80 % power."
    if power.mde is not None:
        seen = f"The minimum detectable difference is {percent(power.mde)} points (80 % power); a smaller one may hide here."
    reason = f"{comparison.decision.reason[:1].upper()}{comparison.decision.reason[1:]}."
    if comparison.correction is not None and comparison.labels_decide:
        more = comparison.correction.more
        return (reason,) if more is None else (reason, f"About {more:,} more labels would settle it.")
    if power.n_to_settle is None:
        return (reason, seen)
    needed = f"About {power.n_to_settle:,} {unit} would settle it for a margin of {margin} points (80 % power)."
    return (reason, seen, needed)


def _sequential_words(comparison: Comparison) -> str:
    """Return how the evidence stands, for whoever may stop here."""
    evidence, enough = comparison.tally.evidence, 1 / comparison.settings.alpha
    if evidence is None:
        return "Interval and p hold however often one looks."
    if evidence.proven_at is not None:
        return f"The change was proven at pair {evidence.proven_at:,} of {evidence.pairs:,}; this holds however often one looks."
    found = f"{evidence.highest:.3g}" if evidence.highest < enough else "enough"
    return f"The evidence of a change after {counted(evidence.pairs, 'pair')} is {found}; {enough:g} are needed. This holds however often one looks."


def _turnover(comparison: Comparison) -> tuple[str, ...]:
    """Return how many refusals are others than before, where the rates are alike."""
    reason, counts = (
        f"{comparison.decision.reason[:1].upper()}{comparison.decision.reason[1:]}.",
        comparison.tally.counts,
    )
    if comparison.tally.pairing is Pairing.NONE or counts.kept is None or not counts.discordant:
        return (reason,)
    lost, new = f"{counts.baseline_only:,} refusals were lost", f"{counts.candidate_only:,} are new"
    return (reason, f"The rates are alike, the refusals need not be: {lost} and {new}.")


def flip_words(flip: Flip) -> str:
    """Return which way a pair flipped."""
    return "newly refused" if flip.direction is Direction.INCREASE else "no longer refused"
