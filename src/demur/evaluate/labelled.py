"""Labelled sets, read row by row: JSON lines or CSV.

Laws: a row that cannot be used yields its error, with file and line, and the next one is read all the same; a label that
its own set calls unclear is left out, not bad; the label says which side of the exchange is judged; no line and no
CSV file beyond the limits is held in memory.

A row has `label`; the text in `response`, `text`, `completion`, `output` or `answer` (labels of responses), or in
`prompt` or `text` (labels of prompts); optionally `id`, `source`, and `lang`, `model`, `category`, `trap`, `reason`,
each in the row or in its `meta`.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from demur.errors import EmptyInputError, EncodingError, InputError, JsonError, ShapeError, SizeLimitError
from demur.io.files import bounded_document, bounded_lines, open_source
from demur.model.evaluation import Dimension, Label, LabelledText, Side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from demur.io.config import InputLimits

__all__ = ["LeftOut", "read_labelled", "source_name"]

_LABELS = {
    Label.REFUSAL: ("refusal", "refused", "refuse", "full_refusal", "rejected", "rejection", "abstention"),
    Label.PARTIAL: ("partial", "partial_refusal", "partially_refused", "partial_compliance"),
    Label.COMPLIANCE: ("compliance", "complied", "comply", "compliant", "full_compliance", "answered"),
    Label.ATTACK: (
        "attack",
        "jailbreak",
        "injection",
        "prompt_injection",
        "extraction",
        "prompt_extraction",
        "adversarial",
    ),
    Label.HARMFUL: ("harmful", "harm"),
    Label.BENIGN: ("benign", "harmless"),
}
_LABEL_OF = {word: label for label, words in _LABELS.items() for word in words}
_UNCLEAR = frozenset({"other", "unclear", "invalid", "ambiguous"})
_TEXT_KEYS = {
    Side.RESPONSE: ("response", "text", "completion", "output", "answer"),
    Side.PROMPT: ("prompt", "text"),
}
_FACET_KEYS = {
    Dimension.LANGUAGE: ("lang", "language"),
    Dimension.MODEL: ("model",),
    Dimension.CATEGORY: ("category", "cat", "cats", "type", "method", "system"),
    Dimension.TRAP: ("trap",),
    Dimension.REASON: ("reason",),
}
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A sound row that has no say, and why."""

    why: str


def read_labelled(name: str, limits: InputLimits) -> Iterator[LabelledText | LeftOut | InputError]:
    """Yield the rows of a labelled set, or of standard input (JSON lines) where `name` is `-`."""
    source = source_name(name)
    read = _csv_rows if Path(name).suffix.lower() == ".csv" else _json_rows
    count = 0
    try:
        with open_source(name) as stream:
            for line, row in read(stream, limits):
                count += 1
                yield _usable(row, source, line)
    except OSError as exc:
        yield InputError((exc.strerror or "cannot be read").lower(), source=source, hint="check the path")
    except InputError as exc:
        yield exc.at(source)
    else:
        if not count:
            yield EmptyInputError("no rows in it", source=source, hint="expected one labelled text a line")


def source_name(name: str) -> str:
    """Return what a file is called in a report: always text that can be written, whatever bytes its name holds."""
    return "<stdin>" if name == "-" else name.encode("utf-8", "replace").decode("utf-8")


def _json_rows(stream: IO[bytes], limits: InputLimits) -> Iterator[tuple[int, Mapping[str, Any] | InputError]]:
    for number, line in bounded_lines(stream, limits):
        if isinstance(line, SizeLimitError):
            yield number, line
        elif (row := line.removeprefix(_BOM) if number == 1 else line).strip():
            yield number, _object(row)


def _object(line: bytes) -> Mapping[str, Any] | InputError:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as exc:
        return JsonError(f"not JSON ({str(exc).removeprefix('JSON is ')})", hint="expected one JSON object a line")
    except UnicodeDecodeError:
        return _not_utf8()
    if not isinstance(row, dict):
        return ShapeError("expected a JSON object", hint="a row has a text and a `label`")
    return row


