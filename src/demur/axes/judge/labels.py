"""What people say of some pairs in the labels of a rubric: a file of rows with a key and a label for each side.

Laws: a row names its pair by `id` (or `key`) and has a label of the rubric under `baseline` and under `candidate`, or, for a rubric that holds
two answers against each other, which is `worse`: `baseline`, `candidate` or `same`; any other word, and a pair that is labelled
twice for a rubric, is an error that names the row; `rubric` may be left out where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from demur.errors import EmptyInputError, InputError, ShapeError
from demur.io.records import named_rows
from demur.model.axes import RubricMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.io.config import InputLimits
    from demur.model.axes import Rubric
    from demur.wire.fields import JsonObject

__all__ = ["PersonLabel", "read_judge_labels"]

_SIDES = ("baseline", "candidate")


@dataclass(frozen=True, slots=True)
class PersonLabel:
    """What a person says of both answers of a pair, by one rubric; by a pairwise one each is `worse` or `same`."""

    rubric: str
    key: str
    baseline: str
    candidate: str


def read_judge_labels(name: str, rubrics: Sequence[Rubric], *, limits: InputLimits) -> tuple[PersonLabel, ...]:
    """Return the labels in a file, each of one of these rubrics."""
    known = {rubric.name: rubric for rubric in rubrics}
    found: dict[tuple[str, str], PersonLabel] = {}
    with TemporaryDirectory(prefix="demur-") as folder:
        for source, line, record in named_rows([name], Path(folder), limits):
            try:
                label = _person_label(record, known)
            except InputError as exc:
                raise exc.at(source, line) from exc
            if (label.rubric, label.key) in found:
                hint = "keep one row a pair and rubric"
                raise ShapeError(f"`{label.key}` is labelled twice", source=source, line=line, hint=hint)
            found[label.rubric, label.key] = label
    if not found:
        raise EmptyInputError("no labels in it", source=name, hint="rows have id, baseline and candidate")
    return tuple(found.values())


def _person_label(record: JsonObject, known: Mapping[str, Rubric]) -> PersonLabel:
    rubric = record.get("rubric") or (next(iter(known)) if len(known) == 1 else None)
    if not isinstance(rubric, str) or rubric not in known:
        raise ShapeError(f"`rubric`: expected one of {', '.join(known)}", hint="say which rubric a label is of")
    key = record.get("id", record.get("key"))
    if not isinstance(key, str | int) or isinstance(key, bool) or key == "":
        raise ShapeError("`id`: expected the key of a pair", hint="as the runs call it")
    labels = _worse_of(record) if known[rubric].mode is RubricMode.PAIRWISE else _label_of_each(record, known[rubric])
    return PersonLabel(rubric, str(key), *labels)


def _label_of_each(record: JsonObject, rubric: Rubric) -> tuple[str, str]:
    before, after = (record.get(side) for side in _SIDES)
    labels = [label.name for label in rubric.labels]
    for side, said in zip(_SIDES, (before, after), strict=True):
        if said not in labels:
            raise ShapeError(f"`{side}`: expected a label of `{rubric.name}`", hint=f"one of {', '.join(labels)}")
    return str(before), str(after)


def _worse_of(record: JsonObject) -> tuple[str, str]:
    said = record.get("worse")
    if said not in (*_SIDES, "same"):
        raise ShapeError("`worse`: expected which of the two answers is", hint=f"one of {', '.join(_SIDES)}, same")
    before, after = ("worse" if said == side else "same" for side in _SIDES)
    return before, after
