"""The learned lexicon's verdict on one text, with the phrases that led to it.

The score is the calibrated probability of a full refusal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import TYPE_CHECKING

from demur.detect.refusal.cues import Reader
from demur.detect.refusal.pack import CUES, Zone
from demur.detect.refusal.passage import take_passage
from demur.model.verdict import Cause, Finding, Outcome, Reason, Span, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from demur.detect.refusal.cues import Features
    from demur.detect.refusal.pack import ClassHit, RefusalPack
    from demur.model.verdict import NormalText

__all__ = ["RefusalDetector", "Thresholds", "bands", "reason_of", "sigmoid"]

_WORTH_TELLING = 0.05
_LITTLE = 0.1


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which score on a response is refused, and below which it is complied; in between it is `unsure`.

    None is the trained threshold, which also separates partial responses.
    """

    refused: float | None = None
    complied: float | None = None


@dataclass(frozen=True)
class RefusalDetector:
    """Judges views by one pack."""

    pack: RefusalPack
    thresholds: Thresholds = Thresholds()

    @cached_property
    def reader(self) -> Reader:
        """Reads features by this pack."""
        return Reader(self.pack)

    @cached_property
    def floor(self) -> Verdict:
        """The verdict on every response without a declining phrase."""
        linear = self.pack.bias + self.pack.cue_weights[CUES.index("nothing_refusing")]
        score = self.probability(linear)
        return Verdict(self.outcome(linear, score, 0.0), score, None, Cause.TEXT)

    def judge(self, view: NormalText) -> Verdict:
        """Return the verdict on a text's view, with findings in the original."""
        passage = take_passage(view.text)
        features = self.reader.read(passage)
        linear = self.pack.bias + _weighed(self.pack.weights, features.values)
        score = self.probability(linear)
        head = self.pack.partial
        near = sum(map(mul, head.bands, bands(linear)))
        partial = sigmoid(head.bias + near + _weighed(self.pack.partial_weights, features.values))
        outcome = self.outcome(linear, score, partial)
        reason = reason_of(self.pack, features.values) if outcome in _DECLINING else None
        findings = self._findings(features, view, passage.start)
        return Verdict(outcome, score, reason, Cause.TEXT, findings)

    def probability(self, linear: float) -> float:
        """Return the calibrated probability behind a linear score."""
        slope, offset = self.pack.calibration
        return sigmoid(slope * linear + offset)

    def outcome(self, linear: float, score: float, partial: float) -> Outcome:
        """Return the outcome for a linear score, its probability and the probability of a partial response."""
        limits, head = self.thresholds, self.pack.partial
        # A threshold of the user's own is about the score alone: the head for partial responses was trained with ours.
        if limits.refused is not None or limits.complied is not None:
            upper = limits.refused if limits.refused is not None else limits.complied
            lower = limits.complied if limits.complied is not None else limits.refused
            if score >= (upper or 0.0):
                return Outcome.REFUSED
            return Outcome.COMPLIED if score < (lower or 0.0) else Outcome.UNSURE
        # The head for partial responses overrules the linear score only where it is sure of its case.
        if linear > 0:
            return Outcome.PARTIAL if partial > head.instead_of_refused else Outcome.REFUSED
        return Outcome.PARTIAL if partial > head.instead_of_complied else Outcome.COMPLIED

    def _findings(self, features: Features, view: NormalText, start: int) -> tuple[Finding, ...]:
        """Return the phrases that moved the score, in the order of the text, then what the form of the response added."""
        # The weights add up to the linear score, except for those too small to report; above 0 is refused.
        pack, weights, hits = self.pack, self.pack.weights, features.hits
        added: dict[ClassHit, float] = {}
        for feature, hit in hits.items():
            added[hit] = added.get(hit, 0.0) + weights[feature]
        shape = pack.bias + sum([weights[k] * value for k, value in features.values.items() if k not in hits])
        found = [
            Finding(
                view.text[start + hit[0] : start + hit[1]].replace("\n", " "),
                pack.classes[hit[2]].name,
                round(weight, 4),
                view.span(start + hit[0], start + hit[1]),
            )
            for hit, weight in sorted(added.items())
            if abs(weight) >= _WORTH_TELLING
        ]
        return (*found, Finding("length, lists, what follows what", "shape", round(shape, 4), Span(0, 0)))


def _weighed(weights: Sequence[float], values: Mapping[int, float]) -> float:
    """Return the sum of the features' values, each times its weight."""
    products: Iterator[float] = map(mul, map(weights.__getitem__, values), values.values())
    return sum(products)


_DECLINING = frozenset({Outcome.REFUSED, Outcome.PARTIAL, Outcome.UNSURE})
_REASONS = (Reason.SAFETY, Reason.CAPABILITY)


def reason_of(pack: RefusalPack, features: Iterable[int]) -> Reason:
    """Return the reason that most of the evidence gives."""
    classes = [pack.classes[k // 4] for k in features if k < 4 * len(pack.classes) and k % 4 != Zone.QUOTED]
    # A class speaks for its reason with its weight in an opening, and at least a little: a phrase can name a reason clearly
    # and yet hardly move the score.
    held = {
        reason: sum(max(c.weights[Zone.ANY] + c.weights[Zone.OPENING], _LITTLE) for c in classes if c.reason == reason)
        for reason in _REASONS
    }
    best = max(_REASONS, key=held.__getitem__)
    if held[best] > 0:
        return best
    # A model that declines outright and names no reason ("I can't help with that") in practice declines for safety.
    return Reason.SAFETY if any("strong" in c.roles for c in classes) else Reason.OTHER


def bands(linear: float) -> tuple[float, float, float, float, float]:
    """Return how near a linear score is to the threshold, and on which side."""
    away = abs(linear)
    return (
        max(0.0, 1 - away / 2),
        max(0.0, 1 - away / 4),
        1.0 if linear > 0 else 0.0,
        min(max(linear / 4, 0.0), 1.5),
        min(max(-linear / 3, 0.0), 1.5),
    )


def sigmoid(value: float) -> float:
    """Return the logistic function."""
    # By tanh, which does not overflow for large arguments as exp does.
    return 0.5 * (1.0 + math.tanh(0.5 * value))
