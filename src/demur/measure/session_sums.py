"""The exact interval of a rate whose rows come in sessions.

Sessions are independent of each other, and nothing is assumed within them; rows without a session are sessions of one row.
"""

from __future__ import annotations

from demur.measure.special import boundary, incomplete_beta, normal_critical, student_critical
from demur.model.estimate import Interval
from demur.model.sessions import SessionSums

__all__ = ["SessionSums", "exact_interval"]

# A spread needs two.
_FEWEST = 2


def exact_interval(sums: SessionSums, *, alpha: float = 0.05) -> Interval:
    """Return the interval of Clopper and Pearson (1934, Biometrika 26:404) of a rate in a run whose size was fixed.

    With sessions of several rows it is Korn and Graubard's (1998, Survey Methodology 24:193): the same for as many rows as these are
    worth, less by what t(G - 1) has over z. No rows, or one session: [0, 1]; k = 0: low is 0; k = n: high is 1.
    """
    n, is_grouped = float(sums.rows), sums.sessions < sums.rows
    name = "korn-graubard" if is_grouped else "clopper-pearson"
    if not n or (is_grouped and sums.sessions < _FEWEST):
        return Interval(0.0, 1.0, name, 1 - alpha)
    share = sums.abstained / sums.rows
    if is_grouped:
        less = normal_critical(alpha) / student_critical(alpha, sums.sessions - 1)
        n *= less * less / sums.design_effect
    k = share * n
    low = boundary(lambda p: incomplete_beta(p, k, n - k + 1) >= alpha / 2, share, 0.0) if share > 0 else 0.0
    high = boundary(lambda p: incomplete_beta(p, k + 1, n - k) <= 1 - alpha / 2, share, 1.0) if share < 1 else 1.0
    return Interval(low, high, name, 1 - alpha)
