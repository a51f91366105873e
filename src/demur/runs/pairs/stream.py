"""The pairs of two loaded runs, read again from their sources, for axes that need texts, calls and what they took.

Pairs come in the order of the baseline's rows, so that the turns of a session keep theirs. No exchange is held longer than it takes to
measure it, which the engine's processes do. Each source is read once, and one without a drawn row is not opened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from demur.errors import InputError
from demur.formats.interface import stands_alone
from demur.formats.registry import format_named
from demur.io.records import line_blocks, read_records
from demur.io.sources import Kind
from demur.model.comparison import PairNames, SessionTurns, ShownTexts
from demur.runs.counting import cluster_column
from demur.runs.engine import source_exchanges
from demur.runs.pairs.rows import LinesPiece, RowReading, WantedRows
from demur.runs.sql import DUCKDB, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    import numpy.typing as npt

    from demur.io.files import InputLimits
    from demur.io.sources import Source
    from demur.model.comparison import AxisSide, Places
    from demur.model.run import Traced
    from demur.runs.engine import Engine, LoadedRun

    _Ints = npt.NDArray[np.int64]

__all__ = [
    "MAX_PAIRS",
    "DrawnPairs",
    "StreamedPairs",
    "draw_pairs",
    "drawn_ids",
    "max_pairs",
    "run_ids",
    "run_rows",
    "stream_pairs",
]

MAX_PAIRS = 200_000
# What the drawn rows may take up in their sources: answers may be long.
_MAX_BYTES = 1 << 30
# How much larger a compressed source, or a table of columns, is once it is text.
_PACKED = 5
_DRAWN = "drawn_pairs"
# Pairs, each with the session of its row in either run, then the turns of these sessions without a counterpart. A session of the
# candidate is the one of its name; where the baseline has no such name, the one that most of its pairs are of.
_WITH_LONE_TURNS = """
WITH told AS (
    SELECT w.*, coalesce(b.session, w.session) AS bg, c.session AS own
    FROM whole_pairs w JOIN side_b b ON b.place = w.base JOIN side_c c ON c.place = w.cand
), known AS (SELECT DISTINCT session FROM side_b WHERE session IS NOT NULL),
counted AS (SELECT own, bg, count(*) AS n FROM told WHERE own IS NOT NULL AND bg IS NOT NULL GROUP BY 1, 2),
ranked AS (SELECT own, bg, row_number() OVER (PARTITION BY own ORDER BY n DESC, bg) AS rank FROM counted),
linked AS (
    SELECT own, CASE WHEN own IN (SELECT session FROM known) THEN own ELSE bg END AS cg FROM ranked WHERE rank = 1
), lone AS (
    SELECT p.*, CASE WHEN p.cand IS NULL THEN p.session END AS bg, CASE WHEN p.base IS NULL THEN l.cg END AS cg
    FROM pairs p LEFT JOIN linked l ON p.session = l.own WHERE p.base IS NULL OR p.cand IS NULL
), rows AS (
    SELECT told.* EXCLUDE (own), coalesce(l.cg, told.bg) AS cg FROM told LEFT JOIN linked l USING (own)
    UNION ALL BY NAME SELECT * FROM lone WHERE coalesce(bg, cg) IN (SELECT bg FROM told)
)
SELECT *, row_number() OVER (ORDER BY base IS NULL OR cand IS NULL, base, cand) - 1 AS pair FROM rows
"""
_SIDES = (("base", "bs"), ("cand", "cs"))
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DrawnPairs:
    """How many pairs have a row in both runs, and how many of them are read."""

    pairs: int
    read: int


def max_pairs(runs: tuple[LoadedRun, LoadedRun]) -> int:
    """Return how many pairs of these runs are read at most: fewer where rows are long, by the size of their sources."""
    row_bytes = sum(sum(map(_text_bytes, run.sources)) / max(1, run.rows) for run in runs)
    return max(1, min(MAX_PAIRS, int(_MAX_BYTES / max(1.0, row_bytes))))


def draw_pairs(engine: Engine, *, seed: int = 0, most: int = MAX_PAIRS) -> DrawnPairs:
    """Choose the pairs to read among those that `pair_runs` made: all, or a sample of whole sessions.

    A single session that is larger than `most` is cut after its first rows, since nothing of it could be read otherwise.
    """
    whole = "base IS NOT NULL AND cand IS NOT NULL"
    total = int(engine.ask(f"SELECT count(*) FROM pairs WHERE {whole}")[0][0])
    # Whole sessions, or all repeats of a question, are drawn: half a session would change what a trajectory is.
    group = "CASE WHEN session IS NULL THEN 'k' || key ELSE 's' || session END"
    if total <= most:
        query = f"SELECT * FROM pairs WHERE {whole}"
    else:
        # By a hash of the name, so that the order of the files does not matter to the sample.
        order = f"md5({literal(str(seed))} || '|' || g), g"
        query = (
            f"WITH rows AS (SELECT *, {group} AS g FROM pairs WHERE {whole}), "
            "sizes AS (SELECT g, count(*) AS n FROM rows GROUP BY g), "
            f"taken AS (SELECT g, n, sum(n) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS upto FROM sizes) "
            "SELECT rows.* EXCLUDE (g) FROM rows JOIN taken USING (g) "
            f"WHERE upto <= {most} OR upto = n ORDER BY base LIMIT {most}"
        )
    engine.ask(f"CREATE OR REPLACE TEMP TABLE whole_pairs AS {query}")
    engine.ask(f"CREATE OR REPLACE TEMP TABLE {_DRAWN} AS {_WITH_LONE_TURNS}")
    return DrawnPairs(total, int(engine.ask("SELECT count(*) FROM whole_pairs")[0][0]))


def drawn_ids(engine: Engine, runs: tuple[LoadedRun, LoadedRun]) -> AbstractSet[str]:
    """Return the ids of the drawn rows, by which the requests of a batch are found."""
    sides = zip(runs, ("base", "cand"), strict=True)
    found = (f"SELECT id FROM {run.table} r JOIN {_DRAWN} d ON r.rowid = d.{side}" for run, side in sides)
    return frozenset(label for (label,) in engine.ask(" UNION ".join(found)) if label is not None)


def run_ids(engine: Engine, run: LoadedRun) -> AbstractSet[str]:
    """Return the ids of all rows of a run."""
    return frozenset(label for (label,) in engine.ask(f"SELECT DISTINCT id FROM {run.table} WHERE id IS NOT NULL"))


@dataclass(frozen=True, slots=True)
class StreamedPairs:
    """The drawn pairs of two runs, to be measured where they stand; a pair goes by its place in the order of the baseline."""

    engine: Engine
    runs: tuple[LoadedRun, LoadedRun]
    limits: InputLimits
    shown_key: Callable[[str], str]
    prompts: Mapping[str, str]
    kept: tuple[SideTexts, SideTexts] = field(compare=False)

    def names(self, *, cluster: str | None) -> PairNames:
        """Return what the pairs are called; `cluster` is the field that the tally counted them together by."""
        together = "NULL" if cluster is None else cluster_column(cluster, DUCKDB)
        query = (
            f"SELECT key, coalesce(bg, cg), bg, cg, coalesce(base, -1), coalesce(cand, -1), {together} "
            f"FROM {_DRAWN} ORDER BY pair"
        )
        rows = self.engine.ask(query)
        key, session, before, after, base, cand, name = zip(*rows, strict=True) if rows else ((),) * 7
        known: dict[str, int] = {}
        sessions = _numbers_of(session, known)
        clusters = np.arange(len(key), dtype=np.int64) if cluster is None else _numbers_of(name, {})
        turns = SessionTurns(
            (_numbers_of(before, known), _numbers_of(after, known)),
            (np.array(base, np.int64), np.array(cand, np.int64)),
        )
        keys = [self.shown_key(one) for one in key]
        return PairNames(keys, sessions, clusters, cluster or "", turns)

    def measured(self, side: int, work: Callable[[Iterable[AxisSide]], _T]) -> Iterator[tuple[Places, _T]]:
        """Yield what the work made of the exchanges of one side, some at a time, with the places of their pairs."""
        run = self.runs[side]
        reading = RowReading(run.format, work, self.prompts)
        alone = stands_alone(format_named(run.format).open_reader())
        for number, source in enumerate(run.sources):
            row, state = _SIDES[side]
            table = self.runs[side].table
            query = (
                f"WITH d AS (SELECT {row} AS place, pair, "
                f"CASE {state} WHEN 'a' THEN 1 WHEN 'f' THEN 2 ELSE 0 END AS state FROM {_DRAWN}), "
                f"f AS (SELECT line, min(rowid) AS first FROM {table} WHERE source = {number} GROUP BY line) "
                "SELECT d.place, d.pair, d.state, coalesce(r.line, 0) AS line, coalesce(f.first, 0) AS first "
                f"FROM {table} r JOIN d ON r.rowid = d.place LEFT JOIN f ON r.line = f.line "
                f"WHERE r.source = {number} ORDER BY d.place"
            )
            found = self.engine.connection.execute(query).fetchnumpy()
            columns = (np.asarray(found[name], dtype=np.int64) for name in ("place", "pair", "state", "line", "first"))
            wanted = WantedRows(*columns)
            if not len(wanted.rows):
                continue
            if source.kind is Kind.LINES and alone:
                pieces = _line_pieces(source, self.limits, wanted)
                # The prompts of a batch may be many: they do not go to other processes with every piece.
                done = (
                    map(reading.lines, pieces) if self.prompts else self.engine.workers.ordered(reading.lines, pieces)
                )
                yield from done
            else:
                yield from reading.records(read_records(source, self.limits), wanted, run.starts[number])

    def keep_texts(self, side: int, places: Places, texts: Sequence[ShownTexts]) -> None:
        """Keep the texts of some pairs in a file."""
        self.kept[side].keep(places, texts)

    def texts(self, place: int) -> tuple[ShownTexts, ShownTexts]:
        """Return the texts of a pair that were kept."""
        return self.kept[0].read(place), self.kept[1].read(place)


def stream_pairs(
    engine: Engine,
    runs: tuple[LoadedRun, LoadedRun],
    *,
    limits: InputLimits,
    shown_key: Callable[[str], str] = str,
    prompts: Mapping[str, str] | None = None,
) -> StreamedPairs:
    """Return the drawn pairs; `prompts` are what rows of a batch asked, by their ids, `shown_key` what a pair is called."""
    kept = SideTexts(engine.folder / "texts-baseline"), SideTexts(engine.folder / "texts-candidate")
    return StreamedPairs(engine, runs, limits, shown_key, prompts or {}, kept)


def run_rows(run: LoadedRun, *, limits: InputLimits) -> Iterator[Traced]:
    """Yield every exchange of a run that was read, in the order of its files."""
    for source in run.sources:
        yield from (traced for _, traced in source_exchanges(source, run.format, limits))


def _text_bytes(source: Source) -> int:
    packed = source.compression is not None or source.kind in (Kind.PARQUET, Kind.ARCHIVE)
    return source.size_bytes * (_PACKED if packed else 1)


def _numbers_of(names: Iterable[str | None], known: dict[str, int]) -> _Ints:
    """Return a number from 0 on for each name, those known as before, -1 where there is none."""
    numbers = (-1 if name is None else known.setdefault(name, len(known)) for name in names)
    return np.fromiter(numbers, dtype=np.int64)


def _line_pieces(source: Source, limits: InputLimits, wanted: WantedRows) -> Iterator[LinesPiece]:
    """Yield the blocks of lines that hold a wanted row."""
    for block in line_blocks(source, limits):
        if isinstance(block.lines, InputError):
            continue
        here = wanted.between(block.first, block.first + block.lines.count(b"\n") + 1)
        if len(here.rows):
            yield LinesPiece(block.first, block.lines, here)


class SideTexts:
    """The texts of one side that a judge is yet to see: a line each in a file, so that memory holds none of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: dict[int, int] = {}

    def keep(self, places: Places, texts: Sequence[ShownTexts]) -> None:
        """Keep the texts at some places."""
        with self._path.open("ab") as file:
            for place, shown in zip(places.tolist(), texts, strict=True):
                self._starts[place] = file.tell()
                # Escaped by `json`: texts may hold what UTF-8 does not.
                file.write(json.dumps([shown.prompt, shown.answer]).encode() + b"\n")

    def read(self, place: int) -> ShownTexts:
        """Return the texts at a place."""
        start = self._starts.get(place)
        if start is None:
            return ShownTexts("", "")
        with self._path.open("rb") as file:
            file.seek(start)
            prompt, answer = json.loads(file.readline())
        return ShownTexts(prompt, answer)
