"""What people's labels say of a rate or a difference, in words and as JSON; and what is missing where they do not decide yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.labels import LabelCorrection
from demur.report.numbers import fraction, percent
from demur.report.view import Fact, Facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.estimate import Interval
    from demur.model.labels import LabelSample, RateCorrection

__all__ = ["label_facts", "label_lines", "labels_object", "rate_ends"]


def rate_ends(interval: Interval) -> str:
    """Return both ends of a rate's interval."""
    return f"{percent(interval.low)} to {percent(interval.high)}"


def label_lines(correction: LabelCorrection | RateCorrection) -> list[str]:
    """Return, a sentence each, how the labels came about and what they changed."""
    return [f"{line[:1].upper()}{line[1:]}." for line in _lines(correction)]


def _lines(correction: LabelCorrection | RateCorrection) -> Iterator[str]:
    sample = correction.sample
    if correction.lacking is not None:
        yield f"{correction.lacking}: label more with `demur label`"
    yield f"{correction.labelled:,} of {sample.units:,} are labelled, {_origin(sample)}"
    yield _counted(correction)
    if sample.undecided:
        yield f"{sample.undecided:,} further labels say `other` and count for nothing"
    if sample.kappa is not None:
        yield f"agreement of {len(sample.annotators):,} annotators (Cohen's kappa): {fraction(sample.kappa)}"


def _origin(sample: LabelSample) -> str:
    if sample.drawn:
        return "drawn with known probabilities"
    return "taken for a random sample on the user's word (--labels-are-random): if they are not, nothing here holds"


def _counted(correction: LabelCorrection | RateCorrection) -> str:
    """Return how often people and the detector agree, in what matters."""
    noun, whole = (
        ("flips", correction.flips) if isinstance(correction, LabelCorrection) else ("refusals", correction.refusals)
    )
    found = f"and found {correction.found:,} that it missed"
    return f"people confirmed {correction.confirmed:,} of {whole - correction.found:,} labelled {noun} of the detector, {found}"


def label_facts(correction: LabelCorrection, before: str, after: str) -> Facts:
    """Return what the labels changed, and what they rest on; `before` and `after` are the differences in words."""
    sample = correction.sample
    rows = [
        Fact("before, the detector alone", before),
        Fact("after, by labels", after),
        Fact("pairs labelled", f"{correction.labelled:,} of {sample.units:,}", _origin(sample)),
        Fact("flips labelled", f"{correction.flips:,}", _counted(correction)),
    ]
    if correction.more is not None:
        settle = "about so many, drawn in the same way, if the shares stay as they are"
        rows.append(Fact("further labels to settle it", f"{correction.more:,}", settle))
    if sample.undecided:
        rows.append(Fact("other", f"{sample.undecided:,}", "labels that decide nothing, left out"))
    if sample.kappa is not None:
        rows.append(
            Fact("agreement", fraction(sample.kappa), f"Cohen's kappa of {len(sample.annotators):,} annotators")
        )
    return Facts("What the labels changed", tuple(rows))


def labels_object(correction: LabelCorrection | RateCorrection) -> dict[str, object]:
    """Return what is the same of every correction, as plain values."""
    sample = correction.sample
    return {
        "labelled": correction.labelled,
        "units": sample.units,
        "confirmed": correction.confirmed,
        "found": correction.found,
        "drawn": sample.drawn,
        "annotators": len(sample.annotators),
        "kappa": sample.kappa,
        "undecided": sample.undecided,
        "lacking": correction.lacking,
    }
