"""What pairs are worth that move together: turns of one session, or repeats of one prompt.

Notation: G clusters; cluster g has M pairs and net D of candidate-only less baseline-only abstentions; Δ = ΣD/n. Clusters are
independent of each other; within them nothing is assumed but that, without a change, a net is as likely one way as the other (nets that are 0 on
average but skewed break that: at few clusters they are rejected too often). Nothing is drawn at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from demur.errors import UsageError
from demur.measure.paired import agreeing_interval, tango_interval
from demur.measure.special import boundary, student_critical
from demur.model.estimate import Difference, Interval
from demur.model.sessions import SessionSums

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from demur.model.comparison import ClusterSum, PairCounts

    _Ints = npt.NDArray[np.int64]

__all__ = ["ClusterEffect", "cluster_effect", "clustered_difference", "min_clusters", "rate_sums", "sign_flip_midp"]

# Standard deviations, and largest steps, that the transform covers either way: beyond is less than 1e-20.
_SPREADS = 12
# Window times kinds of cluster: below, the convolution is exact; above, the saddlepoint approximation is used.
_MAX_WORK = 20_000_000


@dataclass(frozen=True, slots=True)
class ClusterEffect:
    """How many clusters, the standard error of Δ between them, the design effect and the pairs that the data are worth."""

    count: int
    standard_error: float
    design_effect: float
    effective_n: float


@dataclass(frozen=True, slots=True)
class _ClusterColumns:
    net: _Ints
    pairs: _Ints
    count: _Ints


def clustered_difference(
    counts: PairCounts, clusters: Sequence[ClusterSum], *, alpha: float = 0.05
) -> tuple[Difference, ClusterEffect]:
    """Return Δ with Tango's interval at the effective counts and t(G - 1), and the sign-flip mid-p, which agree about 0."""
    effect = cluster_effect(counts, clusters)
    # One cluster alone says nothing about the spread.
    low, high, p = -1.0, 1.0, 1.0
    if effect.count > 1:
        b, c, n = (k / effect.design_effect for k in (counts.baseline_only, counts.candidate_only, counts.n))
        interval = tango_interval(b, c, n, critical=student_critical(alpha, effect.count - 1))
        p = sign_flip_midp(clusters)
        low, high = agreeing_interval(interval, p=p, alpha=alpha, delta=counts.delta)
    return Difference(counts.delta, Interval(low, high, "tango, design effect", 1 - alpha), p, counts.n), effect


def rate_sums(clusters: Sequence[ClusterSum]) -> tuple[SessionSums, SessionSums] | None:
    """Return what the abstentions of each run add up to over clusters; None where some cluster does not say how many the baseline had."""
    if not clusters or any(cluster.before is None for cluster in clusters):
        return None
    sums = _cluster_columns(clusters)
    before = np.array([cluster.before for cluster in clusters], dtype=np.int64)
    # As floats: the square of a session of 10⁷ rows, a thousand times, is beyond 64 bits.
    sizes, count = sums.pairs.astype(np.float64), sums.count.astype(np.float64)
    first, second = (
        SessionSums(
            int(sums.count.sum()),
            int(sums.pairs @ sums.count),
            int(abstained @ sums.count),
            *(round(float((x * y) @ count)) for x, y in ((k, k), (k, sizes), (sizes, sizes))),
        )
        for abstained in (before, before + sums.net)
        for k in (abstained.astype(np.float64),)
    )
    return first, second


def cluster_effect(counts: PairCounts, clusters: Sequence[ClusterSum]) -> ClusterEffect:
    """Return the design effect: the variance of Δ between clusters (CR1) over that of as many single pairs, at least 1."""
    sums = _cluster_columns(clusters)
    n, net = counts.n, counts.candidate_only - counts.baseline_only
    if int(sums.pairs @ sums.count) != n or int(sums.net @ sums.count) != net:
        raise UsageError("the clusters do not add up to the pairs", hint="count every pair in one cluster")
    many = int(sums.count.sum())
    single = counts.discordant - net * net / n if n else 0.0
    # If no pair flipped, or all flipped one way, nothing shows how far pairs move together: each cluster counts as one pair.
    if many <= 1 or single <= 0:
        return ClusterEffect(many, 0.0, max(1.0, n / many) if many else 1.0, float(many))
    apart = float(((sums.net - sums.pairs * (net / n)) ** 2) @ sums.count) * many / (many - 1)
    effect = max(1.0, apart / single)
    return ClusterEffect(many, math.sqrt(apart) / n, effect, n / effect)


