"""Pairs made ready for the axes: what was measured of both sides, column by column, and what pairs belong together.

Laws: a pair is measured only where both sides answered, those that failed are counted; a session with a failed exchange is not whole, and
is known as such; a session has all turns of its run, those without a counterpart included; where both runs have the same turns, they
come in the order of the baseline, else each in that of its own run; texts are asked for one pair at a time, and only where a
judge is to see them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import numpy as np

from demur.axes.measures import FIGURES, AxisMeter, MeasuredRows, RowMeter, SideKind
from demur.axes.steps import DIMENSIONS
from demur.model.comparison import AxisSide, PairNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from demur.axes.measures import Ints
    from demur.model.comparison import PairedExchange, Places, SessionTurns, ShownTexts

__all__ = ["AxisPairs", "PairSource", "SessionRows", "measured_pairs", "measured_source"]

_T = TypeVar("_T")
_SIDES = (0, 1)
PairTexts = tuple["ShownTexts", "ShownTexts"]


@runtime_checkable
class PairSource(Protocol):
    """Pairs that stand elsewhere. Sides are 0, the baseline, and 1, the candidate; a pair goes by its place among the names."""

    def names(self, *, cluster: str | None) -> PairNames:
        """Return what the pairs are called; `cluster` is the field by which they belong together, None where each is alone."""

    def measured(self, side: int, work: Callable[[Iterable[AxisSide]], _T]) -> Iterator[tuple[Places, _T]]:
        """Yield what the work made of some exchanges at a time, with their places; it may run in other processes."""

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
class AxisPairs:
    """The pairs to measure, how many had a side that failed, and the sessions that lack an exchange for it.

    `texts` gives those of a pair by its place, where a judge asked for them.
    """

    names: PairNames
    baseline: MeasuredRows
    candidate: MeasuredRows
    failed: int
    torn: frozenset[int]
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
    before, after = (_gathered(source, side, meter, kinds=kinds, many=len(names.keys)) for side in _SIDES)
    return _joined_sides(names, (before, after), source.texts if meter.texts else None)


def _gathered(
    source: PairSource, side: int, meter: AxisMeter, *, kinds: dict[SideKind, int], many: int
) -> MeasuredRows:
    """Return one side of all pairs: what comes in pieces, each row at its place."""
    failed, refused = np.ones(many, dtype=np.bool_), np.zeros(many, dtype=np.bool_)
    figures, features = (np.full((many, width), np.nan) for width in (FIGURES, len(DIMENSIONS)))
    kind = np.zeros(many, dtype=np.int64)
    kinds.setdefault(SideKind((), ()), len(kinds))
    for places, rows in source.measured(side, meter):
        numbers = np.array([kinds.setdefault(one, len(kinds)) for one in rows.kinds], dtype=np.int64)
        failed[places], refused[places] = rows.failed, rows.refused
        figures[places], features[places] = rows.figures, rows.features
        kind[places] = numbers[rows.kind]
        if meter.texts:
            source.keep_texts(side, places, rows.texts)
    return MeasuredRows(failed, refused, figures, features, kind, tuple(kinds))


def _joined_sides(
    names: PairNames, sides: tuple[MeasuredRows, MeasuredRows], texts: Callable[[int], PairTexts] | None
) -> AxisPairs:
    """Return the pairs of which both sides answered; the rows of the sides are those of the names, in order."""
    before, after = _with_shared_kinds(*sides)
    turns = names.turns
    lone = np.zeros(len(names.keys), dtype=np.bool_) if turns is None else turns.lone
    failed = (before.failed | after.failed) & ~lone
    torn = frozenset(int(session) for session in names.session[failed] if session >= 0) | _torn_lone(
        turns, before, after
    )
    whole, alone = replace(names, turns=None), int((failed & (names.session < 0)).sum())
    own = None if turns is None else _own_turns(SessionRows(whole, before, after, ()), turns, torn)
    if not (failed | lone).any():
        return AxisPairs(whole, before, after, 0, torn, texts, own)
    kept = np.flatnonzero(~(failed | lone))
    read = None if texts is None else lambda place: texts(int(kept[place]))
    rows = _only_rows(before, kept), _only_rows(after, kept)
    return AxisPairs(names.only(kept), *rows, int(failed.sum()), torn, read, own, alone)


def _torn_lone(turns: SessionTurns | None, before: MeasuredRows, after: MeasuredRows) -> frozenset[int]:
    """Return the sessions of which a turn without a counterpart failed."""
    if turns is None:
        return frozenset()
    sides = zip(turns.sessions, turns.rows, (before, after), strict=True)
    return frozenset(
        int(session)
        for sessions, rows, side in sides
        for session in sessions[turns.lone & (rows >= 0) & side.failed]
        if session >= 0
    )


def _own_turns(rows: SessionRows, turns: SessionTurns, torn: frozenset[int]) -> SessionRows | None:
    """Return the whole sessions with the turns that each has in either run; None where those are the pairs', in their order."""
    keys, lone = rows.names.keys, turns.lone.tolist()
    first, second = (_turns_by_session(sessions, at) for sessions, at in zip(turns.sessions, turns.rows, strict=True))
    units, same = [], len(first) == len(second)
    for session, before in first.items():
        after = second.get(session, [])
        # Questions that are asked once each tell the turns apart, so that the order of the candidate's file does not matter.
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


def _with_shared_kinds(before: MeasuredRows, after: MeasuredRows) -> tuple[MeasuredRows, MeasuredRows]:
    """Return both sides with one list of kinds, and without texts."""
    known = {kind: i for i, kind in enumerate(dict.fromkeys((*before.kinds, *after.kinds)))}
    kinds = tuple(known)
    first, second = (
        replace(side, kinds=kinds, kind=_renumbered(side, [known[kind] for kind in side.kinds]), texts=())
        for side in (before, after)
    )
    return first, second


def _renumbered(side: MeasuredRows, numbers: list[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)[side.kind] if len(side.kind) else side.kind


def _only_rows(side: MeasuredRows, kept: npt.NDArray[np.intp]) -> MeasuredRows:
    return MeasuredRows(
        side.failed[kept],
        side.refused[kept],
        side.figures[kept],
        side.features[kept],
        side.kind[kept],
        side.kinds,
    )
