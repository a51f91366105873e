"""Pairs made ready for the axes: what was measured on both sides, column by column, and which pairs belong together.

A pair is measured only where both sides responded; failed ones are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import numpy as np

from demur.axes.measures import METRICS, AxisMeter, MeasuredRows, RowMeter, SideKind
from demur.axes.steps import DIMENSIONS
from demur.model.comparison import AxisSide, PairNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from demur.axes.measures import Floats, Ints
    from demur.model.comparison import PairedExchange, Places, SessionTurns, ShownTexts

__all__ = ["AxisPairs", "PairSource", "SessionRows", "TimedRows", "measured_pairs", "measured_source"]

_T = TypeVar("_T")
_SIDES = (0, 1)
PairTexts = tuple["ShownTexts", "ShownTexts"]


@runtime_checkable
class PairSource(Protocol):
    """Pairs kept elsewhere. Sides are 0, the baseline, and 1, the candidate; a pair is named by its index among the names."""

    def names(self, *, cluster: str | None) -> PairNames:
        """Return the names of the pairs; `cluster` is the field by which they belong together, None where each is alone."""

    def measured(self, side: int, work: Callable[[Iterable[AxisSide]], _T]) -> Iterator[tuple[Places, _T]]:
        """Yield the results of the work on some exchanges at a time, with their indexes; it may run in other processes."""

    def keep_texts(self, side: int, places: Places, texts: Sequence[ShownTexts]) -> None:
        """Keep the texts of some pairs, outside memory where they are many."""

    def texts(self, place: int) -> PairTexts:
        """Return the texts of a pair that were kept."""


@dataclass(frozen=True, slots=True)
class SessionRows:
    """Rows of both sides, and for each session the places of its turns in the baseline and in the candidate."""

    names: PairNames
    baseline: MeasuredRows
    candidate: MeasuredRows
    units: Sequence[tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True, slots=True)
class TimedRows:
    """How long every pair took, failed ones included: infinitely where no response came, NaN where it is not known.

    `answered_or_not` is set where it is known of both sides whether a response came.
    """

    names: PairNames
    baseline: Floats
    candidate: Floats
    answered_or_not: npt.NDArray[np.bool_]

    def only(self, places: npt.NDArray[np.intp]) -> TimedRows:
        """Return those at some places."""
        known = self.answered_or_not[places]
        return TimedRows(self.names.only(places), self.baseline[places], self.candidate[places], known)


@dataclass(frozen=True, slots=True)
class AxisPairs:
    """The pairs to measure, how many had a side that failed, and the sessions that are incomplete because of it.

    `texts` returns those of a pair by its index, where a judge asked for them.
    """

    names: PairNames
    baseline: MeasuredRows
    candidate: MeasuredRows
    timed: TimedRows
    failed: int
    torn: frozenset[int]  # a rule about a session cannot be judged where an exchange of it is missing
    texts: Callable[[int], PairTexts] | None = None
    own_turns: SessionRows | None = None
    failed_alone: int = 0
    """Of the failed pairs, those without a session."""

    def __len__(self) -> int:
        return len(self.baseline)

    @property
    def kinds(self) -> tuple[SideKind, ...]:
        """The kinds that rows of both sides name."""
        return self.baseline.kinds

    def sessions(self) -> list[list[int]]:
        """Return the places of the pairs of each whole session, in the order in which they begin; a pair without one is alone."""
        grouped: dict[int, list[int]] = {}
        for place, session in enumerate(self.names.session.tolist()):
            grouped.setdefault(session if session >= 0 else -2 - place, []).append(place)
        return [places for session, places in grouped.items() if session not in self.torn]

    def exchange_rows(self) -> SessionRows:
        """Return each pair as a session of its own."""
        return SessionRows(self.names, self.baseline, self.candidate, [([i], [i]) for i in range(len(self))])

    def session_rows(self) -> SessionRows:
        """Return each whole session, with all turns that it has in either run."""
        if self.own_turns is not None:
            return self.own_turns
        return SessionRows(self.names, self.baseline, self.candidate, [(unit, unit) for unit in self.sessions()])


def measured_pairs(pairs: Iterable[PairedExchange], meter: AxisMeter) -> AxisPairs:
    """Return pairs that a caller made."""
    sides = RowMeter(meter), RowMeter(meter)
    called: list[tuple[str, str | None, str]] = []
    for pair in pairs:
        called.append((pair.key, pair.session, pair.cluster))
        sides[0].take(AxisSide(pair.baseline, pair.baseline_latency_ms, pair.baseline_cost))
        sides[1].take(AxisSide(pair.candidate, pair.candidate_latency_ms, pair.candidate_cost))
    before, after = (side.rows() for side in sides)
    sessions, clusters = _numbered([row[1] for row in called]), _numbered([row[2] for row in called])
    names = PairNames([row[0] for row in called], sessions, clusters)
    both = list(zip(before.texts, after.texts, strict=True))
    return _joined_sides(names, (before, after), both.__getitem__ if meter.texts else None)


def measured_source(source: PairSource, meter: AxisMeter, *, cluster: str | None = None) -> AxisPairs:
    """Return the pairs of a source; one whose side cannot be read any more has failed."""
    names = source.names(cluster=cluster)
    kinds: dict[SideKind, int] = {}
    before, after = (_measured_side(source, side, meter, kinds=kinds, many=len(names.keys)) for side in _SIDES)
    return _joined_sides(names, (before, after), source.texts if meter.texts else None)


def _measured_side(
    source: PairSource, side: int, meter: AxisMeter, *, kinds: dict[SideKind, int], many: int
) -> MeasuredRows:
    """Return one side of all pairs, which arrive in pieces and in any order."""
    # Failed until measured: a row that cannot be read any more never arrives.
    failed, refused = np.ones(many, dtype=np.bool_), np.zeros(many, dtype=np.bool_)
    metrics, features = (np.full((many, width), np.nan) for width in (METRICS, len(DIMENSIONS)))
    kind = np.zeros(many, dtype=np.int64)
    kinds.setdefault(SideKind((), ()), len(kinds))
    for places, rows in source.measured(side, meter):
        numbers = np.array([kinds.setdefault(one, len(kinds)) for one in rows.kinds], dtype=np.int64)
        failed[places], refused[places] = rows.failed, rows.refused
        metrics[places], features[places] = rows.metrics, rows.features
        kind[places] = numbers[rows.kind]
        if meter.texts:
            source.keep_texts(side, places, rows.texts)
    return MeasuredRows(failed, refused, metrics, features, kind, tuple(kinds))


def _joined_sides(
    names: PairNames, sides: tuple[MeasuredRows, MeasuredRows], texts: Callable[[int], PairTexts] | None
) -> AxisPairs:
    """Return the pairs of which both sides responded; the rows of the sides are those of the names, in order."""
    # One list of kinds for both sides, so that equal kinds have equal numbers; the texts are read elsewhere.
    known = {kind: i for i, kind in enumerate(dict.fromkeys((*sides[0].kinds, *sides[1].kinds)))}
    numbers = (np.array([known[kind] for kind in side.kinds], dtype=np.int64) for side in sides)
    before, after = (
        replace(side, kinds=tuple(known), kind=number[side.kind] if len(side.kind) else side.kind, texts=())
        for side, number in zip(sides, numbers, strict=True)
    )
    turns = names.turns
    lone = np.zeros(len(names.keys), dtype=np.bool_) if turns is None else turns.lone
    failed = (before.failed | after.failed) & ~lone
    torn = {int(session) for session in names.session[failed] if session >= 0}
    if turns is not None:
        # A turn without a counterpart tears its session too, if it failed.
        for sessions, rows, side in zip(turns.sessions, turns.rows, (before, after), strict=True):
            torn |= {int(s) for s in sessions[turns.lone & (rows >= 0) & side.failed] if s >= 0}
    incomplete = frozenset(torn)
    whole, alone = replace(names, turns=None), int((failed & (names.session < 0)).sum())
    own = None if turns is None else _own_turns(SessionRows(whole, before, after, ()), turns, incomplete)
    lost = [side.failed & ~np.isinf(side.latency_ms) for side in (before, after)]
    timed = TimedRows(whole, before.latency_ms, after.latency_ms, ~(lost[0] | lost[1]))
    if not (failed | lone).any():
        return AxisPairs(whole, before, after, timed, 0, incomplete, texts, own)
    timed = timed.only(np.flatnonzero(~lone)) if lone.any() else timed
    kept = np.flatnonzero(~(failed | lone))
    read = None if texts is None else lambda place: texts(int(kept[place]))
    both = _only_rows(before, kept), _only_rows(after, kept)
    return AxisPairs(names.only(kept), *both, timed, int(failed.sum()), incomplete, read, own, alone)


def _own_turns(rows: SessionRows, turns: SessionTurns, torn: frozenset[int]) -> SessionRows | None:
    """Return the whole sessions with the turns that each has in either run; None where those are the pairs', in their order."""
    keys, lone = rows.names.keys, turns.lone.tolist()
    first, second = (_turns_by_session(sessions, at) for sessions, at in zip(turns.sessions, turns.rows, strict=True))
    units, same = [], len(first) == len(second)
    for session, before in first.items():
        after = second.get(session, [])
        # If each question is asked once, the questions identify the turns, and the order of the candidate's file is irrelevant.
        alike = sorted(before) == sorted(after) and len({keys[i] for i in before}) == len(before)
        same = same and alike
        if session not in torn and after and not all(lone[i] for i in (*before, *after)):
            units.append((before, before if alike else after))
    alive = ~(rows.baseline.failed | rows.candidate.failed | turns.lone)
    single = np.flatnonzero(alive & (turns.sessions[0] < 0) & (turns.sessions[1] < 0)).tolist()
    return None if same else replace(rows, units=[*units, *(([i], [i]) for i in single)])


def _turns_by_session(sessions: Ints, rows: Ints) -> dict[int, list[int]]:
    """Return the places of each session's turns, in the order of the run."""
    found: dict[int, list[int]] = {}
    for place in np.argsort(rows, kind="stable").tolist():
        if rows[place] >= 0 and sessions[place] >= 0:
            found.setdefault(int(sessions[place]), []).append(place)
    return found


def _numbered(names: Sequence[str | None]) -> Ints:
    """Return a number from 0 on for each name, -1 for None."""
    known = {name: i for i, name in enumerate(dict.fromkeys(name for name in names if name is not None))}
    return np.array([-1 if name is None else known[name] for name in names], dtype=np.int64)


def _only_rows(side: MeasuredRows, kept: npt.NDArray[np.intp]) -> MeasuredRows:
    return MeasuredRows(
        side.failed[kept], side.refused[kept], side.metrics[kept], side.features[kept], side.kind[kept], side.kinds
    )
