"""The pairs of two loaded runs, read again from their sources, for axes that need texts, calls and what they took.

Pairs come in the order of the baseline's rows, so that the turns of a session keep theirs. What is handed on at a place is the exchange
that was judged there, with that verdict. No exchange is held longer than it takes to measure it, which the engine's
processes do: a reading holds no state and can be sent to them. A source without a drawn row is not opened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from msgspec.structs import replace

from demur.errors import InputError
from demur.formats.flat_rows import flat_layout
from demur.formats.interface import stands_alone
from demur.formats.mixed import reader_of
from demur.io.files import json_object
from demur.io.records import line_blocks, read_records
from demur.io.sources import Kind
from demur.model.columns import NO_COLUMNS
from demur.model.comparison import AxisSide, PairNames, SessionTurns, ShownTexts
from demur.model.exchange import Choice, Exchange, Message, Request, Response, TextPart
from demur.model.run import Traced
from demur.model.verdict import Outcome
from demur.runs.engine import source_exchanges
from demur.runs.ingest import exchanges_of, reader_for
from demur.runs.row_measures import MEASURE_FIELDS, measures_of, usage_of_row
from demur.runs.sessions import cluster_column
from demur.runs.sql import DUCKDB, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy.typing as npt

    from demur.formats.flat_rows import PlainRow
    from demur.formats.interface import TraceReader
    from demur.io.records import Record
    from demur.model.columns import Columns
    from demur.runs.row_measures import RowMeasures
    from demur.wire.fields import JsonObject

    _Ints = npt.NDArray[np.int64]
    _Read = tuple[Exchange, RowMeasures]
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    import numpy.typing as npt

    from demur.io.files import InputLimits
    from demur.io.sources import Source
    from demur.model.comparison import Places
    from demur.runs.engine import Engine, LoadedRun


__all__ = [
    "MAX_PAIRS",
    "DrawnPairs",
    "LinesPiece",
    "RowReading",
    "StreamedPairs",
    "WantedRows",
    "draw_pairs",
    "drawn_ids",
    "max_pairs",
    "run_ids",
    "run_rows",
    "stream_pairs",
]

_FLAT = "flat"
# A batch of exchanges in memory at once; a whole run of long texts would not fit.
_ROWS_AT_ONCE = 4096
_T = TypeVar("_T")
_OUTCOMES = (Outcome.COMPLIED, Outcome.REFUSED, Outcome.FAILED, Outcome.EMPTY, Outcome.UNREAD)
_STOPS = ("finish_reason", "stop_reason")


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The wanted rows of one source, in their order.

    `rows` are their places in the run, `pairs` the places of their pairs, `states` 0 for answered, 1 for abstained, 2 for failed, 3 for empty, 4 for unread; of a file of
    lines `lines` are theirs, and `firsts` the first row of each such line.
    """

    rows: _Ints
    pairs: _Ints
    states: _Ints
    lines: _Ints
    firsts: _Ints

    def by_row(self) -> dict[int, tuple[int, int]]:
        """Return the pair and the state of each row."""
        return dict(zip(self.rows.tolist(), zip(self.pairs.tolist(), self.states.tolist(), strict=True), strict=True))

    def between(self, first: int, beyond: int) -> WantedRows:
        """Return those on some lines."""
        # The lines of a source are in order, so a block's rows are a slice.
        low, high = np.searchsorted(self.lines, (first, beyond))
        return WantedRows(*(getattr(self, name)[low:high] for name in ("rows", "pairs", "states", "lines", "firsts")))


@dataclass(frozen=True, slots=True)
class LinesPiece:
    """Some whole lines, the number of the first, and the rows that are wanted of them."""

    first: int
    lines: bytes
    wanted: WantedRows


