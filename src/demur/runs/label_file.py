"""A file of people's labels: read, and appended to while somebody labels.

Plain CSV: `id`, `side`, `annotator`, `label`, `probability`, `stratum`, `source`, `line`; texts only where they are asked for. Each label is
on the disk before the next is shown. Labels of one's own may also be rows of `id`, `baseline` and `candidate`, in any format of rows.
"""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

from demur.errors import ShapeError, UsageError
from demur.io.files import input_limits
from demur.io.records import named_rows
from demur.measure.labels import kappa_of
from demur.model.columns import MISSING, NO_COLUMNS, column_at
from demur.model.evaluation import Label
from demur.model.labels import GivenLabel, Side
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from demur.model.columns import Columns
    from demur.model.labels import DrawnResponse
    from demur.wire.fields import JsonObject

__all__ = ["LABEL_WORDS", "OTHER", "LabelSession", "read_labels"]

OTHER = "other"
LABEL_WORDS = {"1": str(Label.REFUSAL), "2": str(Label.PARTIAL), "3": str(Label.COMPLIANCE), "0": OTHER}
"""The keys that a person presses, and the labels that they mean."""
_MIN_PROBABILITY = 1e-6
_COLUMNS = ("id", "side", "annotator", "label", "probability", "stratum", "source", "line")
_TEXTS = ("prompt", "response")
# Words that people and tools write for the two in rows of `baseline` and `candidate`.
_YES = frozenset({"abstained", "filtered", "true", "yes", "1"})
_NO = frozenset({"empty", "false", "no", "0"})
_OUTCOMES = {
    Label.REFUSAL: (Outcome.REFUSED, Outcome.FILTERED),
    Label.PARTIAL: (Outcome.PARTIAL,),
    Label.COMPLIANCE: (Outcome.COMPLIED,),
}


def read_labels(
    name: str, spool: Path, *, counted: Sequence[Outcome], columns: Columns = NO_COLUMNS
) -> tuple[GivenLabel, ...]:
    """Return the labels of a file; a person who says two things of one response is an error, saying one twice is not."""
    found: dict[tuple[str, str, str], GivenLabel] = {}
    for source, line, record in named_rows([name], spool, input_limits()):
        try:
            for label in _labels_of(record, source, line, counted=counted, columns=columns):
                before = found.setdefault((label.id, label.side, label.annotator), label)
                if before.word != label.word:
                    who = f"`{label.annotator}` labelled" if label.annotator else "there are two labels of"
                    what = f"{who} the {label.side} of `{label.id[:60]}` as {before.word} (line {before.line}) and as {label.word}"
                    raise ShapeError(what, hint="keep one of them, or name the annotators")  # noqa: TRY301 — placed below
        except ShapeError as exc:
            raise exc.at(source, line) from exc
    return tuple(found.values())


def _labels_of(
    record: JsonObject, source: str, line: int | None, *, counted: Sequence[Outcome], columns: Columns
) -> Iterator[GivenLabel]:
    key = next(filter(None, (_text(record, name) for name in (columns.id_field, "id", "key"))), "")
    if not key:
        raise ShapeError("no `id`", hint="a label names what it is of by `id`")
    probability = _probability(record)
    annotator = _text(record, "annotator")
    column = columns.label_column or "label"
    if column_at(record, column) is MISSING and ("baseline" in record or "candidate" in record):
        for side in (Side.BASELINE, Side.CANDIDATE):
            word, value = _plain_word(record.get(side), counted, columns, name=side)
            yield GivenLabel(key, side, annotator, word, value, probability, source, line)
        return
    given = column_at(record, column)
    # An empty cell is a label that somebody has still to give.
    if given is None or (isinstance(given, str) and not given.strip()):
        return
    if given is MISSING:
        raise ShapeError(f"no `{column}`", hint="expected `label`, or `baseline` and `candidate`")
    word, value = _plain_word(given, counted, columns, name=column)
    yield GivenLabel(key, _text(record, "side") or Side.RESPONSE, annotator, word, value, probability, source, line)


def _plain_word(given: object, counted: Sequence[Outcome], columns: Columns, *, name: str) -> tuple[str, float | None]:
    """Return a label in our spelling, and whether it is an abstention."""
    word = str(given).strip().lower()
    if not columns.label_map and word in _YES | _NO:
        return (str(Label.REFUSAL), 1.0) if word in _YES else (str(Label.COMPLIANCE), 0.0)
    try:
        label, spelt = columns.read_label(given)
    except ShapeError as exc:
        raise ShapeError(f"`{name}`: {exc.what}", hint=exc.hint) from exc
    if label is None:
        return OTHER, None
    if label not in _OUTCOMES:
        hint = f"expected one of {', '.join(LABEL_WORDS.values())}"
        raise ShapeError(f"`{name}`: `{spelt}` is a label of prompts", hint=hint)
    return str(label), float(any(outcome in counted for outcome in _OUTCOMES[label]))


def _probability(record: JsonObject) -> float | None:
    given = record.get("probability")
    if given is None or given == "":
        return None
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = 0.0
    # A row drawn once in a million draws would outweigh all others together.
    if not _MIN_PROBABILITY <= value <= 1:
        raise ShapeError(f"`probability` is `{str(given)[:40]}`", hint="expected a number from 0.000001 to 1")
    return value


