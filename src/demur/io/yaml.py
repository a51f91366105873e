"""YAML files of users, as plain or typed values.

Only plain data is read, never objects. A key that is written twice is an error, since one of the values would be ignored, and a file
that unfolds to very many values by its aliases is rejected.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from demur.errors import EmptyInputError, InputError, ShapeError, UsageError
from demur.io.files import read_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from yaml import SafeLoader
    from yaml.nodes import MappingNode

__all__ = ["load_yaml", "parse_yaml", "read_yaml", "typed_yaml"]

_Row = TypeVar("_Row")
_MERGE = "tag:yaml.org,2002:merge"
_MAX_VALUES = 20_000
_MAX_DEPTH = 60
_UNKNOWN = re.compile("Object contains unknown field `(.*)`")
_LACKING = re.compile("Object missing required field `(.*)`")
_BARE_BOOL = re.compile("Expected `.*str.*`, got `bool`")
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
    """Return the values in a YAML file."""
    try:
        return parse_yaml(read_text(name))
    except InputError as exc:
        raise exc.at(name, exc.line) from exc


def parse_yaml(text: str) -> object:
    """Return the values in a YAML text; an empty one is an error."""
    loaded = load_yaml(text, needed_by="rules and rubrics")
    if not loaded:
        raise EmptyInputError("nothing in it", hint="an empty file would pass anything")
    return loaded


def load_yaml(text: str, *, needed_by: str) -> object:
    """Return the values in a YAML text, None for an empty one; `needed_by` says in errors what is read by it."""
    try:
        import yaml
    except ModuleNotFoundError as exc:
        verb = "needs" if needed_by.startswith("a ") else "need"
        raise UsageError(f"{needed_by} {verb} a YAML reader", hint="pip install 'demur[gateway]'") from exc
    try:
        loaded: object = yaml.load(text, _loader())  # noqa: S506 - a safe loader: plain data, never objects
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        mark = getattr(exc, "problem_mark", None)
        raise ShapeError("not YAML", line=mark.line + 1 if mark else None, hint="quote texts with colons") from exc
    # A small file can unfold to billions of values by its aliases.
    _unfolded_size(loaded, {})
    return loaded


@cache
def _loader() -> type[SafeLoader]:
    """Return the safe loader that rejects a key that is written twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - as it is called
            seen: set[tuple[str, str]] = set()
            # What is merged in by `<<` may be overridden: only what is written here counts.
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                    if (key.tag, key.value) in seen:
                        hint = "keep one of them"
                        raise ShapeError(f"`{key.value}` stands twice", line=key.start_mark.line + 1, hint=hint)
                    seen.add((key.tag, key.value))
            return super().construct_mapping(node, deep)

    return Loader


def _unfolded_size(value: object, known: dict[int, int | None], depth: int = 0) -> int:
    """Return how many values there are once aliases are unfolded; raise if there are too many, too deep, or without end."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) in known:
        size = known[id(value)]
        if size is None:
            raise ShapeError("an alias stands within itself", hint="write it out")
        return size
    if depth > _MAX_DEPTH:
        raise ShapeError("nested too deeply", hint=f"at most {_MAX_DEPTH} levels")
    # None while it is being counted: meeting it again means that it contains itself.
    known[id(value)] = None
    size = 1
    for part in value.values() if isinstance(value, dict) else value:
        size += _unfolded_size(part, known, depth + 1)
        if size > _MAX_VALUES:
            raise ShapeError(f"more than {_MAX_VALUES:,} values", hint="use fewer aliases, or several files")
    known[id(value)] = size
    return size


def typed_yaml(loaded: object, kind: type[_Row], *, what: str, hint: str, known: Sequence[str] = ()) -> _Row:
    """Return plain values as a typed one; raise `ShapeError` that says what is wrong with `what`, in a user's words.

    A mistyped key is compared with those in `known`.
    """
    try:
        return msgspec.convert(loaded, kind)
    except msgspec.ValidationError as exc:
        told, key = _user_words(str(exc))
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.7) if key else []
        meant = f"did you mean `{near[0]}`? " if near else ""
        if _BARE_BOOL.match(str(exc)):
            meant = "quote yes, no, on and off, which are no texts in YAML; "
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
