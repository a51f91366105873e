"""How many pairs, sessions and labels a question needs, and what a number of them can show.

Every figure is the chance that the very test or interval of the report gives the wanted answer: McNemar's mid-p and Tango's interval for
pairs, the sign-flip test and the interval with t(G - 1) for sessions. A rise of δ comes on top of the pairs that flip anyway: of n pairs a
share ψ/2 + δ flips towards a refusal and ψ/2 away from it. Up to a thousand expected flips the chance is summed exactly, beyond that it is
the normal limit (Connor 1987, Biometrics 43:207). Sessions differ: each has flip rates of its own, Dirichlet distributed with the stated
intraclass correlation; their chance is simulated with a fixed seed, from a hundred sessions on it is the normal limit at the effective number of pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from demur.measure.clusters import cluster_effect, min_clusters
from demur.measure.paired import mcnemar_midp, tango_interval
from demur.measure.rates import wilson_bounds
from demur.measure.special import boundary, normal_critical, student_critical
from demur.model.comparison import Power

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from demur.model.comparison import ClusterSum, PairCounts

    _Floats = npt.NDArray[np.float64]
    _Flags = npt.NDArray[np.bool_]

__all__ = [
    "POWER",
    "Clusters",
    "anova_icc",
    "churn_of",
    "clusters_of",
    "labels_to_correct",
    "min_clusters",
    "minimum_detectable",
    "minimum_provable",
    "pairs_to_detect",
    "pairs_to_prove",
    "power_of",
    "power_to_detect",
    "power_to_prove",
    "rows_to_estimate",
    "smoothed_share",
    "width_of_correction",
    "width_of_estimate",
]

POWER = 0.8
_EXACT_FLIPS = 1000  # expected flips up to which the chance is summed, not taken from the normal limit
_SPREADS = 7  # standard deviations that the sum covers: beyond is less than 1e-11
_SIMULATED_CLUSTERS = 100  # beyond, the normal limit at the effective number of pairs
_DRAWS = 100_000  # simulated sessions in all, so that many sessions cost no more than few
_MOST_RUNS = 2500
_ALL_SIGNS = 11  # clusters up to which every pattern of signs is tried
_NEWTON_STEPS = 12
_SEED = 18
_TINY = 1e-9
_MOST_PAIRS = 1e9
_STEP = 1.25  # by which a search widens around its first guess
_FINE, _COARSE = 1e-3, 1e-2


@dataclass(frozen=True, slots=True)
class Clusters:
    """Into how many sessions (or other clusters) pairs fall, and the intraclass correlation of their changes.

    `sizes` are (pairs, how many such clusters) where they are known; without them pairs fall evenly.
    """

    count: int
    icc: float
    sizes: tuple[tuple[int, int], ...] = ()

    def mean_size(self, n: float) -> float:
        """Return how many pairs the cluster of a pair has on average, itself among them."""
        if not self.sizes:
            return n / self.count
        return sum(m * m * times for m, times in self.sizes) / sum(m * times for m, times in self.sizes)

    @property
    def even_icc(self) -> float:
        """The correlation at which as many clusters of one size would have the same design effect, at most 1."""
        pairs = sum(m * times for m, times in self.sizes)
        mean = pairs / self.count if pairs else 1.0
        return min(1.0, self.icc * (self.mean_size(pairs) - 1) / (mean - 1)) if mean > 1 else self.icc


def smoothed_share(discordant: int, n: int) -> float:
    """Return the share of pairs that flip, (b + c + 1)/(n + 2), which is never 0 or 1."""
    return (discordant + 1) / (n + 2)


def churn_of(counts: PairCounts, *, changed: bool) -> float:
    """Return the share of pairs that flip without a change, smoothed: all flips, or twice those against a change that is proven."""
    # What changed is not churn; of the churn, half is as likely as not against the change.
    fewer = min(counts.baseline_only, counts.candidate_only)
    return smoothed_share(2 * fewer if changed else counts.discordant, counts.n)


def clusters_of(counts: PairCounts, clusters: Sequence[ClusterSum]) -> Clusters | None:
    """Return how the pairs of a comparison cluster; None where each stands alone.

    The correlation, from 0 to 1, is the one that gives the design effect (Kish 1965). Where no pair flipped, or every pair one way, nothing shows
    it, and it is 1: each cluster counts as one pair.
    """
    if all(cluster.pairs <= 1 for cluster in clusters):
        return None
    effect = cluster_effect(counts, clusters)
    sizes = Counter[int]()
    for cluster in clusters:
        sizes[cluster.pairs] += cluster.count
    found = Clusters(effect.count, 1.0, tuple(sorted(sizes.items())))
    if counts.discordant - counts.n * counts.delta**2 <= 0:
        return found
    return replace(found, icc=min(1.0, (effect.design_effect - 1) / (found.mean_size(counts.n) - 1)))


def anova_icc(groups: Sequence[tuple[int, int, int]]) -> float:
    """Return the intraclass correlation of refusals, from (refused, rows, how many such clusters): the analysis of variance's, from 0 to 1.

    Fleiss, Levin and Paik 2003, Statistical Methods for Rates and Proportions, 15.2. One cluster, clusters of one row each, and no refusals or
    refusals alone: 0.
    """
    count, rows = sum(times for _, _, times in groups), sum(n * times for _, n, times in groups)
    refused = sum(k * times for k, _, times in groups)
    within = math.fsum(k * (n - k) / n * times for k, n, times in groups)
    if count < 2 or rows <= count or not 0 < refused < rows:  # noqa: PLR2004 - one cluster says nothing about the spread
        return 0.0
    between = math.fsum((k - n * refused / rows) ** 2 / n * times for k, n, times in groups) / (count - 1)
    within /= rows - count
    size = (rows - math.fsum(n * n * times for _, n, times in groups) / rows) / (count - 1)
    return min(1.0, max(0.0, (between - within) / (between + (size - 1) * within)))


def power_of(n: float, share: float, *, margin: float, alpha: float = 0.05, clusters: Clusters | None = None) -> Power:
    """Return the minimum detectable difference of n pairs, and the pairs that would settle a question of the margin's size.

    Settled means either answer: a rise as large as the margin is seen, and no change is shown to be within it. With too few clusters
    for a test both are None: more pairs of the same clusters would settle nothing. A margin of 0 is settled by no number of pairs.
    """
    if clusters is not None and clusters.count < min_clusters(alpha):
        return Power(None, None)
    enough = None
    if margin > 0:
        turns, icc = (clusters.mean_size(n), clusters.icc) if clusters else (1.0, 0.0)
        settled = (
            pairs_to_detect(margin, share, turns=turns, icc=icc, alpha=alpha),
            pairs_to_prove(margin, share, turns=turns, icc=icc, alpha=alpha, both=True),
        )
        enough = None if None in settled else max(filter(None, settled))
    return Power(minimum_detectable(n, share, clusters=clusters, alpha=alpha), enough)


def minimum_detectable(
    n: float, share: float, *, clusters: Clusters | None = None, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Return the smallest rise that n pairs show with this power; None where none would be seen.

    `share` of the pairs flip without a change. Fewer clusters than a test at alpha needs: None.
    """

    def seen(delta: float) -> bool:
        return power_to_detect(n, delta, share, clusters=clusters, alpha=alpha) >= power

    worth, spread = n / _design_effect(n, clusters), normal_critical(alpha) + NormalDist().inv_cdf(power)
    start = spread * math.sqrt((share + 0.05) / worth) if worth > 0 else 1.0
    return _least(seen, start=start, most=1.0, fine=_fineness(clusters))


