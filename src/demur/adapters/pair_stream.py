"""Paired exchanges of two loaded runs, read again from their sources: for axes that need texts, calls and what they took.

Laws: pairs come in the order of the baseline's rows, so that the turns of a session keep theirs; beyond a number of pairs whole sessions (or
all repeats of a question) are drawn by a seed, the same ones whatever the order of the files; of a run no more than the drawn rows
is ever held, one side of them, and of each row only what an axis reads; each source is read once, and one without a drawn
row is not opened.
"""

# ruff: noqa: S608 — queries are built of our own names and of quoted ones
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from demur.adapters.records import read_records
from demur.adapters.row_measures import cost_of_row, latency_of_row, usage_of_row
from demur.adapters.sources import Kind
from demur.adapters.sql import literal
from demur.errors import InputError
from demur.model.axes import PairedExchange
from demur.model.exchange import Exchange, Message, OpaquePart, Request, TextPart, ThinkingPart, ToolResultPart
from demur.model.run import Traced
from demur.wire.traces.formats import format_named
from demur.wire.traces.interface import stands_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from demur.adapters.config import InputLimits
    from demur.adapters.engine import Engine, LoadedRun
    from demur.adapters.sources import Source
    from demur.model.exchange import Choice, Part, Response

__all__ = ["MOST_PAIRS", "DrawnPairs", "draw_pairs", "drawn_ids", "most_pairs", "run_ids", "run_rows", "stream_pairs"]

MOST_PAIRS = 200_000
_MOST_BYTES = 1 << 30
"""What the drawn rows may take up in their sources: answers may be long."""
_PACKED = 5
"""How much larger a compressed source, or a table of columns, is once it is text."""
_DRAWN = "drawn_pairs"


@dataclass(frozen=True, slots=True)
class DrawnPairs:
    """How many pairs have a row in both runs, and how many of them are read."""

    pairs: int
    read: int


@dataclass(frozen=True, slots=True)
class _PairSide:
    exchange: Exchange
    latency_ms: float | None
    cost: float | None


def most_pairs(runs: tuple[LoadedRun, LoadedRun]) -> int:
    """Return how many pairs of these runs are read at most: fewer where rows are long, by the size of their sources."""
    row_bytes = sum(sum(map(_text_bytes, run.sources)) / max(1, run.rows) for run in runs)
    return max(1, min(MOST_PAIRS, int(_MOST_BYTES / max(1.0, row_bytes))))


def draw_pairs(engine: Engine, *, seed: int = 0, most: int = MOST_PAIRS) -> DrawnPairs:
    """Choose the pairs to read among those that `pair_runs` made: all, or a sample of whole sessions.

    A single session that is larger than `most` is cut after its first rows, since nothing of it could be read otherwise.
    """
    whole = "base IS NOT NULL AND cand IS NOT NULL"
    total = int(engine.ask(f"SELECT count(*) FROM pairs WHERE {whole}")[0][0])
    group = "CASE WHEN session IS NULL THEN 'k' || key ELSE 's' || session END"
    columns = "key, base, cand, session"
    if total <= most:
        query = f"SELECT {columns} FROM pairs WHERE {whole}"
    else:
        order = f"md5({literal(str(seed))} || '|' || g), g"
        query = (
            f"WITH rows AS (SELECT {columns}, {group} AS g FROM pairs WHERE {whole}), "
            "sizes AS (SELECT g, count(*) AS n FROM rows GROUP BY g), "
            f"taken AS (SELECT g, n, sum(n) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS upto FROM sizes) "
            f"SELECT {columns} FROM rows JOIN taken USING (g) "
            f"WHERE upto <= {most} OR upto = n ORDER BY base LIMIT {most}"
        )
    engine.ask(f"CREATE OR REPLACE TEMP TABLE {_DRAWN} AS {query}")
    return DrawnPairs(total, int(engine.ask(f"SELECT count(*) FROM {_DRAWN}")[0][0]))


def drawn_ids(engine: Engine, runs: tuple[LoadedRun, LoadedRun]) -> AbstractSet[str]:
    """Return the ids of the drawn rows, by which the requests of a batch are found."""
    sides = zip(runs, ("base", "cand"), strict=True)
    found = (f"SELECT id FROM {run.table} r JOIN {_DRAWN} d ON r.rowid = d.{side}" for run, side in sides)
    return frozenset(label for (label,) in engine.ask(" UNION ".join(found)) if label is not None)


def run_ids(engine: Engine, run: LoadedRun) -> AbstractSet[str]:
    """Return the ids of all rows of a run."""
    return frozenset(label for (label,) in engine.ask(f"SELECT DISTINCT id FROM {run.table} WHERE id IS NOT NULL"))


