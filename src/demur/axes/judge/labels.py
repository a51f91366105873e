"""People's labels of some pairs by a rubric: a file of rows with a key and a label for each side.

A row names its pair by `id` (or `key`) and has a label of the rubric under `baseline` and under `candidate`; for a pairwise
rubric it says which is `worse`: `baseline`, `candidate` or `same`. `rubric` may be left out where there is only one.
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

    from demur.io.files import InputLimits
    from demur.model.axes import Rubric
    from demur.wire.fields import JsonObject

__all__ = ["PersonLabel", "read_judge_labels"]

_SIDES = ("baseline", "candidate")


@dataclass(frozen=True, slots=True)
class PersonLabel:
    """A person's labels of both responses of a pair, by one rubric; by a pairwise one each is `worse` or `same`."""

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
    if known[rubric].mode is RubricMode.PAIRWISE:
        worse = record.get("worse")
        if worse not in (*_SIDES, "same"):
            raise ShapeError("`worse`: expected which of the two answers is", hint=f"one of {', '.join(_SIDES)}, same")
        return PersonLabel(rubric, str(key), *("worse" if worse == side else "same" for side in _SIDES))
    labels = [label.name for label in known[rubric].labels]
    for side in _SIDES:
        # A misspelt label would silently count as another one.
        if record.get(side) not in labels:
            raise ShapeError(f"`{side}`: expected a label of `{rubric}`", hint=f"one of {', '.join(labels)}")
    return PersonLabel(rubric, str(key), *(str(record[side]) for side in _SIDES))