@dataclass(frozen=True, slots=True)
class RowReading(Generic[_T]):
    """How rows are read: the format, the work that is done on their exchanges, and the prompts of rows that have none."""

    format: str
    work: Callable[[Iterable[AxisSide]], _T]
    asked: Mapping[str, str] = field(default_factory=dict)
    named: bool = False
    columns: Columns = NO_COLUMNS

    def lines(self, piece: LinesPiece) -> tuple[_Ints, _T]:
        """Return the pairs that rows in a block of lines are of, and what the work made of them."""
        found: list[int] = []
        made = self.work(_noted(self._sides_in_lines(piece), found))
        return np.array(found, dtype=np.int64), made

    def records(self, records: Iterable[Record], wanted: WantedRows, start: int) -> Iterator[tuple[_Ints, _T]]:
        """Yield the same for a source that has to be read from its beginning, whose first row is `start`."""
        reader, known = reader_of(self.format, named=self.named, columns=self.columns), wanted.by_row()
        read = enumerate(self._all_exchanges(records, reader), start)
        sides = (_judged_side(each, known[row]) for row, each in read if row in known)
        while True:
            found: list[int] = []
            made = self.work(_noted(sides, found, most=_ROWS_AT_ONCE))
            if not found:
                return
            yield np.array(found, dtype=np.int64), made

    def _sides_in_lines(self, piece: LinesPiece) -> Iterator[tuple[int, AxisSide]]:
        reader = reader_of(self.format, named=self.named, columns=self.columns)
        split, wanted = piece.lines.split(b"\n"), piece.wanted.by_row()
        # A line may hold several exchanges.
        firsts = dict(zip(piece.wanted.lines.tolist(), piece.wanted.firsts.tolist(), strict=True))
        for line, first in firsts.items():
            # A file that was rewritten meanwhile may be shorter.
            if line - piece.first >= len(split):
                return
            for row, read in enumerate(self._exchanges(json_object(split[line - piece.first]), reader), first):
                if row in wanted:
                    yield _judged_side(read, wanted[row])

    def _all_exchanges(self, records: Iterable[Record], reader: TraceReader) -> Iterator[_Read]:
        for _, record in records:
            yield from self._exchanges(record, reader)
        yield from (self._full(item) for item in reader.close() if isinstance(item, Traced))

    def _exchanges(self, record: JsonObject | InputError, reader: TraceReader) -> Iterator[_Read]:
        """Yield the exchanges of a record with what they took, those before a fault in it included."""
        # A plain row is read without its format's reader, ten times as fast, to the same exchange.
        if self.format == _FLAT and not isinstance(record, InputError):
            names = tuple(record)
            fields = _measure_fields(names)
            layout = flat_layout(names, fields, self.columns)
            if layout is not None and (plain := layout.row(record)) is not None:
                yield self._plain(record, plain, fields)
                return
        yield from map(self._full, exchanges_of(record, reader))

    def _plain(self, record: JsonObject, row: PlainRow, fields: tuple[str, ...]) -> _Read:
        key, prompt, session, text, labels = row
        measures = measures_of(zip(fields, labels, strict=True), self.format)
        stop = next((word for name in _STOPS if isinstance(word := record.get(name), str)), None)
        choice = Choice(0, (TextPart(text),), finish_raw=stop)
        asked = self.asked.get(key or "") if prompt is None else prompt
        exchange = Exchange(None, Response("", (choice,), usage=measures.usage), _request(asked), key, session)
        return exchange, measures

    def _full(self, traced: Traced) -> _Read:
        measures = measures_of(traced.fields, self.format)
        exchange = traced.exchange
        if exchange.request is None:
            exchange = replace(exchange, request=_request(self.asked.get(exchange.id or "")))
        usage = usage_of_row(traced, measures)
        if exchange.response is not None and usage != exchange.response.usage:
            exchange = replace(exchange, response=replace(exchange.response, usage=usage))
        return exchange, measures


@lru_cache(maxsize=256)
def _measure_fields(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in MEASURE_FIELDS if name in names)


def _request(prompt: str | None) -> Request | None:
    return None if prompt is None else Request("", (Message("user", (TextPart(prompt),)),))


def _judged_side(read: _Read, wanted: tuple[int, int]) -> tuple[int, AxisSide]:
    (exchange, measures), (pair, state) = read, wanted
    return pair, AxisSide(exchange, measures.latency_ms, measures.cost, _OUTCOMES[state])


def _noted(sides: Iterator[tuple[int, AxisSide]], found: list[int], *, most: int | None = None) -> Iterator[AxisSide]:
    """Yield sides, at most so many, and note the pairs that they are of."""
    for pair, side in islice(sides, most):
        found.append(pair)
        yield side


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
        reading = RowReading(run.format, work, self.prompts, named=run.named, columns=run.columns)
        alone = stands_alone(reader_for(run))
        for number, source in enumerate(run.sources):
            row, state = _SIDES[side]
            table = self.runs[side].table
            query = (
                f"WITH d AS (SELECT {row} AS place, pair, "
                f"CASE {state} WHEN 'a' THEN 1 WHEN 'n' THEN 0 WHEN 'e' THEN 3 WHEN 'u' THEN 4 ELSE 2 END AS state FROM {_DRAWN}), "
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
        yield from (traced for _, traced in source_exchanges(source, reader_for(run), limits))


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