def _text(record: JsonObject, name: str | None) -> str:
    value = column_at(record, name) if name else None
    return "" if value is None or value is MISSING else str(value).strip()


class LabelSession:
    """One person's way through a draw: what is to be labelled next, and the file that each label goes to at once."""

    def __init__(self, drawn: Sequence[DrawnResponse], path: Path, *, annotator: str, with_texts: bool = False) -> None:
        self.drawn, self.path, self.annotator = tuple(drawn), path, annotator
        self._columns = _COLUMNS + (_TEXTS if with_texts else ())
        self._drawn_by = {(each.id, str(each.side)): each for each in self.drawn}
        self._rows = self._resume()
        # In the order in which they were given, for undo.
        self._given = [self._place(row) for row in self._rows if row["annotator"] == annotator]

    @property
    def total(self) -> int:
        """How many responses were drawn."""
        return len(self.drawn)

    @property
    def done(self) -> int:
        """How many of them have this person's label."""
        return len(self._given)

    def next(self) -> DrawnResponse | None:
        """Return the next response without a label, None at the end."""
        given = set(self._given)
        return next((each for each in self.drawn if (each.id, str(each.side)) not in given), None)

    def label(self, place: tuple[str, str], word: str) -> None:
        """Write a label of a response of this draw to the file, and to the disk."""
        each = self._drawn_by.get(place)
        if each is None or word not in LABEL_WORDS.values():
            raise UsageError("no such response or label", hint="reload the page")
        if place in self._given:
            raise UsageError(f"`{place[0]}` has a label already", hint="undo it first")
        values = [each.id, each.side, self.annotator, word, f"{each.probability:.9g}", each.stratum, each.source]
        row = dict(
            zip(
                self._columns, [*map(str, values), str(each.line or ""), each.prompt or "", each.response], strict=False
            )
        )
        self._append([row])
        self._rows.append(row)
        self._given.append(place)

    def undo(self) -> bool:
        """Take this person's last label back, and return whether there was one."""
        if not self._given:
            return False
        last = self._given[-1]
        at = max(
            i for i, row in enumerate(self._rows) if self._place(row) == last and row["annotator"] == self.annotator
        )
        rows = self._rows[:at] + self._rows[at + 1 :]
        self._rewrite(rows)
        self._rows = rows
        self._given.pop()
        return True

    def kappa(self) -> float | None:
        """Return the agreement of all annotators in the file, None where no two labelled the same."""
        return kappa_of(
            GivenLabel(row["id"], row["side"], row["annotator"], row["label"], None, None, "", None)
            for row in self._rows
        )

    def _place(self, row: Mapping[str, str]) -> tuple[str, str]:
        return row["id"], row["side"]

    def _resume(self) -> list[dict[str, str]]:
        """Return the rows that the file has; its labels must be of this draw."""
        try:
            text = self.path.read_text(encoding="utf-8-sig") if self.path.exists() else ""
        except (OSError, UnicodeError) as exc:
            raise UsageError(f"`{self.path}` cannot be read", hint="name another file with --out") from exc
        if not text.strip():
            self._rewrite([])
            return []
        reader = csv.DictReader(io.StringIO(text))
        missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            hint = "name another file with --out"
            raise UsageError(f"`{self.path}` is no file of labels: it has no column `{missing[0]}`", hint=hint)
        self._columns = tuple(reader.fieldnames or ())
        rows = [{name: value or "" for name, value in row.items() if name is not None} for row in reader]
        lost = next((row for row in rows if self._place(row) not in self._drawn_by), None)
        if lost is not None:
            hint = "use the same runs and --seed and no smaller --n, or another --out"
            raise UsageError(
                f"`{self.path}` holds a label of `{lost['id'][:60]}`, which is not in this draw", hint=hint
            )
        # A larger sample has larger probabilities, for the labels that were given before too.
        known = [row | {"probability": f"{self._drawn_by[self._place(row)].probability:.9g}"} for row in rows]
        if known != rows:
            self._rewrite(known)
        return known

    def _append(self, rows: Sequence[Mapping[str, str]]) -> None:
        try:
            with self.path.open("a", encoding="utf-8", newline="") as out:
                csv.DictWriter(out, self._columns, extrasaction="ignore", restval="").writerows(rows)
                out.flush()
                os.fsync(out.fileno())
        except OSError as exc:
            raise self._not_written(exc) from exc

    def _rewrite(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Write the whole file anew beside itself, then put it in its place: it is never half there."""
        aside = self.path.with_name(self.path.name + ".part")
        try:
            with aside.open("w", encoding="utf-8", newline="") as out:
                writer = csv.DictWriter(out, self._columns, extrasaction="ignore", restval="")
                writer.writeheader()
                writer.writerows(rows)
                out.flush()
                os.fsync(out.fileno())
            aside.replace(self.path)
        except OSError as exc:
            raise self._not_written(exc) from exc

    def _not_written(self, exc: OSError) -> UsageError:
        return UsageError(f"`{self.path}` cannot be written: {(exc.strerror or '').lower()}", hint="check the folder")
