"""How are the weights learned, and what do they reach on a set that they never saw?

Laws: a set is judged by weights, calibration and partial head that were fitted without it; one threshold (score 0) holds for
all sets; deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from demur_train.fit import Bounded, Fitted, fit_map, platt
from demur_train.refusals.priors import PARTIAL_BANDS, PARTIAL_PRIORS, known_weights
from demur_train.refusals.sets import COMPLIED, PARTIAL, REFUSED, TRAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from demur_train.refusals.grammar import Grammar
    from demur_train.refusals.sets import LabelledSet

    Floats = NDArray[np.float64]

__all__ = ["INSTEAD_OF_COMPLIED", "INSTEAD_OF_REFUSED", "PARTIAL_SETS", "Judged", "Learner", "Model"]

PARTIAL_SETS = ("xstest", "chatgpt", "korean")
_PARTIAL_WEIGHT = 0.3
_PARTIAL_STRENGTH = 0.1
_PARTIAL_BIAS = -2.0
INSTEAD_OF_REFUSED, INSTEAD_OF_COMPLIED = 0.7, 0.35


@dataclass(frozen=True)
class Model:
    """What is learned: the refusal head, its calibration, and the head for partial answers."""

    head: Fitted
    calibration: tuple[float, float]
    partial: Fitted


@dataclass(frozen=True)
class Judged:
    """A set as a model sees it."""

    of: LabelledSet
    scores: Floats
    probabilities: Floats
    outcomes: NDArray[np.int64]


class Learner:
    """Fits models on any choice of sets."""

    def __init__(self, grammar: Grammar, sets: Mapping[str, LabelledSet], names: tuple[str, ...]) -> None:
        self._sets = sets
        known = known_weights(grammar)
        self._known = [bounded for bounded, _ in known]
        self._strength = np.array([strength for _, strength in known])
        self.partial_names = tuple(name for name in PARTIAL_PRIORS if name in names)
        self._partial_columns = [names.index(name) for name in self.partial_names]

    def learn(self, train: Iterable[str]) -> Model:
        """Return a model of these sets; its calibration and partial head see only scores from outside each set."""
        chosen = tuple(train)
        outside = {
            name: self._head(n for n in chosen if n != name).scores(self._sets[name].features) for name in chosen
        }
        return Model(self._head(chosen), self._calibration(outside), self._partial(outside))

    def judge(self, model: Model, name: str) -> Judged:
        """Return the outcomes of a set under a model."""
        of = self._sets[name]
        scores = model.head.scores(of.features)
        slope, offset = model.calibration
        chance = _sigmoid(model.partial.scores(self._partial_design(of, scores)))
        refused = np.where(chance > INSTEAD_OF_REFUSED, PARTIAL, REFUSED)
        complied = np.where(chance > INSTEAD_OF_COMPLIED, PARTIAL, COMPLIED)
        return Judged(of, scores, _sigmoid(slope * scores + offset), np.where(scores > 0, refused, complied))

    def _head(self, train: Iterable[str]) -> Fitted:
        rows, labels, weights = [], [], []
        for name in train:
            of = self._sets[name]
            kept = of.labels >= 0
            share = np.where(of.labels == PARTIAL, _PARTIAL_WEIGHT, 1.0) * TRAIN[name][1] / len(of.labels)
            rows.append(of.features[kept])
            labels.append((of.labels[kept] == REFUSED).astype(np.float64))
            weights.append(share[kept])
        total = np.concatenate(weights)
        return fit_map(
            sparse.vstack(rows).tocsr(),
            np.concatenate(labels),
            row_weights=total,
            known=self._known,
            strength=self._strength * total.sum(),
            bias=0.0,
        )

    def _calibration(self, outside: Mapping[str, Floats]) -> tuple[float, float]:
        scores, labels, weights = [], [], []
        for name, all_scores in outside.items():
            of = self._sets[name]
            clear = (of.labels == COMPLIED) | (of.labels == REFUSED)
            scores.append(all_scores[clear])
            labels.append((of.labels[clear] == REFUSED).astype(np.float64))
            weights.append(np.full(clear.sum(), 1.0 / clear.sum()))
        return platt(np.concatenate(scores), np.concatenate(labels), row_weights=np.concatenate(weights))

    def _partial(self, outside: Mapping[str, Floats]) -> Fitted:
        rows, labels, weights = [], [], []
        for name in (n for n in PARTIAL_SETS if n in outside):
            of = self._sets[name]
            kept = of.labels >= 0
            rows.append(self._partial_design(of, outside[name])[kept])
            labels.append((of.labels[kept] == PARTIAL).astype(np.float64))
            weights.append(np.full(kept.sum(), 1000.0 / len(of.labels)))
        total = np.concatenate(weights)
        priors = [*(PARTIAL_PRIORS[name] for name in self.partial_names), *PARTIAL_BANDS]
        return fit_map(
            sparse.vstack(rows).tocsr(),
            np.concatenate(labels),
            row_weights=total,
            known=[Bounded(prior) for prior in priors],
            strength=_PARTIAL_STRENGTH * total.sum(),
            bias=_PARTIAL_BIAS,
        )

    def _partial_design(self, of: LabelledSet, scores: Floats) -> sparse.csr_matrix:
        return sparse.hstack([of.features[:, self._partial_columns], sparse.csr_matrix(_bands(scores))]).tocsr()


def _bands(scores: Floats) -> Floats:
    """Return how near a score is to the threshold, and on which side; `detect/refusal/detector.py` computes the same."""
    return np.stack(
        [
            np.clip(1 - abs(scores) / 2, 0, 1),
            np.clip(1 - abs(scores) / 4, 0, 1),
            (scores > 0).astype(np.float64),
            np.clip(scores / 4, 0, 1.5),
            np.clip(-scores / 3, 0, 1.5),
        ],
        axis=1,
    )


def _sigmoid(scores: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * scores)))
