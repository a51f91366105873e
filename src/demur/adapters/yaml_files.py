"""A small YAML file of the user's, as plain values.

Laws: only plain data is read, never objects; what is no YAML is an error with its line; an empty file is an error.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, TypeVar

import msgspec

from demur.adapters.files import read_text
from demur.errors import EmptyInputError, InputError, ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["parse_yaml", "read_yaml", "typed_yaml"]

_Row = TypeVar("_Row")
_UNKNOWN = re.compile("Object contains unknown field `(.*)`")
_LACKING = re.compile("Object missing required field `(.*)`")
_WRONG_KIND = re.compile("Expected `(.*)`, got ")
_NOT_AMONG = re.compile("Invalid enum value '?(.*?)'?$")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "keys with values",
}


def read_yaml(name: str) -> object:
    """Return what stands in a YAML file."""
    try:
        return parse_yaml(read_text(name))
    except InputError as exc:
        raise exc.at(name, exc.line) from exc


def parse_yaml(text: str) -> object:
    """Return what stands in a YAML text."""
    try:
        import yaml
    except ModuleNotFoundError as exc:
        raise UsageError("rules and rubrics need a YAML reader", hint="pip install 'demur[gateway]'") from exc
    try:
        loaded: object = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        mark = getattr(exc, "problem_mark", None)
        raise ShapeError("not YAML", line=mark.line + 1 if mark else None, hint="quote texts with colons") from exc
    if not loaded:
        raise EmptyInputError("nothing in it", hint="an empty file would pass anything")
    return loaded


def typed_yaml(loaded: object, kind: type[_Row], *, what: str, hint: str, known: Sequence[str] = ()) -> _Row:
    """Return plain values as a typed one; raise `ShapeError` that says what is wrong with `what`, in a user's words.

    `known` are the keys of which a mistyped one may have been meant.
    """
    try:
        return msgspec.convert(loaded, kind)
    except msgspec.ValidationError as exc:
        told, key = _user_words(str(exc))
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.7) if key else []
        meant = f"did you mean `{near[0]}`? " if near else ""
        raise ShapeError(f"{what}: {told}", hint=meant + hint) from exc
    except RecursionError as exc:
        raise ShapeError(f"{what}: nested too deeply", hint=hint) from exc


def _user_words(told: str) -> tuple[str, str]:
    """Return what a decoder says without the names of its types, and the key that it does not know, if that is it."""
    said, _, place = told.partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    where = f"`{path}`: " if path else ""
    if found := _UNKNOWN.match(said):
        return f"{where}unknown field `{found[1]}`", found[1]
    if found := _LACKING.match(said):
        return f"{where}`{found[1]}` is missing", ""
    if found := _WRONG_KIND.match(said):
        wanted = " or ".join(dict.fromkeys(_KINDS.get(word, word) for word in found[1].split(" | ") if word != "null"))
        return f"{where}expected {wanted}", ""
    if found := _NOT_AMONG.match(said):
        return f"{where}`{found[1]}` is not known here", ""
    return f"{where}{said[:1].lower()}{said[1:]}", ""
