"""Labelled sets, read row by row: JSON lines or CSV.

A row has `label`; the text in `response`, `text`, `completion`, `output` or `answer` (labels of responses), or in
`prompt` or `text` (labels of prompts); optionally `id`, `source`, and `lang`, `model`, `category`, `trap`, `reason`,
each in the row or in its `meta`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from demur.errors import EmptyInputError, InputError, JsonError, ShapeError
from demur.io.files import csv_rows, json_rows, open_source
from demur.model.evaluation import Dimension, Label, LabelledText, Side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from demur.io.files import InputLimits

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
_TEXT_KEYS = {Side.RESPONSE: ("response", "text", "completion", "output", "answer"), Side.PROMPT: ("prompt", "text")}
_FACET_KEYS = {
    Dimension.LANGUAGE: ("lang", "language"),
    Dimension.MODEL: ("model",),
    Dimension.CATEGORY: ("category", "cat", "cats", "type", "method", "system"),
    Dimension.TRAP: ("trap",),
    Dimension.REASON: ("reason",),
}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A sound row that has no say, and why."""

    why: str


def read_labelled(name: str, limits: InputLimits) -> Iterator[LabelledText | LeftOut | InputError]:
    """Yield the rows of a labelled set, or of standard input (JSON lines) where `name` is `-`."""
    source = source_name(name)
    read = _table_rows if Path(name).suffix.lower() == ".csv" else json_rows
    count = 0
    try:
        with open_source(name) as stream:
            for line, row in read(stream, limits):
                count += 1
                try:
                    # An unusable row is an error in its place, and the next one is read all the same.
                    yield row.at(source, line) if isinstance(row, InputError) else _labelled(row, source, line)
                except InputError as exc:
                    yield exc.at(source, line)
    except OSError as exc:
        yield InputError((exc.strerror or "cannot be read").lower(), source=source, hint="check the path")
    except InputError as exc:
        yield exc.at(source, exc.line)
    else:
        if not count:
            yield EmptyInputError("no rows in it", source=source, hint="expected one labelled text a line")


def source_name(name: str) -> str:
    """Return what a file is called in a report: always text that can be written, whatever bytes its name holds."""
    return "<stdin>" if name == "-" else name.encode("utf-8", "replace").decode("utf-8")


def _table_rows(stream: IO[bytes], limits: InputLimits) -> Iterator[tuple[int, Mapping[str, Any] | InputError]]:
    """Yield the rows of a CSV by the lower-case names of its columns."""
    for line, row in csv_rows(stream, limits):
        if isinstance(row, InputError):
            yield line, row
            continue
        cells = {name.lower(): cell for name, cell in row.items()}
        if "label" not in cells:
            raise ShapeError("no `label` in the header", hint="expected columns such as text,label,lang,category")
        yield line, cells


def _labelled(row: Mapping[str, Any], source: str, line: int) -> LabelledText | LeftOut:
    word = row.get("label")
    if not isinstance(word, str) or not word.strip():
        raise ShapeError("no label", hint=f"expected one of {', '.join(Label)}")
    # "2_full_refusal" and "Full refusal" are spellings of one word.
    plain = re.sub(r"^\d+_", "", re.sub(r"[\s-]+", "_", word.strip().lower()))
    # Not an error: the set's own authors could not decide.
    if plain in _UNCLEAR:
        return LeftOut(f"labelled {plain}")
    label = _LABEL_OF.get(plain)
    if label is None:
        raise ShapeError(f"unknown label `{word[:40]}`", hint=f"expected one of {', '.join(Label)}")
    # The label says which side of the exchange is judged, whatever else the row holds.
    keys = _TEXT_KEYS[label.side]
    text = next((row[key] for key in keys if row.get(key) is not None), None)
    if not isinstance(text, str):
        raise ShapeError(f"no text for a {label.side} label", hint=f"expected a string in {' or '.join(keys)}")
    stem = "stdin" if source == "<stdin>" else Path(source).stem
    named = row.get("id")
    facets = ((Dimension.SET, _word(row.get("source")) or stem), *_facets(row, plain, label))
    try:
        "".join([text, _word(named), *(value for _, value in facets)]).encode()
    except UnicodeEncodeError as exc:
        # JSON can spell half of a surrogate pair, but no report could be written with it.
        raise JsonError("not JSON (half of a surrogate pair)", hint="expected one JSON object a line") from exc
    return LabelledText(_word(named) or f"{stem}:{line}", text, label, source, line, facets)


def _facets(row: Mapping[str, Any], word: str, label: Label) -> Iterator[tuple[Dimension, str]]:
    meta = row.get("meta")
    places = (row, meta) if isinstance(meta, dict) else (row,)
    for dimension, keys in _FACET_KEYS.items():
        found = next((place[key] for key in keys for place in places if place.get(key) not in (None, "")), None)
        # The spelling of an attack's label says what kind it is: `injection`, `jailbreak`, `extraction`.
        if found is None and dimension is Dimension.CATEGORY and label is Label.ATTACK:
            found = word
        for value in found if isinstance(found, list) else [found]:
            if shown := _word(value):
                yield dimension, shown


def _word(value: object) -> str:
    """Return a name as it can be grouped by: a string or a number, or nothing."""
    return str(value).strip() if isinstance(value, str | int | float) else ""
