"""Rubrics as users write them: a YAML file, or the name of one that ships with Demur.

Laws: a rubric has a policy and at least two labels, each with its meaning and a score from 0 to 1; one that judges answers alone has a
label that is bad, or nothing would be counted; one that judges pairs has exactly the labels by which places can be swapped.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import msgspec

from demur.errors import InputError, ShapeError, UsageError
from demur.io.yaml import parse_yaml, read_yaml, typed_yaml
from demur.model.rubric import Rubric, RubricLabel, RubricMode

__all__ = ["builtin_rubrics", "parse_rubric", "read_rubric"]

_PAIRWISE = {"first_worse", "same", "second_worse"}
_LEAST_LABELS = 2
_HINT = "expected name, domain, policy and labels"


class _LabelRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    score: float
    meaning: str
    bad: bool = False


class _RubricRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    domain: str
    policy: str
    labels: dict[str, _LabelRow]
    mode: RubricMode = RubricMode.SINGLE


_KNOWN = (*_RubricRow.__struct_fields__, *_LabelRow.__struct_fields__)


def builtin_rubrics() -> tuple[str, ...]:
    """Return the names of the rubrics that ship with Demur."""
    folder = files("demur.axes") / "rubrics"
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def read_rubric(name: str) -> Rubric:
    """Return the rubric in a file, or the one of this name that ships with Demur."""
    if name in builtin_rubrics():
        return parse_rubric((files("demur.axes") / "rubrics" / f"{name}.yaml").read_text(encoding="utf-8"))
    if not Path(name).exists() and Path(name).suffix not in (".yaml", ".yml"):
        raise UsageError(f"no rubric `{name}`", hint=f"name a YAML file, or one of {', '.join(builtin_rubrics())}")
    try:
        return _rubric_in(read_yaml(name))
    except InputError as exc:
        raise exc if exc.source else exc.at(name, exc.line) from exc


def parse_rubric(text: str) -> Rubric:
    """Return the rubric in a YAML text."""
    return _rubric_in(parse_yaml(text))


def _rubric_in(loaded: object) -> Rubric:
    row = typed_yaml(loaded, _RubricRow, what="rubric", hint=_HINT, known=_KNOWN)
    labels = tuple(RubricLabel(name, said.score, said.meaning, said.bad) for name, said in row.labels.items())
    if not row.name.strip() or not row.policy.strip():
        raise ShapeError("a rubric without a name or a policy", hint=_HINT)
    if len(labels) < _LEAST_LABELS or not all(0 <= label.score <= 1 for label in labels):
        raise ShapeError(f"rubric `{row.name}`: two labels are needed, with scores from 0 to 1", hint=_HINT)
    if row.mode is RubricMode.PAIRWISE and {label.name for label in labels} != _PAIRWISE:
        raise ShapeError(f"rubric `{row.name}`: a pairwise one has the labels {', '.join(sorted(_PAIRWISE))}")
    if row.mode is RubricMode.SINGLE and not any(label.bad for label in labels):
        raise ShapeError(f"rubric `{row.name}`: no label is `bad`", hint="mark what is to be counted with `bad: true`")
    return Rubric(row.name, row.domain, row.policy, labels, row.mode)
