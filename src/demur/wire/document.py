"""Bytes of a file → decoded JSON, with errors that a person can act on.

Laws: what is valid JSON is read, escaped lone surrogates and very long integers included; `NaN` and `Infinity` are no JSON
and are named as such; whatever the bytes, nothing but `JsonError` and `EncodingError` is raised.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from demur.errors import EncodingError, JsonError

__all__ = ["parse_json", "parse_utf8"]


def parse_json(data: bytes, *, nan_is_null: bool = False) -> Any:
    """Return the decoded JSON in `data`; `NaN` is an error, or null for a tool that is known to write it."""
    try:
        return msgspec.json.decode(data)
    except UnicodeError:
        parse_utf8(data)
        raise
    except RecursionError as exc:
        raise JsonError("not JSON (nested too deeply)", hint="expected a JSON object") from exc
    except msgspec.DecodeError as exc:
        return _lenient(data, str(exc).removeprefix("JSON is ").lower(), nan_is_null=nan_is_null)


def parse_utf8(data: bytes) -> str:
    """Return the text in `data`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        hint = "convert it: iconv -f LATIN1 -t UTF-8"
        raise EncodingError(f"not UTF-8 at byte {exc.start}", hint=hint) from exc


def _lenient(data: bytes, why: str, *, nan_is_null: bool) -> Any:
    """Return JSON that is valid but beyond the strict decoder: escaped lone surrogates, very long integers."""
    try:
        return json.loads(data, parse_constant=_null if nan_is_null else _no_number)
    except UnicodeDecodeError:
        parse_utf8(data)
        raise
    except (ValueError, RecursionError) as exc:
        raise JsonError(f"not JSON ({why})", hint="expected a JSON object") from exc


def _null(_word: str) -> None:
    return None


def _no_number(word: str) -> NoReturn:
    raise JsonError(f"not JSON (`{word}` is no number there)", hint="write null for what is missing")
