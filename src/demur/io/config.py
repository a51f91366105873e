"""Limits from the environment: an unset variable means the documented default, a value that is no number is an error."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["InputLimits", "input_limits"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class InputLimits:
    """How much of an input is read before it is refused."""

    line_bytes: int = 16 * _MIB
    """`DEMUR_MAX_LINE_BYTES`: the longest line of a many-line file."""
    document_bytes: int = 64 * _MIB
    """`DEMUR_MAX_DOCUMENT_BYTES`: the largest file that is read as one document."""


def input_limits(environ: Mapping[str, str] | None = None) -> InputLimits:
    """Return the limits in force."""
    env = os.environ if environ is None else environ
    default = InputLimits()
    return InputLimits(
        _size(env, "DEMUR_MAX_LINE_BYTES", default.line_bytes),
        _size(env, "DEMUR_MAX_DOCUMENT_BYTES", default.document_bytes),
    )


def _size(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name, "").strip()
    if not value:
        return default
    if not value.isdecimal() or int(value) == 0:
        raise UsageError(f"`{name}` is `{value}`", hint="give a number of bytes above 0")
    return int(value)
