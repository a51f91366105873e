"""What the axes need to know of an exchange: small numbers, column by column.

Whatever an axis reads later is measured here, so that no text is kept, except for a judge that is yet to be asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.rules.checks import sights_of
from demur.axes.steps import DIMENSIONS, features_of, step_of
from demur.detect.check import classify
from demur.model.comparison import ShownTexts
from demur.model.exchange import SignalKind
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from demur.axes.rules.checks import RuleSight
    from demur.axes.rules.rule import TraceRule
    from demur.axes.steps import ToolCall
    from demur.detect.check import TextJudge
    from demur.model.comparison import AxisSide
    from demur.model.exchange import Response

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

__all__ = ["METRICS", "AxisMeter", "MeasuredRows", "RowMeter", "SideKind"]

METRICS = 4  # tokens, characters, milliseconds and cost
_MAX_METRIC = 1e18
# What clients, proxies and providers say when nobody waited any longer; 408, 504, 524 are the statuses for it.
_TIMEOUT = re.compile(r"time[sd]?[ _-]?out|deadline[ _]?exceeded|\b(?:408|504|524)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SideKind:
    """The calls of an exchange, and what each rule sees in it."""

    # Exchanges that are alike in both share one value: calls and rules are worked out once for all of them.

    calls: tuple[ToolCall, ...]
    sights: tuple[RuleSight, ...]


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """Some exchanges of one side, column by column; `texts` is empty unless a judge is to see them.

    `failed` and `refused` are verdicts; `metrics` are the response's tokens and characters, milliseconds and cost, NaN where one is
    not known. A request that timed out, or failed after a known time, took infinitely long: nobody knows when a response would have
    come. `kind` is the index of a row's kind in `kinds`.
    """

    failed: npt.NDArray[np.bool_]
    refused: npt.NDArray[np.bool_]
    metrics: Floats
    features: Floats
    kind: Ints
    kinds: tuple[SideKind, ...]
    texts: tuple[ShownTexts, ...] = ()

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def tokens(self) -> Floats:
        """The tokens of each response."""
        return self.metrics[:, 0]

    @property
    def chars(self) -> Floats:
        """The characters of each response."""
        return self.metrics[:, 1]

    @property
    def latency_ms(self) -> Floats:
        """How long each response took."""
        return self.metrics[:, 2]

    @property
    def cost(self) -> Floats:
        """What each exchange cost."""
        return self.metrics[:, 3]


@dataclass(frozen=True, slots=True)
class AxisMeter:
    """What to look for in every exchange: what these rules see, and its texts where a judge asks for them.

    `refusals` replaces the detector; where it is set, a verdict that is known already does not count.
    """

    # Plain values only: a meter is sent to other processes, and what it says of an exchange depends on no other.

    rules: tuple[TraceRule, ...] = ()
    refusals: TextJudge | None = None
    texts: bool = False

    def __call__(self, sides: Iterable[AxisSide]) -> MeasuredRows:
        """Return what was measured of some exchanges, in their order."""
        rows = RowMeter(self)
        for side in sides:
            rows.take(side)
        return rows.rows()


@dataclass(slots=True)
class RowMeter:
    """Takes exchanges one by one, and gives them as columns."""

    asked: AxisMeter
    _verdicts: list[tuple[bool, bool]] = field(default_factory=list)
    _metrics: list[tuple[float, ...]] = field(default_factory=list)
    _features: list[tuple[float, ...]] = field(default_factory=list)
    _kind: list[int] = field(default_factory=list)
    _kinds: dict[SideKind, int] = field(default_factory=dict)
    _texts: list[ShownTexts] = field(default_factory=list)

    def take(self, side: AxisSide) -> None:
        """Measure an exchange."""
        outcome = side.outcome
        if outcome is None or self.asked.refusals is not None:
            outcome = classify(side.exchange.response, judge=self.asked.refusals).outcome
        # An exchange without a verdict has no metrics: an error message is neither short nor fast.
        if outcome in (Outcome.FAILED, Outcome.UNREAD):
            waited = outcome is Outcome.FAILED and (_known(side.latency_ms) >= 0 or _timed_out(side.exchange.response))
            metrics = (nan, nan, inf if waited else nan, nan)
            self._add(metrics, _NO_FEATURES, _NO_KIND, ShownTexts("", ""))
            self._verdicts.append((True, False))
            return
        step = step_of(side.exchange, "", refused=outcome in (Outcome.REFUSED, Outcome.FILTERED))
        tokens, latency, cost = map(_known, (step.output_tokens, side.latency_ms, side.cost))
        metrics = (tokens, float(len(step.text)), latency, cost)
        kind = SideKind(step.calls, sights_of(self.asked.rules, step))
        self._add(metrics, features_of(step, latency), kind, ShownTexts(step.prompt, step.text))
        self._verdicts.append((False, step.refused))

    def rows(self) -> MeasuredRows:
        """Return all that was taken, in its order."""
        verdicts = np.array(self._verdicts, dtype=np.bool_).reshape(-1, 2)
        return MeasuredRows(
            verdicts[:, 0],
            verdicts[:, 1],
            np.array(self._metrics, dtype=np.float64).reshape(-1, METRICS),
            np.array(self._features, dtype=np.float64).reshape(-1, len(DIMENSIONS)),
            np.array(self._kind, dtype=np.int64),
            tuple(self._kinds),
            tuple(self._texts),
        )

    def _add(self, metrics: tuple[float, ...], features: tuple[float, ...], kind: SideKind, texts: ShownTexts) -> None:
        self._metrics.append(metrics)
        self._features.append(features)
        self._kind.append(self._kinds.setdefault(kind, len(self._kinds)))
        if self.asked.texts:
            self._texts.append(texts)


def _known(value: float | None) -> float:
    """Return a figure; NaN for one that is missing, negative or absurdly large."""
    return nan if value is None or not 0 <= value < _MAX_METRIC else float(value)


def _timed_out(response: Response | None) -> bool:
    """Return whether a request that failed says that it was given up for its time."""
    if response is None:
        return False
    error = response.error
    said = [signal.value for signal in response.signals if signal.kind is SignalKind.ERROR]
    said += (
        [] if error is None else [word for word in (error.message, error.code, error.kind, error.inner_code) if word]
    )
    return any(_TIMEOUT.search(word) for word in (*said, str(response.status)))


_NO_FEATURES = (nan,) * len(DIMENSIONS)
_NO_KIND = SideKind((), ())