def _csv_rows(stream: IO[bytes], limits: InputLimits) -> Iterator[tuple[int, Mapping[str, Any] | InputError]]:
    whole = bounded_document(stream, limits)
    try:
        text = whole.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _not_utf8() from exc
    yield from _table(text, limits)


def _table(text: str, limits: InputLimits) -> list[tuple[int, Mapping[str, Any] | InputError]]:
    """Return the rows below a header, each with the line that it starts on."""
    # The module refuses fields above 128 KiB by a setting of the whole process; ours stands only while this runs.
    before = csv.field_size_limit(limits.line_bytes)
    try:
        reader = csv.reader(io.StringIO(text, newline=""))
        header = [name.strip().lower() for name in next(reader, [])]
        if header and "label" not in header:
            raise ShapeError("no `label` in the header", hint="expected columns such as text,label,lang,category")
        rows: list[tuple[int, Mapping[str, Any] | InputError]] = []
        start = reader.line_num + 1
        for cells in reader:
            if cells:
                rows.append((start, _cells(header, cells)))
            start = reader.line_num + 1
    except csv.Error as exc:
        raise ShapeError(f"not CSV ({exc})", hint="expected a header and one row a text") from exc
    finally:
        csv.field_size_limit(before)
    return rows


def _cells(header: list[str], cells: list[str]) -> Mapping[str, Any] | InputError:
    if len(cells) != len(header):
        return ShapeError(f"{len(cells)} cells below a header of {len(header)}", hint="quote texts that hold commas")
    return dict(zip(header, cells, strict=True))


def _usable(row: Mapping[str, Any] | InputError, source: str, line: int) -> LabelledText | LeftOut | InputError:
    try:
        if isinstance(row, InputError):
            raise row
        return _labelled(row, source, line)
    except InputError as exc:
        return exc.at(source, line)


def _labelled(row: Mapping[str, Any], source: str, line: int) -> LabelledText | LeftOut:
    word = row.get("label")
    if not isinstance(word, str) or not word.strip():
        raise ShapeError("no label", hint=f"expected one of {', '.join(Label)}")
    # "2_full_refusal" and "Full refusal" are spellings of one word.
    plain = re.sub(r"^\d+_", "", re.sub(r"[\s-]+", "_", word.strip().lower()))
    if plain in _UNCLEAR:
        return LeftOut(f"labelled {plain}")
    label = _LABEL_OF.get(plain)
    if label is None:
        raise ShapeError(f"unknown label `{word[:40]}`", hint=f"expected one of {', '.join(Label)}")
    keys = _TEXT_KEYS[label.side]
    text = next((row[key] for key in keys if row.get(key) is not None), None)
    if not isinstance(text, str):
        raise ShapeError(f"no text for a {label.side} label", hint=f"expected a string in {' or '.join(keys)}")
    stem = "stdin" if source == "<stdin>" else Path(source).stem
    named = row.get("id")
    facets = ((Dimension.SET, _word(row.get("source")) or stem), *_facets(row, plain, label))
    return LabelledText(_word(named) or f"{stem}:{line}", text, label, source, line, facets)


def _facets(row: Mapping[str, Any], word: str, label: Label) -> Iterator[tuple[Dimension, str]]:
    meta = row.get("meta")
    places = (row, meta) if isinstance(meta, dict) else (row,)
    for dimension, keys in _FACET_KEYS.items():
        found = next((place[key] for key in keys for place in places if place.get(key) not in (None, "")), None)
        if found is None and dimension is Dimension.CATEGORY and label is Label.ATTACK:
            found = word
        for value in found if isinstance(found, list) else [found]:
            if shown := _word(value):
                yield dimension, shown


def _word(value: object) -> str:
    """Return a name as it can be grouped by: a string or a number, or nothing."""
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _not_utf8() -> EncodingError:
    return EncodingError("not UTF-8", hint="convert it: iconv -f LATIN1 -t UTF-8")
