"""Plain JSON out of bytes, text, dicts and the objects of providers' SDKs, with errors that a person can act on.

Whatever the bytes, `parse_json` raises nothing but `JsonError` and `EncodingError`; whatever the object, `plain` raises
nothing but `ShapeError`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date
from enum import Enum
from typing import Any, NoReturn

import msgspec

from demur.errors import EncodingError, JsonError, ShapeError
from demur.wire.fields import decode

__all__ = ["parse_json", "parse_utf8", "plain"]


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
        return json.loads(data, parse_constant=(lambda _: None) if nan_is_null else _no_number)
    except UnicodeDecodeError:
        parse_utf8(data)
        raise
    except (ValueError, RecursionError) as exc:
        raise JsonError(f"not JSON ({why})", hint="expected a JSON object") from exc


def _no_number(word: str) -> NoReturn:
    raise JsonError(f"not JSON (`{word}` is no number there)", hint="write null for what is missing")


_EXPECTED = "expected a provider's response: a dict, an SDK object or JSON text"
_CLIENT_SIDE = {"sdk_http_response", "automatic_function_calling_history", "parsed"}
"""Fields that the SDKs add to a response after it has arrived."""


def plain(value: Any) -> Any:
    """Return the decoded JSON in a dict, a list, a mapping, an SDK's object, or JSON text."""
    if isinstance(value, (str, bytes, bytearray)):
        try:
            decoded = decode(value if isinstance(value, str) else bytes(value))
        except ShapeError as exc:
            raise ShapeError(_EXPECTED, hint="the text given is not JSON") from exc
        if not isinstance(decoded, (dict, list)):
            raise ShapeError(_EXPECTED, hint="the JSON given is neither an object nor a list")
        return decoded
    if not (isinstance(value, (Mapping, list, tuple)) or _is_model(value)):
        raise ShapeError(_EXPECTED, hint=f"got a {type(value).__name__}")
    try:
        return _walk(value, "")
    except RecursionError as exc:
        raise ShapeError(_EXPECTED, hint="it is nested too deeply, or holds itself") from exc


def _walk(value: Any, path: str) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise ShapeError(f"{f'`{path}`' if path else 'the body'}: expected names that are strings, got {odd!r}")
        return {key: _walk(item, f"{path}.{key}" if path else key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if _is_model(value):
        # SDKs build models without validation, so a field may hold a value that its type does not allow: no warnings.
        # They also fill in what the wire never held: nulls are left out.
        try:
            return value.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False, exclude=_CLIENT_SIDE)
        except (TypeError, ValueError) as exc:
            raise ShapeError(_EXPECTED, hint=f"`{type(value).__name__}` does not turn into JSON") from exc
    return _leaf(value, path)


def _leaf(value: Any, path: str) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        # boto3 hands out decoded blobs; on the wire they are base64.
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, date):
        return value.isoformat()
    raise ShapeError(f"`{path}`: expected JSON, got a {type(value).__name__}")


def _is_model(value: Any) -> bool:
    # No SDK is imported: a pydantic model is known by how it behaves.
    kind = type(value)
    return hasattr(kind, "model_fields") and callable(getattr(kind, "model_dump", None))
