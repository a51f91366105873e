"""Which weights explain the labels, without straying from what is known beforehand?

Maximum a posteriori logistic regression: every weight is pulled to a prior and kept within bounds (a sign, a cap), so that
a set's topic or style cannot buy a weight that makes no sense. Convex, hence one solution, whatever the order of rows.

Laws: deterministic; a weight without evidence stays at its prior; the threshold is the lowest score that at most the
given share of negatives exceeds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Bounded", "Design", "Fitted", "balanced_weights", "fit_map", "platt", "quantile_threshold"]

Design = Any
"""A row for each text and a column for each weight: an array, or a sparse matrix, for which SciPy has no types."""

_BIAS_START = -5.0
_BIAS_PULL = 0.1
_ITERATIONS = 300


@dataclass(frozen=True, slots=True)
class Bounded:
    """What is known of a weight beforehand: where it lies, and between which values it stays."""

    prior: float
    lower: float | None = None
    upper: float | None = None

    @property
    def start(self) -> float:
        """The prior, moved into the bounds."""
        low = self.prior if self.lower is None else max(self.prior, self.lower)
        return low if self.upper is None else min(low, self.upper)


@dataclass(frozen=True, slots=True)
class Fitted:
    """The weights in the order of the columns, and the bias."""

    weights: Floats
    bias: float

    def scores(self, design: Design) -> Floats:
        """Return the linear score of every row."""
        return np.asarray(design @ self.weights + self.bias, dtype=np.float64)


def fit_map(
    design: Design,
    labels: Floats,
    *,
    row_weights: Floats,
    known: Sequence[Bounded],
    strength: float | Floats,
    bias: float = _BIAS_START,
) -> Fitted:
    """Return the weights that maximise the posterior; `strength` is the pull towards the priors, for all or for each."""
    prior = np.array([k.prior for k in known])

    def loss(values: Floats) -> tuple[float, Floats]:
        weights, offset = values[:-1], values[-1]
        scores = np.asarray(design @ weights + offset)
        away = weights - prior
        cost = row_weights @ np.logaddexp(0, np.where(labels > 0, -scores, scores))
        slope = row_weights * (_sigmoid(scores) - labels)
        total = cost + 0.5 * ((strength * away) @ away) + 0.5 * _BIAS_PULL * (offset - bias) ** 2
        to_bias = slope.sum() + _BIAS_PULL * (offset - bias)
        return float(total), np.append(design.T @ slope + strength * away, to_bias)

    start = np.append([k.start for k in known], bias)
    bounds = [(k.lower, k.upper) for k in known] + [(None, None)]
    done = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _ITERATIONS})
    return Fitted(done.x[:-1], float(done.x[-1]))


def balanced_weights(sets: Sequence[str], labels: Floats, *, negatives: float = 1.0, total: float = 700.0) -> Floats:
    """Return row weights that let a set count by the root of its size, and negatives `negatives` times as much in all."""
    sizes = Counter(zip(sets, labels.tolist(), strict=True))
    weights = np.array([sizes[key] ** -0.5 for key in zip(sets, labels.tolist(), strict=True)])
    for label, share in ((1.0, total), (0.0, total * negatives)):
        chosen = labels == label
        if chosen.any():
            weights[chosen] *= share / weights[chosen].sum()
    return weights


def quantile_threshold(scores: Floats, sets: Sequence[str], *, rate: float) -> float:
    """Return the score that the given share of negatives exceeds, where every set counts by the root of its size."""
    sizes = Counter(sets)
    weights = np.array([sizes[name] ** -0.5 for name in sets])
    order = np.argsort(-scores, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    return float(scores[order][np.searchsorted(share, rate)]) + 1e-6


def platt(margins: Floats, labels: Floats, *, row_weights: Floats) -> tuple[float, float]:
    """Return slope and offset that turn a margin into a probability; the slope is positive."""
    signs = np.where(labels > 0, -1.0, 1.0)

    def loss(values: Floats) -> float:
        return float(row_weights @ np.logaddexp(0, signs * (np.exp(values[0]) * margins + values[1])))

    slope, offset = minimize(loss, [0.0, 0.0]).x
    return float(np.exp(slope)), float(offset)


def _sigmoid(scores: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * scores)))
