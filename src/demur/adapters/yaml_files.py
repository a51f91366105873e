"""A small YAML file of the user's, as plain values.

Laws: only plain data is read, never objects; what is no YAML is an error with its line; an empty file is an error.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from demur.adapters.files import read_text
from demur.errors import EmptyInputError, InputError, ShapeError, UsageError

__all__ = ["parse_yaml", "read_yaml", "typed_yaml"]

_Row = TypeVar("_Row")


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


def typed_yaml(loaded: object, kind: type[_Row], *, what: str, hint: str) -> _Row:
    """Return plain values as a typed one; raise `ShapeError` that says `what` they are not."""
    try:
        return msgspec.convert(loaded, kind)
    except (msgspec.ValidationError, RecursionError) as exc:
        told = str(exc)[:1].lower() + str(exc)[1:]
        raise ShapeError(f"no {what}: {told}", hint=hint) from exc
