"""Records of a trace become judged rows in Arrow columns, with what could not be read beside them.

A row has its line, the keys that can pair it (its id, a hash of its prompt), its session, the verdict of `check`, and the fields that
the caller cuts by. Texts go no further than this. The only state is the reader's, so a block of lines can be judged in any process.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from demur.detect.batch import BatchJudge, Row, classify_batch
from demur.detect.check import classify
from demur.errors import InputError, JsonError
from demur.formats.flat_rows import flat_layout, is_plain
from demur.formats.flat_rows import open_reader as flat_reader
from demur.formats.mixed import reader_of
from demur.io.files import json_object
from demur.model.columns import NO_COLUMNS
from demur.model.exchange import Finish, TextPart
from demur.model.run import Skipped, Traced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from demur.formats.interface import TraceReader
    from demur.model.columns import Columns
    from demur.model.exchange import Response
    from demur.runs.judged import JudgedRun
    from demur.wire.fields import JsonObject

__all__ = ["Ingest", "Judged", "RowBuffer", "exchanges_of", "key_of_prompt", "reader_for"]

# Ends that say nothing about the content: only the text can tell.
_ORDINARY = frozenset({None, Finish.STOP, Finish.LENGTH})
# Enough that the cost of a batch is shared, and little enough that its texts fit into memory.
_ROWS_AT_ONCE = 8192
_NOT_PLAIN = r"^\s*(?:[\[{]|(?:null|NULL|NA|<NA>|NaN|nan|None)\s*$)"
_LINES = msgspec.json.Decoder(dict[str, Any])

# Line, id, prompt key, session, fields, the text to judge, and the verdict where structure already gave it.
_BufferedRow = tuple[int | None, str | None, int | None, str | None, tuple[str | None, ...], str | None, Row | None]


@dataclass(frozen=True, slots=True)
class Judged:
    """A batch of judged rows, the errors met on the way, and the rows that are no exchanges, by why."""

    rows: pa.RecordBatch
    errors: tuple[InputError, ...]
    skipped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Ingest:
    """How records are read and judged: the format's name, the fields to keep, the judge, and whether ids are verified.

    Where the user `named` the format, it alone reads; otherwise a row of another format is read by its own. It can be sent to other
    processes, and all that it does is without state of its own.
    """

    format: str = "flat"
    fields: tuple[str, ...] = ()
    judge: BatchJudge = field(default_factory=BatchJudge)
    verify: bool = False
    named: bool = False
    named_columns: Columns = NO_COLUMNS

    def with_format(self, name: str, *, named: bool = False) -> Ingest:
        """Return the same for another format."""
        return replace(self, format=name, named=named)

    def open_reader(self) -> TraceReader:
        """Return a reader for the records of one file."""
        return reader_of(self.format, named=self.named, columns=self.named_columns)

    def schema(self) -> pa.Schema:
        """Return the columns of judged rows; a field of the run's own stands under `field:` and its name."""
        import pyarrow as pa

        words = [(name, pa.string()) for name in ("outcome", "reason", "cause")]
        keys = [("line", pa.int64()), ("id", pa.string()), ("prompt", pa.int64()), ("session", pa.string())]
        fields = ((f"field:{name}", pa.string()) for name in self.fields)
        return pa.schema([*keys, ("score", pa.float64()), *words, *fields])

    def lines(self, piece: tuple[int, bytes]) -> Judged:
        """Return the judged rows in a block of whole JSON lines whose records stand alone, from its first line on."""
        first, block = piece
        rows, reader = RowBuffer(self), self.open_reader()
        for number, record in enumerate(_records(block), first):
            if record is not None:
                rows.take(number, record, reader)
        return rows.judged()

    def records(self, records: Iterable[tuple[int | None, JsonObject | InputError]]) -> Iterator[Judged]:
        """Yield the judged rows of one file's records, a batch at a time."""
        reader = self.open_reader()
        rows, last = RowBuffer(self), None
        for line, record in records:
            rows.take(line, record, reader)
            last = line
            if len(rows) >= _ROWS_AT_ONCE:
                yield rows.judged()
                rows = RowBuffer(self)
        rows.finish(last, reader)
        yield rows.judged()

    def columns(self, batch: pa.RecordBatch) -> pa.StructArray:
        """Return prompt key and verdict for each row of a table with the columns `response`, `prompt` and signals."""
        import pyarrow as pa

        verdicts = self._with_held(batch, classify_batch(batch, column="response", judge=self.judge))
        keys = [key_of_prompt(prompt) for prompt in batch.column("prompt").to_pylist()]
        return pa.StructArray.from_arrays(
            [pa.array(keys, pa.int64()), *verdicts.columns], names=["prompt", *verdicts.schema.names]
        )

    def _with_held(self, batch: pa.RecordBatch, verdicts: pa.RecordBatch) -> pa.RecordBatch:
        """Return the verdicts, those on cells that are no plain text as the exact reader gives them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        # Asked in Arrow first: nearly every table has no such cell.
        may_hold = pc.match_substring_regex(batch.column("response"), _NOT_PLAIN)
        if not pc.any(may_hold).as_py():
            return verdicts
        rows = [tuple(row.values()) for row in verdicts.to_pylist()]
        read = flat_reader()
        for at, record in enumerate(batch.to_pylist()):
            if not may_hold[at].as_py() or is_plain(record["response"]):
                continue
            for item in read.feed({name: value for name, value in record.items() if value is not None}):
                if isinstance(item, Traced):
                    found = classify(item.exchange.response, judge=self.judge.judge)
                    rows[at] = (str(found.outcome), found.score, found.reason, found.cause)
        columns = [
            pa.array(
                [None if value is None else str(value) if kind == pa.string() else value for value in column], kind
            )
            for column, kind in zip(zip(*rows, strict=True), verdicts.schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=verdicts.schema)


def reader_for(run: JudgedRun) -> TraceReader:
    """Return a reader that gives the exchanges of a run's files as they were judged."""
    return reader_of(run.format, named=run.named, columns=run.columns)


