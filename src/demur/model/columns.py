"""The columns of somebody's own rows: which of them is what, and what their labels mean.

Nothing is guessed. A name is looked up as it is written, and where no column has it, dots lead into objects (`output.text`). A label
has to be in the user's map; without one it has to be a word that people use for the outcome.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypedDict

from demur.errors import ShapeError, UsageError
from demur.model.evaluation import Label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["MISSING", "NO_COLUMNS", "ColumnNames", "Columns", "column_at", "columns_of", "label_pairs", "unknown_name"]

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
_OTHER = "other"
_UNCLEAR = frozenset({_OTHER, "unclear", "invalid", "ambiguous"})
_MAP_EXAMPLE = "write it as 1=refusal,0=compliance"
_NAMES_SHOWN = 12

MISSING = object()
"""What a record has at a name that it does not have; null is a value."""


class ColumnNames(TypedDict, total=False):
    """What a caller may say about the columns of rows; a map of labels is a mapping, or a text such as `1=refusal,0=compliance`."""

    response_field: str | None
    prompt_field: str | None
    id_field: str | None
    session_field: str | None
    label_field: str | None
    label_map: Mapping[Any, str] | str


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a user named; the others are found by the names that people use.

    A named response makes any row a flat one, whatever else it holds. `label_map` has the user's labels with our words for them.
    """

    response_field: str | None = None
    prompt_field: str | None = None
    id_field: str | None = None
    session_field: str | None = None
    label_field: str | None = None
    label_map: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        """Return whether any column is named."""
        return any(True for _ in self.named())

    @property
    def label_column(self) -> str | None:
        """The column of labels: the one that is named, or `label` where only their meaning is given."""
        return self.label_field or ("label" if self.label_map else None)

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield the flag and the name of each column that is named."""
        for role in ("response", "prompt", "id", "session", "label"):
            name = self.label_column if role == "label" else getattr(self, f"{role}_field")
            if name is not None:
                yield f"--{role}-field", name

    def format_for(self, given: str | None) -> str | None:
        """Return the format to read by, None where it is to be sniffed; one that has no columns to name is an error."""
        if self.response_field is None:
            return given
        if given is not None and given.strip().lower() != "flat":
            what = f"`--response-field` names a column of flat rows, and the format is to be {given}"
            raise UsageError(what, hint="drop one of --format and --response-field")
        return "flat"

    def check_format(self, found: str, source: str) -> None:
        """Raise where columns are named of a run that is in a tool's own format: they would be ignored without a word."""
        first = next(self.named(), None)
        if first is not None and found != "flat":
            what = f"`{first[0]} {first[1]}` names a column, but `{source}` is in format {found}"
            raise UsageError(what, hint=f"drop {first[0]}, or name the column of the responses too: --response-field")

    def check_records(self, records: Iterable[object], *, rows: str = "no row has") -> None:
        """Raise where none of the records has a column that is named; `rows` are the words for how many were looked at."""
        wanted = dict(self.named())
        known: dict[str, None] = {}
        if not wanted:
            return
        for record in records:
            if isinstance(record, dict):
                known.update(dict.fromkeys(_names_in(record)))
                wanted = {flag: name for flag, name in wanted.items() if column_at(record, name) is MISSING}
                if not wanted:
                    return
        for flag, name in wanted.items():
            raise unknown_name(name, known, what=f"{rows} a column", flag=flag)

    def read_label(self, value: object) -> tuple[Label | None, str]:
        """Return what a label says, None where its author could not decide, and its word in our spelling."""
        word = _label_text(value)
        if not word:
            raise ShapeError("no label", hint=f"expected one of {', '.join(Label)}")
        if self.label_map:
            said = dict(self.label_map).get(word)
            if said is None:
                there = ", ".join(f"`{each}`" for each, _ in self.label_map)
                hint = f"it has {there}: add `{word[:40]}=…` to --label-map"
                raise ShapeError(f"label `{word[:40]}` is not in the label map", hint=hint)
            return (None if said == _OTHER else Label(said)), said
        # "2_full_refusal" and "Full refusal" are spellings of one word.
        plain = re.sub(r"^\d+_", "", re.sub(r"[\s-]+", "_", word.lower()))
        if plain in _UNCLEAR:
            return None, plain
        if plain not in _LABEL_OF:
            hint = f"expected one of {', '.join(Label)}; or say what yours mean: --label-map"
            raise ShapeError(f"unknown label `{word[:40]}`", hint=hint)
        return _LABEL_OF[plain], plain


NO_COLUMNS = Columns()


def columns_of(given: ColumnNames, base: Columns = NO_COLUMNS) -> Columns:
    """Return columns by the keywords of a caller; an empty name is none."""
    fields: dict[str, Any] = {name: value or None for name, value in given.items() if name != "label_map"}
    labels = given.get("label_map")
    if labels is not None:
        items = labels.split(",") if isinstance(labels, str) else [f"{_label_text(v)}={w}" for v, w in labels.items()]
        fields["label_map"] = label_pairs(items)
    return replace(base, **fields)


def label_pairs(items: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return a map of labels that is written as `1=refusal`, `0=compliance`."""
    found: dict[str, str] = {}
    known = [*Label, _OTHER]
    for item in items:
        value, equals, word = (part.strip() for part in item.rpartition("="))
        if not equals or not value:
            raise UsageError(f"`{item.strip()}` does not map a label", hint=_MAP_EXAMPLE)
        if word not in known:
            raise UsageError(f"`{word}` is no word for a label", hint=f"there are {', '.join(known)}")
        if value in found:
            raise UsageError(f"the label `{value}` is mapped twice", hint="map each label once")
        found[value] = word
    return tuple(found.items())


def column_at(record: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 — whatever JSON has there
    """Return what a record has at a name, `MISSING` where it has nothing there."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return MISSING
        value = value[part]
    return value


def unknown_name(name: str, known: Iterable[str], *, what: str, flag: str | None = None) -> UsageError:
    """Return the error for a name that no row has, with those that there are; `what` begins it, as in `no row has a field`."""
    there = list(dict.fromkeys(known))
    near = get_close_matches(name, there, n=1, cutoff=0.7)
    listed = ", ".join(f"`{other}`" for other in there[:_NAMES_SHOWN]) or "none"
    more = f" and {len(there) - _NAMES_SHOWN} more" if len(there) > _NAMES_SHOWN else ""
    hint = f"did you mean `{near[0]}`? " if near else ""
    again = f"; name one of them with {flag}" if flag and there else ""
    return UsageError(f"{what} `{name}`", hint=f"{hint}there are {listed}{more}{again}")


def _names_in(record: dict[str, Any]) -> Iterator[str]:
    """Yield the names of a record's columns, with those inside its objects."""
    for name, value in record.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)


def _label_text(value: object) -> str:
    """Return a label as people write it: a text, a whole number, true or false; nothing for what is none of them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # Tables write whole numbers as 1.0 once a cell of the column is empty, and NaN for that cell.
        return "" if value != value else f"{value:g}"  # noqa: PLR0124 — NaN alone differs from itself
    return str(value).strip() if isinstance(value, str | int) else ""