@lru_cache(maxsize=64)
def min_clusters(alpha: float) -> int:
    """Return the fewest clusters that can give p <= alpha: were all to move one way, p is 2^-G."""
    return math.ceil(-math.log2(alpha))


def sign_flip_midp(clusters: Sequence[ClusterSum]) -> float:
    """Return the two-sided mid-p of ΣD when each cluster's sign is as likely one way as the other.

    Where every cluster is one pair this is McNemar's. A sum of 0, and no cluster with a net: 1.
    """
    # The distribution of the sum is the convolution of all ±D, by Fourier transform of their histogram: a million clusters cost
    # what their kinds cost.
    sums = _cluster_columns(clusters)
    observed = abs(int(sums.net @ sums.count))
    if observed == 0:
        return 1.0
    size, where = np.unique(np.abs(sums.net[sums.net != 0]), return_inverse=True)
    count = np.bincount(where, weights=sums.count[sums.net != 0]).astype(np.int64)
    step = int(np.gcd.reduce(size))
    size, observed = size // step, observed // step
    if observed == int(size @ count):
        return math.ldexp(1.0, -int(count.sum()))
    return min(1.0, _tilted_tails(size, count, observed))


def _cluster_columns(clusters: Sequence[ClusterSum]) -> _ClusterColumns:
    flat = np.array([(c.net, c.pairs, c.count) for c in clusters], dtype=np.int64).reshape(-1, 3)
    return _ClusterColumns(flat[:, 0], flat[:, 1], flat[:, 2])


def _tilted_tails(size: _Ints, count: _Ints, observed: int) -> float:
    """Return P(|S| > observed) + P(S = observed) for S = Σ ± size, where 0 < observed < Σ size."""

    # The distribution is tilted exponentially, to have its mean, Σ size tanh(θ size), at `observed`, so that tails keep their
    # digits down to what a float can hold; any θ > 0 would be exact.
    def short(theta: float) -> bool:
        return float((size * np.tanh(theta * size)) @ count) < observed

    high = observed / float(size**2 @ count)
    while short(high):
        high *= 2
    tilt = boundary(short, high / 2 if short(high / 2) else 0.0, high)
    x = tilt * size
    # log cosh x, without the overflow of cosh.
    cumulant = float((x + np.log1p(np.exp(-2 * x)) - math.log(2)) @ count)
    narrow = 1 / np.cosh(np.minimum(x, 350.0)) ** 2
    spread = math.sqrt(float((size**2 * narrow) @ count))
    reach = min(int(size @ count), math.ceil(_SPREADS * spread) + 2 * _SPREADS * int(size.max()))
    window = 1 << reach.bit_length()
    if window * len(size) > _MAX_WORK:
        # Both tails by Lugannani and Rice (1980); next to the mean, where it is 0/0, 1.
        w = math.sqrt(max(0.0, 2 * (tilt * observed - cumulant)))
        u = tilt * spread
        if w < 1e-4 or u <= 0:  # noqa: PLR2004 - there p is 1 to four digits
            return 1.0
        density = math.exp(-w * w / 2) / math.sqrt(2 * math.pi)
        return math.erfc(w / math.sqrt(2)) + 2 * density * (1 / u - 1 / w)
    chances = _tilted_chances(size, count, observed, tilt=tilt, window=window)
    # S keeps the parity of its terms: the next value is two further. Past its largest value the far negative ones begin.
    above = min(window // 2, (int(size @ count) - observed) // 2 + 1)
    weights = 2 * np.exp(-2 * tilt * np.arange(above))
    weights[0] = 1.0
    return math.exp(cumulant - tilt * observed) * max(0.0, float(weights @ chances[:above]))


def _tilted_chances(size: _Ints, count: _Ints, observed: int, *, tilt: float, window: int) -> npt.NDArray[np.float64]:
    """Return the tilted probabilities of S = observed + 2j at index j; negative j are at the end."""
    k = np.arange(window, dtype=np.int64)
    log_size = np.zeros(window)
    # Angles are reduced as integers, so that a large sum costs them no digits.
    phase = -(k * observed % (2 * window)) * (np.pi / window)
    for d, times in zip(size.tolist(), count.tolist(), strict=True):
        angle = (k * d % (2 * window)) * (np.pi / window)
        sine, lean = np.sin(angle), math.tanh(tilt * d)
        with np.errstate(divide="ignore"):
            log_size += times / 2 * np.log1p(-(sine**2) * (1 - lean**2))
        phase += times * np.arctan2(sine * lean, np.cos(angle))
    return np.fft.fft(np.exp(log_size) * np.exp(1j * phase)).real / window