def key_of_prompt(prompt: str | None) -> int | None:
    """Return 64 bits that stand for a prompt, None where there is none; white space at its ends does not count."""
    if prompt is None or not (asked := prompt.strip()):
        return None
    # Two prompts of a million meet by chance once in 30 million runs (birthday bound at 64 bits).
    digest = blake2b(asked.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def exchanges_of(record: JsonObject | InputError, reader: TraceReader) -> Iterator[Traced]:
    """Yield the exchanges of a record, those before a fault in it included, as they were judged."""
    if isinstance(record, InputError):
        return
    try:
        yield from (item for item in reader.feed(record) if isinstance(item, Traced))
    except InputError:
        # It was counted as unreadable when the run was judged.
        return


def _records(block: bytes) -> Iterable[JsonObject | InputError | None]:
    """Return what each line of a block holds, None for a blank one."""
    try:
        # One call for the whole block takes half the time of a call for each line.
        records = _LINES.decode_lines(block)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    else:
        # Blank lines decode to nothing, but have a number.
        if len(records) == block.count(b"\n") + (not block.endswith(b"\n")):
            return records
    return (
        json_object(line, hint="each line is one record of the run") if line.strip() else None
        for line in block.split(b"\n")
    )


class RowBuffer:
    """Rows on their way to a batch; those that only their text can judge are judged together at the end."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._flat = ingest.format == "flat" and not ingest.verify
        # Most rows have none, and hashing them for every row's layout would cost as much as finding it.
        self._named = (ingest.named_columns,) if ingest.named_columns else ()
        self._rows: list[_BufferedRow] = []
        self._errors: list[InputError] = []
        self._skipped: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, line: int | None, record: JsonObject | InputError, reader: TraceReader) -> None:
        """Read one record; what is wrong with it is kept with its line."""
        if isinstance(record, InputError):
            self._fail(record, line)
            return
        fields = self._ingest.fields
        # Most rows of most runs are plain columns, which are read ten times as fast without building an exchange.
        layout = flat_layout(tuple(record), fields, *self._named) if self._flat else None
        if layout is not None and (row := layout.row(record)) is not None:
            key, prompt, session, text, labels = row
            self._rows.append((line, key, key_of_prompt(prompt), session, labels, text, None))
            return
        try:
            # Shadow names a record by the hash of its payload; a changed payload shows.
            if self._ingest.verify:
                _verify(record)
            for item in reader.feed(record):
                self._add(item, line)
        except InputError as exc:
            self._fail(exc, line)

    def finish(self, line: int | None, reader: TraceReader) -> None:
        """Take what the reader still holds at the end of the file."""
        try:
            for item in reader.close():
                self._add(item, line)
        except InputError as exc:
            self._fail(exc, line)

    def judged(self) -> Judged:
        """Return the batch."""
        import pyarrow as pa

        texts = [text or "" for *_, text, verdict in self._rows if verdict is None]
        judged = iter(self._ingest.judge.texts(texts))
        verdicts = [next(judged) if row[6] is None else row[6] for row in self._rows]
        outcomes, scores, reasons, causes = zip(*verdicts, strict=True) if verdicts else ((),) * 4
        lines, ids, prompts, sessions, labels, _, _ = zip(*self._rows, strict=True) if self._rows else ((),) * 7
        fields = zip(*labels, strict=True) if labels else ((),) * len(self._ingest.fields)
        columns = (lines, ids, prompts, sessions, scores, outcomes, reasons, causes, *fields)
        schema = self._ingest.schema()
        arrays = [_array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        return Judged(pa.RecordBatch.from_arrays(arrays, schema=schema), tuple(self._errors), dict(self._skipped))

    def _fail(self, error: InputError, line: int | None) -> None:
        self._errors.append(error if error.source else error.at("", line))

    def _add(self, item: Traced | Skipped, line: int | None) -> None:
        if isinstance(item, Skipped):
            # Counted and shown: a run of which half is skipped must not look like a small one.
            self._skipped[item.why] += 1
            return
        exchange = item.exchange
        prompt = exchange.request.prompt if exchange.request else None
        known = dict(item.fields)
        labels = tuple(known.get(name) for name in self._ingest.fields)
        text, verdict = _text_to_judge(exchange.response), None
        if text is None:
            found = classify(exchange.response, judge=self._ingest.judge.judge)
            verdict = (found.outcome, found.score, found.reason, found.cause)
        self._rows.append((line, exchange.id, key_of_prompt(prompt), exchange.session, labels, text, verdict))


def _array(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Return a column; half of a surrogate pair, which JSON can spell and UTF-8 cannot, is shown as unknown."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        whole = [v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in values]
        return pa.array(whole, kind)


def _text_to_judge(response: Response | None) -> str | None:
    """Return the text of a response that only its text can judge, None where the provider says something about it."""
    # Whatever the provider says about a response comes before its text.
    if response is None or response.signals or response.error or not response.complete or len(response.choices) != 1:
        return None
    choice = response.choices[0]
    if choice.finish not in _ORDINARY or not all(isinstance(part, TextPart) for part in choice.parts):
        return None
    return choice.text if choice.text.strip() else None


def _verify(record: JsonObject) -> None:
    """Raise where an `.agentlog` record's id is not the hash of its payload."""
    from demur.wire.agentlog import record_id

    claimed = record.get("id")
    actual = record_id(record.get("payload"))
    if claimed != actual:
        raise JsonError(
            f"id `{str(claimed)[:24]}` is not the hash of the payload", hint=f"expected {actual[:24]}…: it was changed"
        )