def stream_pairs(
    engine: Engine,
    runs: tuple[LoadedRun, LoadedRun],
    *,
    limits: InputLimits,
    shown_key: Callable[[str], str] = str,
    prompts: Mapping[str, str] | None = None,
) -> Iterator[PairedExchange]:
    """Yield the drawn pairs; `prompts` are what rows of a batch asked, by their ids, `shown_key` what a pair is called."""
    asked = prompts or {}
    after = {
        place: _pair_side(traced, runs[1].format, asked)
        for place, traced in _drawn_rows(engine, runs[1], "cand", limits)
    }
    # DuckDB gives rows in pieces, and the rows of the baseline are read between two of them.
    drawn = {base: (key, cand, session) for base, key, cand, session in _drawn_keys(engine)}
    for place, traced in _drawn_rows(engine, runs[0], "base", limits):
        key, cand, session = drawn.pop(place)
        second = after.pop(cand, None)
        if second is None:
            continue
        first = _pair_side(traced, runs[0].format, asked)
        yield PairedExchange(
            shown_key(key),
            session,
            first.exchange,
            second.exchange,
            first.latency_ms,
            second.latency_ms,
            first.cost,
            second.cost,
        )


def run_rows(run: LoadedRun, *, limits: InputLimits) -> Iterator[Traced]:
    """Yield every exchange of a run that was read, in the order of its files."""
    for source in run.sources:
        yield from _rows_in_order(source, run.format, limits)


def _text_bytes(source: Source) -> int:
    packed = source.compression is not None or source.kind in (Kind.PARQUET, Kind.ARCHIVE)
    return source.size_bytes * (_PACKED if packed else 1)


def _drawn_keys(engine: Engine) -> list[tuple[int, str, int, str | None]]:
    return [
        (base, key, cand, session)
        for base, key, cand, session in engine.ask(f"SELECT base, key, cand, session FROM {_DRAWN}")
    ]


def _drawn_rows(engine: Engine, run: LoadedRun, side: str, limits: InputLimits) -> Iterator[tuple[int, Traced]]:
    """Yield the drawn rows of one run with their places, in order."""
    wanted: dict[int, set[int]] = {}
    joined = f"FROM {run.table} r JOIN {_DRAWN} d ON r.rowid = d.{side}"
    for place, number in engine.ask(f"SELECT r.rowid, r.source {joined}"):
        wanted.setdefault(number, set()).add(place)
    for number in sorted(wanted):
        source = run.sources[number]
        places = wanted[number]
        if source.kind is Kind.LINES and stands_alone(format_named(run.format).open_reader()):
            lines = f"SELECT r.line {joined} WHERE r.source = {number}"
            query = (
                f"SELECT line, min(rowid) FROM {run.table} WHERE source = {number} AND line IN ({lines}) GROUP BY line"
            )
            rows = _rows_of_lines(source, run.format, dict(engine.ask(query)), limits)
        else:
            rows = enumerate(_rows_in_order(source, run.format, limits), run.starts[number])
        yield from ((place, traced) for place, traced in rows if place in places)


def _rows_of_lines(
    source: Source, format_name: str, firsts: Mapping[int, int], limits: InputLimits
) -> Iterator[tuple[int, Traced]]:
    """Yield the exchanges of some lines that stand alone; `firsts` are the places of the first exchange of each."""
    reader = format_named(format_name).open_reader()
    for line, record in read_records(source, limits, only=frozenset(firsts)):
        if line is None or isinstance(record, InputError):
            continue
        try:
            yield from enumerate((item for item in reader.feed(record) if isinstance(item, Traced)), firsts[line])
        except InputError:
            continue


def _rows_in_order(source: Source, format_name: str, limits: InputLimits) -> Iterator[Traced]:
    reader = format_named(format_name).open_reader()
    for _, record in read_records(source, limits):
        if isinstance(record, InputError):
            continue
        try:
            yield from (item for item in reader.feed(record) if isinstance(item, Traced))
        except InputError:
            continue
    yield from (item for item in reader.close() if isinstance(item, Traced))


def _pair_side(traced: Traced, format_name: str, asked: Mapping[str, str]) -> _PairSide:
    exchange = traced.exchange
    prompt = exchange.request.prompt if exchange.request else asked.get(exchange.id or "")
    request = None if prompt is None else Request("", (Message("user", (TextPart(prompt),)),))
    response = None if exchange.response is None else _slim_response(exchange.response, traced)
    slim = Exchange(exchange.shape, response, request, exchange.id, exchange.session)
    return _PairSide(slim, latency_of_row(traced, format_name), cost_of_row(traced))


def _slim_response(response: Response, traced: Traced) -> Response:
    choices = tuple(_slim_choice(choice) for choice in response.choices)
    return replace(response, choices=choices, usage=usage_of_row(traced), rest=b"{}")


def _slim_choice(choice: Choice) -> Choice:
    return replace(choice, parts=tuple(map(_slim_part, choice.parts)))


def _slim_part(part: Part) -> Part:
    """Return a part without what no axis reads; that it is there may still matter to a verdict."""
    match part:
        case OpaquePart(kind, _):
            return OpaquePart(kind, b"{}")
        case ThinkingPart(text):
            return ThinkingPart(text[:1])
        case ToolResultPart(call, text):
            return ToolResultPart(call, text[:1])
        case _:
            return part