def minimum_provable(
    n: float, share: float, *, clusters: Clusters | None = None, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Return the smallest margin below which the interval of n pairs ends with this power where nothing changed; None where none would do."""

    def proven(margin: float) -> bool:
        return power_to_prove(n, margin, share, clusters=clusters, alpha=alpha) >= power

    worth, spread = n / _design_effect(n, clusters), normal_critical(alpha) + NormalDist().inv_cdf(power)
    start = spread * math.sqrt((share + 0.05) / worth) if worth > 0 else 1.0
    return _least(proven, start=start, most=1 - _TINY, fine=_fineness(clusters))


def power_to_detect(
    n: float, delta: float, share: float, *, clusters: Clusters | None = None, alpha: float = 0.05
) -> float:
    """Return the chance that n pairs prove a rise of delta; 0 for n = 0."""
    up, down = _flip_rates(delta, share)
    if clusters is not None:
        if clusters.count < min_clusters(alpha):
            return 0.0
        if clusters.count <= _SIMULATED_CLUSTERS:
            nets, *_ = _simulate(n, up, down, clusters)
            return float(np.mean(_proves_rise(nets, alpha)))
        n /= _design_effect(n, clusters)
    if n * (up + down) <= _EXACT_FLIPS:
        lost, gained, chances = _flip_chances(round(n), up, down)
        critical = np.array([_fewest_gained(int(b), alpha) for b in lost])
        return float(chances[gained[None, :] >= critical[:, None]].sum())
    spread = math.sqrt(max(up + down - delta**2, 1e-300))
    return NormalDist().cdf((delta * math.sqrt(n) - normal_critical(alpha) * math.sqrt(up + down)) / spread)


def power_to_prove(
    n: float, margin: float, share: float, *, clusters: Clusters | None = None, alpha: float = 0.05, both: bool = False
) -> float:
    """Return the chance that the interval of n pairs ends below the margin (on `both` sides), where nothing changed; 0 for n = 0."""
    up, down = _flip_rates(0.0, share)
    critical = normal_critical(alpha)
    if round(n) < 1:
        return 0.0
    if clusters is not None:
        if clusters.count < 2:  # noqa: PLR2004 - one cluster says nothing about the spread
            return 0.0
        if clusters.count <= _SIMULATED_CLUSTERS:
            return float(np.mean(_simulated_within(n, share, clusters, margin=margin, alpha=alpha, both=both)))
        n /= _design_effect(n, clusters)
        critical = student_critical(alpha, clusters.count - 1)
    if n * share <= _EXACT_FLIPS:
        lost, gained, chances = _flip_chances(round(n), up, down)
        b, c = np.meshgrid(lost, gained, indexing="ij")
        return float(chances[_within(b, c, np.float64(round(n)), margin=margin, critical=critical, both=both)].sum())
    tested = math.sqrt(float(_score_variance(np.array(n * down), np.array(n * up), np.array(n), margin)))
    one = NormalDist().cdf((margin * math.sqrt(n) - critical * tested) / math.sqrt(share))
    return max(0.0, 2 * one - 1) if both else one


def pairs_to_detect(
    delta: float, share: float, *, turns: float = 1.0, icc: float = 0.0, alpha: float = 0.05, power: float = POWER
) -> int | None:
    """Return the pairs, in sessions of `turns`, that prove a rise of 0 < delta <= 1 with this power; None where no number would."""

    def enough(n: float, clusters: Clusters | None) -> bool:
        return power_to_detect(n, delta, share, clusters=clusters, alpha=alpha) >= power

    start = ((normal_critical(alpha) + NormalDist().inv_cdf(power)) / delta) ** 2 * (share + delta)
    return _fewest_pairs(enough, start=start, turns=turns, icc=icc, least=min_clusters(alpha))


def pairs_to_prove(
    margin: float,
    share: float,
    *,
    turns: float = 1.0,
    icc: float = 0.0,
    alpha: float = 0.05,
    power: float = POWER,
    both: bool = False,
) -> int | None:
    """Return the pairs, in sessions of `turns`, whose interval ends below the margin with this power where nothing changed."""

    def enough(n: float, clusters: Clusters | None) -> bool:
        return power_to_prove(n, margin, share, clusters=clusters, alpha=alpha, both=both) >= power

    # Even without a flip the interval is as wide as Wilson's of none.
    critical = normal_critical(alpha)
    start = max(critical**2 / margin, share * ((critical + NormalDist().inv_cdf(power)) / margin) ** 2)
    return _fewest_pairs(enough, start=start, turns=turns, icc=icc, least=2)


def _fewest_pairs(
    enough: Callable[[float, Clusters | None], bool], *, start: float, turns: float, icc: float, least: int
) -> int | None:
    """Return the fewest pairs that are enough, whole sessions where they have several turns; `start` is a guess for single ones."""
    clustered = turns > 1
    size = turns if clustered else 1.0

    def holds(units: float) -> bool:
        whole = math.ceil(units)
        return whole >= least and enough(whole * size, Clusters(whole, icc) if clustered else None)

    start *= (1 + (size - 1) * icc) / size
    fine = _fineness(Clusters(math.ceil(start), icc)) if clustered else _FINE
    found = _least(holds, start=max(start, least), most=_MOST_PAIRS, fine=fine)
    return None if found is None else math.ceil(math.ceil(found) * size)


def _fineness(clusters: Clusters | None) -> float:
    # A simulated chance is known to a point or so: to look closer would cost time and say nothing.
    return _FINE if clusters is None or clusters.count > _SIMULATED_CLUSTERS else _COARSE


def _least(holds: Callable[[float], bool], *, start: float, most: float, fine: float) -> float | None:
    """Return, to a factor of 1 + fine, the least value up to `most` at which `holds`, false below it and true above."""
    high = min(start, most)
    low = high
    if holds(high):
        while holds(low := high / _STEP):
            high = low
    else:
        while not holds(high):
            if high >= most:
                return None
            low, high = high, min(most, high * _STEP)
    while high > low * (1 + fine):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _flip_rates(delta: float, share: float) -> tuple[float, float]:
    """Return the shares of pairs that flip towards a refusal and away from it."""
    # A regression adds to the flips that happen anyway; taking it out of them would promise too much.
    flips = min(1.0, share + delta)
    return (flips + delta) / 2, (flips - delta) / 2


@lru_cache(maxsize=65_536)
def _fewest_gained(lost: int, alpha: float) -> int:
    """Return the fewest new refusals that prove a rise beside so many lost ones."""
    gained = lost + max(1, int(0.9 * normal_critical(alpha) * math.sqrt(2 * lost)))
    while gained > lost + 1 and mcnemar_midp(lost, gained - 1) <= alpha:
        gained -= 1
    while mcnemar_midp(lost, gained) > alpha:
        gained += 1
    return gained


def _flip_chances(n: int, up: float, down: float) -> tuple[_Floats, _Floats, _Floats]:
    """Return counts of lost and of new refusals, and the chance of each two together."""
    lost, gained = _window(n, down), _window(n, up)
    rest = n - lost[:, None] - gained[None, :]
    possible = rest >= 0
    logs = np.array([math.lgamma(k + 1) for k in range(int(max(rest.min(), 0)), int(rest.max()) + 1)])
    rest_log = logs[np.where(possible, rest - max(rest.min(), 0), 0).astype(np.int64)]
    stay = max(1 - up - down, 1e-300)
    each = (_log_weight(lost, down)[:, None] + _log_weight(gained, up)[None, :]) + (rest * math.log(stay) - rest_log)
    each = np.where(possible, each, -np.inf)
    chances = np.exp(each - each.max())
    return lost, gained, chances / chances.sum()


def _window(n: int, share: float) -> _Floats:
    """Return the counts of Bin(n, share) that are likely at all."""
    reach = _SPREADS * math.sqrt(n * share * (1 - share)) + _SPREADS
    return np.arange(max(0, math.floor(n * share - reach)), min(n, math.ceil(n * share + reach)) + 1, dtype=np.float64)


def _log_weight(counts: _Floats, share: float) -> _Floats:
    log = math.log(max(share, 1e-300))
    return np.array([k * log - math.lgamma(k + 1) for k in counts.tolist()])


def _design_effect(n: float, clusters: Clusters | None) -> float:
    return 1.0 if clusters is None else 1 + max(0.0, clusters.mean_size(n) - 1) * clusters.icc


def _simulate(n: float, up: float, down: float, clusters: Clusters) -> tuple[_Floats, _Floats, _Floats]:
    """Return nets and flips of clusters in simulated runs (a row each), and how many pairs each cluster has."""
    count, icc = clusters.count, min(clusters.icc, 0.999)
    runs = min(_MOST_RUNS, _DRAWS // count)
    if clusters.sizes:
        size = np.repeat(*np.array(clusters.sizes).T)
    else:
        size = np.full(count, round(n) // count)
        size[: round(n) % count] += 1
    # The same seed for every n and difference: what is compared in a search differs by them alone.
    rng = np.random.default_rng(_SEED)
    whole, towards, away = (runs, count), np.full((runs, count), up), np.full((runs, count), down / max(1 - up, _TINY))
    if icc > 0:
        # Dirichlet shares of the two kinds of flips and of the rest, one after the other (Mosimann 1962, Biometrika 49:65).
        k = (1 - icc) / icc
        back, stay = max(down, _TINY) * k, max(1 - up - down, _TINY) * k
        towards, away = rng.beta(max(up, _TINY) * k, back + stay, whole), rng.beta(back, stay, whole)
    gained = rng.binomial(size, towards)
    # Away from a refusal flips what did not flip towards one.
    lost = rng.binomial(size - gained, away)
    return (gained - lost).astype(np.float64), (gained + lost).astype(np.float64), size.astype(np.float64)


def _proves_rise(nets: _Floats, alpha: float) -> _Flags:
    """Return in which runs the sign-flip test proves a rise."""
    total, size = nets.sum(axis=1), np.abs(nets)
    if nets.shape[1] <= _ALL_SIGNS:
        signs = 1.0 - 2 * ((np.arange(1 << (nets.shape[1] - 1))[:, None] >> np.arange(nets.shape[1])) & 1)
        sums = np.abs(nets @ signs.T)
        p = (sums > total[:, None]).mean(axis=1) + (sums == total[:, None]).mean(axis=1) / 2
        few: _Flags = (total > 0) & (p <= alpha)
        return few
    one_way = (total > 0) & (total == size.sum(axis=1))
    mixed = (total > 0) & ~one_way
    proves: _Flags = one_way & (0.5 ** (size > 0).sum(axis=1) <= alpha)
    proves[mixed] = _saddlepoint_root(size[mixed], total[mixed]) >= normal_critical(alpha)
    return proves


def _saddlepoint_root(size: _Floats, total: _Floats) -> _Floats:
    """Return the normal quantile of the mid-p of Σ ± size at `total` (Barndorff-Nielsen 1986, Biometrika 73:307), for 0 < total < Σ size."""
    # Scaled, so that the largest is 1; Newton's steps from below never pass the root, since tanh is concave.
    scale = size.max(axis=1, keepdims=True)
    size, total = size / scale, total / scale[:, 0]
    tilt = total / (size**2).sum(axis=1)
    for _ in range(_NEWTON_STEPS):
        lean = np.tanh(tilt[:, None] * size)
        tilt = tilt + (total - (size * lean).sum(axis=1)) / np.maximum((size**2 * (1 - lean**2)).sum(axis=1), 1e-12)
        tilt = np.minimum(tilt, 300.0)
    x = tilt[:, None] * size
    cumulant = (x + np.log1p(np.exp(-2 * x)) - math.log(2)).sum(axis=1)
    spread = np.sqrt(np.maximum((size**2 / np.cosh(x) ** 2).sum(axis=1), 1e-300))
    w = np.sqrt(np.maximum(2 * (tilt * total - cumulant), 1e-12))
    root: _Floats = w + np.log(np.maximum(tilt * spread, 1e-300) / w) / w
    return root


def _simulated_within(n: float, share: float, clusters: Clusters, *, margin: float, alpha: float, both: bool) -> _Flags:
    """Return in which simulated runs the interval of clusters lies within the margin."""
    nets, flips, size = _simulate(n, *_flip_rates(0.0, share), clusters)
    pairs, count = size.sum(), clusters.count
    net, flipped = nets.sum(axis=1), flips.sum(axis=1)
    single = flipped - net**2 / pairs
    apart = ((nets - size * (net / pairs)[:, None]) ** 2).sum(axis=1) * count / (count - 1)
    # As in `clusters.cluster_effect`: without flips, or where all went one way, each cluster counts as one pair.
    effect = np.where(single > 0, np.maximum(1.0, apart / np.where(single > 0, single, 1.0)), max(1.0, pairs / count))
    lost, gained = (flipped - net) / 2 / effect, (flipped + net) / 2 / effect
    return _within(lost, gained, pairs / effect, margin=margin, critical=student_critical(alpha, count - 1), both=both)


def _within(b: _Floats, c: _Floats, n: _Floats | np.float64, *, margin: float, critical: float, both: bool) -> _Flags:
    """Return whether Tango's interval ends below the margin (and above its negative), for many tables at once."""

    def below(lost: _Floats, gained: _Floats) -> _Flags:
        return n * margin - (gained - lost) > critical * np.sqrt(n * _score_variance(lost, gained, n, margin))

    return below(b, c) & below(c, b) if both else below(b, c)


def _score_variance(b: _Floats, c: _Floats, n: _Floats | np.float64, d: float) -> _Floats:
    """Return the variance of one pair's difference where its mean is fixed at d > 0 and the rest fits best (Tango 1998)."""
    linear = (2 * n - c + b) * d - b - c
    constant = 2 * b * d * (1 - d)
    root = np.sqrt(linear * linear + 4 * n * constant)
    sums = np.maximum(linear + root, 1e-300)
    q = np.where(linear > 0, constant / sums, (root - linear) / (4 * n))
    return np.maximum(0.0, 2 * q + d * (1 - d))


def width_of_estimate(
    n: float, rate: float, *, clusters: Clusters | None = None, alpha: float = 0.05, power: float = POWER
) -> float:
    """Return the half-width that Wilson's interval of a rate keeps within, with this power, at n rows; 1/2 where nothing is known.

    Rows of clusters count at the effective n, with t(G - 1). rate = 0 or 1: the interval of no, or only, refusals.
    """
    level = 1 - alpha
    if clusters is not None:
        if clusters.count < 2:  # noqa: PLR2004 - one cluster says nothing about the spread
            return 0.5
        n /= _design_effect(n, clusters)
        level = 2 * NormalDist().cdf(student_critical(alpha, clusters.count - 1)) - 1
    if n <= 0:
        return 0.5
    # The interval is the wider the nearer the observed rate is to 1/2: allow for a rate that is passed as seldom as the power says.
    nearer = min(0.5, min(rate, 1 - rate) + NormalDist().inv_cdf(power) * math.sqrt(rate * (1 - rate) / n))
    low, high = wilson_bounds(nearer, n, level=min(level, 1 - 1e-12))
    return (high - low) / 2


def rows_to_estimate(
    width: float, rate: float, *, turns: float = 1.0, icc: float = 0.0, alpha: float = 0.05, power: float = POWER
) -> int | None:
    """Return the rows, in sessions of `turns`, whose interval of the rate is at most ± width, with this power."""

    def enough(n: float, clusters: Clusters | None) -> bool:
        return width_of_estimate(n, rate, clusters=clusters, alpha=alpha, power=power) <= width

    start = normal_critical(alpha) ** 2 * max(rate * (1 - rate), width) / width**2
    return _fewest_pairs(enough, start=start, turns=turns, icc=icc, least=2)


def labels_to_correct(width: float, errors: float, *, share: float, pairs: float, alpha: float = 0.05) -> int | None:
    """Return how many pairs to label, drawn at random, so that the corrected difference is known to ± width.

    None where more than all pairs would be needed. Assumptions as in `width_of_correction`.
    """

    def enough(n: float) -> bool:
        return width_of_correction(n, errors, share=share, pairs=pairs, alpha=alpha) <= width

    return math.ceil(boundary(enough, pairs, 1.0)) if enough(pairs) else None


def width_of_correction(n: float, errors: float, *, share: float, pairs: float, alpha: float = 0.05) -> float:
    """Return the expected half-width of the difference corrected by n labelled pairs; 1 for n = 0.

    `errors` is the share of pairs whose change the detector misreads, `share` of the `pairs` flip; labelled pairs are a random draw. The variances
    of the detector's mean over all pairs and of the mean error over the labelled ones add up (PPI++ at λ = 1, Angelopoulos, Duchi and
    Zrnic 2023); where labels alone (λ = 0) do better, that. The estimate of `labels`, stratified by verdict, is no wider where labels are
    drawn with a preference for flips. Both half-widths are Tango's, so that rare errors, and none at all, still need labels.
    """
    critical = normal_critical(alpha)

    def reach(flips: float, n: float) -> float:
        return tango_interval(n * flips / 2, n * flips / 2, n, critical=critical)[1]

    return min(math.hypot(reach(share, pairs), reach(errors, n)), reach(min(1.0, share + errors), n))
