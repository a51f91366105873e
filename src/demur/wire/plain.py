"""How does whatever a caller holds become plain JSON: a dict, an SDK's object, JSON text?

Laws: no SDK is imported, a model is known by how it behaves; camelCase where the provider's wire has it; fields that
are null in an SDK's object are left out, since SDKs fill in what the wire never held; the result shares no value that
can change with what was given; anything else is a `ShapeError` that names the path.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import date
from enum import Enum
from typing import Any

from demur.errors import ShapeError
from demur.wire.fields import decode

__all__ = ["plain"]

_EXPECTED = "expected a provider's response: a dict, an SDK object or JSON text"
_CLIENT_SIDE = {"sdk_http_response", "automatic_function_calling_history", "parsed"}
"""Fields that the SDKs add to a response after it has arrived."""


def plain(value: Any) -> Any:
    """Return the decoded JSON in a dict, a list, a mapping, an SDK's object, or JSON text."""
    if isinstance(value, (str, bytes, bytearray)):
        return _from_text(value)
    if not (isinstance(value, (Mapping, list, tuple)) or _is_model(value)):
        raise ShapeError(_EXPECTED, hint=f"got a {type(value).__name__}")
    try:
        return _walk(value, "")
    except RecursionError as exc:
        raise ShapeError(_EXPECTED, hint="it is nested too deeply, or holds itself") from exc


def _from_text(text: str | bytes | bytearray) -> Any:
    try:
        decoded = decode(text if isinstance(text, str) else bytes(text))
    except ShapeError as exc:
        raise ShapeError(_EXPECTED, hint="the text given is not JSON") from exc
    if not isinstance(decoded, (dict, list)):
        raise ShapeError(_EXPECTED, hint="the JSON given is neither an object nor a list")
    return decoded


def _walk(value: Any, path: str) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {_key(key, path): _walk(item, f"{path}.{key}" if path else str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if _is_model(value):
        return _dump(value)
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


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise ShapeError(f"{f'`{path}`' if path else 'the body'}: expected names that are strings, got {key!r}")
    return key


def _is_model(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "model_fields") and callable(getattr(kind, "model_dump", None))


def _dump(model: Any) -> Any:
    # SDKs build models without validation, so a field may hold a value that its type does not allow: no warning.
    try:
        return model.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False, exclude=_CLIENT_SIDE)
    except (TypeError, ValueError) as exc:
        raise ShapeError(_EXPECTED, hint=f"`{type(model).__name__}` does not turn into JSON") from exc
