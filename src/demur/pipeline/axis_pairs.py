"""Paired exchanges made ready for the axes: each side a step with its verdict, failed pairs counted and set aside.

Laws: a pair is measured only where both sides answered; a session with a failed exchange is not whole, and is known as such; the order of
pairs within a session is that in which they came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.measure.steps import step_of
from demur.model.verdict import Outcome
from demur.pipeline.classify import classify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demur.measure.steps import Step
    from demur.model.axes import PairedExchange
    from demur.pipeline.ports import TextJudge

__all__ = ["AxisPairs", "ReadyPair", "ready_pairs"]


@dataclass(frozen=True, slots=True)
class ReadyPair:
    """A pair that both sides answered."""

    pair: PairedExchange
    baseline: Step
    candidate: Step

    @property
    def key(self) -> str:
        """The pair's name."""
        return self.pair.key


@dataclass(frozen=True, slots=True)
class AxisPairs:
    """The pairs to measure, how many had a side that failed, and the sessions that lack an exchange for it."""

    ready: tuple[ReadyPair, ...]
    failed: int
    torn: frozenset[str]

    @property
    def clusters(self) -> list[str]:
        """What each pair moves together with."""
        return [ready.pair.cluster for ready in self.ready]

    def sessions(self) -> list[tuple[ReadyPair, ...]]:
        """Return the whole sessions, in the order in which they begin; a pair without a session is one alone."""
        grouped: dict[str, list[ReadyPair]] = {}
        for i, ready in enumerate(self.ready):
            name = f"alone:{i}" if ready.pair.session is None else ready.pair.cluster
            grouped.setdefault(name, []).append(ready)
        return [tuple(group) for name, group in grouped.items() if name not in self.torn]


def ready_pairs(pairs: Iterable[PairedExchange], judge: TextJudge | None = None) -> AxisPairs:
    """Return the pairs with the verdict on each side; `judge` is another way to tell a refusal."""
    ready, failed, torn = [], 0, set()
    for pair in pairs:
        sides = [(side, classify(side.response, judge=judge)) for side in (pair.baseline, pair.candidate)]
        if any(verdict.outcome is Outcome.FAILED for _, verdict in sides):
            failed += 1
            torn |= set() if pair.session is None else {pair.cluster}
            continue
        steps = [step_of(side, pair.key, refused=verdict.abstained) for side, verdict in sides]
        ready.append(ReadyPair(pair, *steps))
    return AxisPairs(tuple(ready), failed, frozenset(torn))
