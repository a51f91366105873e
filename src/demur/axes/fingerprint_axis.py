"""Has the manner of the answers drifted? The fingerprint axis: one test of twelve features, and which of them moved in which pairs.

Laws: the whole has a size from 0 to 1 and the p of one test; each feature has a p that is held against the others, and one that no pair has
on both sides is not among them; evidence is of features that are proven to have moved, the surest first.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.fingerprint import DIMENSIONS, fingerprint_shift
from demur.axes.results import cluster_details, shown_evidence
from demur.measure.severity import rate_severity
from demur.model.axes import AxisDetail, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.axis import Flag

if TYPE_CHECKING:
    from demur.axes.fingerprint import FingerprintShift
    from demur.axes.pairs import AxisPairs
    from demur.model.axes import AxisEvidence

__all__ = ["fingerprint_result"]

_FEW_CLUSTERS_BELOW = 5


def fingerprint_result(pairs: AxisPairs, *, seed: int, alpha: float, show: int) -> AxisResult:
    """Return how far the features of both sides lie apart, by the signs of whole pairs or clusters."""
    where = np.unique(pairs.names.cluster, return_inverse=True)[1].reshape(-1)
    shift = fingerprint_shift(pairs.baseline.features, pairs.candidate.features, where, seed=seed, alpha=alpha)
    flags: tuple[Flag | AxisFlag, ...] = (
        *((Flag.LOW_POWER,) if shift.count < _FEW_CLUSTERS_BELOW else ()),
        *((Flag.CLUSTERED,) if shift.count < shift.n else ()),
        *((AxisFlag.MISSING,) if pairs.failed else ()),
    )
    return AxisResult(
        AxisName.FINGERPRINT,
        str(AxisName.FINGERPRINT),
        AxisUnit.SHIFT,
        None,
        None,
        shift.shift,
        None,
        shift.p,
        rate_severity(shift.shift, shift.shift, shift.shift),
        shift.n,
        tested="all twelve features have the same distribution in both runs (Hotelling's T², signs of pairs flipped)",
        missing=pairs.failed,
        flags=flags,
        evidence=_moved_evidence(pairs, shift, alpha=alpha, show=show),
        details=(AxisDetail("T squared", shift.t_squared), *cluster_details(pairs.names)),
        parts=_dimension_parts(shift),
    )


def _dimension_parts(shift: FingerprintShift) -> tuple[AxisResult, ...]:
    return tuple(
        AxisResult(
            AxisName.FINGERPRINT,
            f"fingerprint/{one.name}",
            AxisUnit.MEAN,
            one.baseline,
            one.candidate,
            one.candidate - one.baseline,
            one.interval,
            one.p,
            rate_severity(one.effect**2, one.effect**2, one.effect**2),
            one.n,
            tested="the mean is the same in both runs",
            p_adjusted=one.p_adjusted,
            missing=shift.n - one.n,
            flags=(AxisFlag.MISSING,) if one.n < shift.n else (),
        )
        for one in shift.dimensions
        if one.n
    )


def _moved_evidence(pairs: AxisPairs, shift: FingerprintShift, *, alpha: float, show: int) -> tuple[AxisEvidence, ...]:
    """Return the pairs in which the features that are proven to have moved did so, the surest feature first."""
    moved = [one for one in shift.dimensions if one.p_adjusted <= alpha]
    found: list[tuple[str, str]] = []
    for one in sorted(moved, key=lambda one: (one.p_adjusted, -abs(one.effect), one.name)):
        j, keys = DIMENSIONS.index(one.name), pairs.names.keys
        before, after = pairs.baseline.features[:, j], pairs.candidate.features[:, j]
        rows = np.flatnonzero(after > before if one.candidate > one.baseline else after < before).tolist()
        size = np.abs(after - before)
        chosen = nsmallest(max(0, show - len(found)), rows, key=lambda i: (-size[i], keys[i], i))
        found += [(keys[i], f"`{one.name}` {before[i]:.3g} → {after[i]:.3g}") for i in chosen]
    return shown_evidence(found, show)
