"""What do the axes need to know of an exchange? Small figures, column by column, once its texts have been looked at.

Laws: whatever an axis reads later is measured here, so that no text is kept, except for a judge that is yet to be asked; an exchange that
failed is told apart and has no figures; a meter can be sent to other processes, and what it says of an exchange does not depend
on any other; rows that are alike in their calls and in what rules see share one `SideKind`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.rules.checks import sights_of
from demur.axes.steps import DIMENSIONS, features_of, step_of
from demur.detect.check import classify
from demur.model.comparison import ShownTexts
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from demur.axes.rules.checks import RuleSight
    from demur.axes.rules.rule import TraceRule
    from demur.axes.steps import ToolCall
    from demur.detect.interface import TextJudge
    from demur.model.comparison import AxisSide

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

__all__ = ["FIGURES", "AxisMeter", "MeasuredRows", "RowMeter", "SideKind"]

FIGURES = 4  # tokens, characters, milliseconds and cost
_MAX_METRIC = 1e18


@dataclass(frozen=True, slots=True)
class SideKind:
    """The calls of an exchange, and what each rule sees in it: alike for many."""

    calls: tuple[ToolCall, ...]
    sights: tuple[RuleSight, ...]


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """Some exchanges of one side, column by column; `texts` is empty unless a judge is to see them.

    `failed` and `refused` are verdicts; `figures` are the answer's tokens and characters, milliseconds and cost, not a number where one is
    not known; `kind` is the place of a row's kind in `kinds`.
    """

    failed: npt.NDArray[np.bool_]
    refused: npt.NDArray[np.bool_]
    figures: Floats
    features: Floats
    kind: Ints
    kinds: tuple[SideKind, ...]
    texts: tuple[ShownTexts, ...] = ()

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def tokens(self) -> Floats:
        """The tokens of each answer."""
        return self.figures[:, 0]

    @property
    def chars(self) -> Floats:
        """The characters of each answer."""
        return self.figures[:, 1]

    @property
    def latency_ms(self) -> Floats:
        """How long each answer took."""
        return self.figures[:, 2]

    @property
    def cost(self) -> Floats:
        """What each exchange cost."""
        return self.figures[:, 3]


@dataclass(frozen=True, slots=True)
class AxisMeter:
    """What to look for in every exchange: what these rules see, and its texts where a judge asks for them.

    `refusals` is another way to tell a refusal; where it is set, a verdict that is known already does not count.
    """

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
    _told: list[tuple[bool, bool]] = field(default_factory=list)
    _figures: list[tuple[float, ...]] = field(default_factory=list)
    _features: list[tuple[float, ...]] = field(default_factory=list)
    _kind: list[int] = field(default_factory=list)
    _kinds: dict[SideKind, int] = field(default_factory=dict)
    _texts: list[ShownTexts] = field(default_factory=list)

    def take(self, side: AxisSide) -> None:
        """Measure an exchange."""
        outcome = side.outcome
        if outcome is None or self.asked.refusals is not None:
            outcome = classify(side.exchange.response, judge=self.asked.refusals).outcome
        if outcome is Outcome.FAILED:
            self._add(_NO_FIGURES, _NO_FEATURES, _NO_KIND, ShownTexts("", ""))
            self._told.append((True, False))
            return
        step = step_of(side.exchange, "", refused=outcome in (Outcome.REFUSED, Outcome.FILTERED))
        tokens, latency, cost = map(_known_figure, (step.output_tokens, side.latency_ms, side.cost))
        figures = (tokens, float(len(step.text)), latency, cost)
        kind = SideKind(step.calls, sights_of(self.asked.rules, step))
        self._add(figures, features_of(step, latency), kind, ShownTexts(step.prompt, step.text))
        self._told.append((False, step.refused))

    def rows(self) -> MeasuredRows:
        """Return all that was taken, in its order."""
        told = np.array(self._told, dtype=np.bool_).reshape(-1, 2)
        return MeasuredRows(
            told[:, 0],
            told[:, 1],
            np.array(self._figures, dtype=np.float64).reshape(-1, FIGURES),
            np.array(self._features, dtype=np.float64).reshape(-1, len(DIMENSIONS)),
            np.array(self._kind, dtype=np.int64),
            tuple(self._kinds),
            tuple(self._texts),
        )

    def _add(self, figures: tuple[float, ...], features: tuple[float, ...], kind: SideKind, texts: ShownTexts) -> None:
        self._figures.append(figures)
        self._features.append(features)
        self._kind.append(self._kinds.setdefault(kind, len(self._kinds)))
        if self.asked.texts:
            self._texts.append(texts)


def _known_figure(value: float | None) -> float:
    """Return a figure; what is negative, or beyond any clock or purse, is not known."""
    return nan if value is None or not 0 <= value < _MAX_METRIC else float(value)


_NO_FIGURES = (nan,) * FIGURES
_NO_FEATURES = (nan,) * len(DIMENSIONS)
_NO_KIND = SideKind((), ())
