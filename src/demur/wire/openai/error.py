"""What does an error body of the OpenAI family say, and is it a policy block or an ordinary failure?

OpenAI, Azure and vLLM write `{"error": {...}}`, Ollama a string there, Mistral and older vLLM the same fields at the top,
others a `message` or `detail` alone. Laws: every error has exactly one signal, `PROMPT_BLOCK` for the codes by which a
provider says that policy stopped it, `ERROR` for the rest; errors are always written the OpenAI way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demur.model.exchange import ProviderError, Signal, SignalKind

if TYPE_CHECKING:
    from demur.wire.fields import Field
    from demur.wire.interface import JsonObject

__all__ = ["Failure", "read_error", "write_error"]

_POLICY_CODES = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "image_content_policy_violation",
        "invalid_prompt",
        "misalignment_policy_violation",
        "moderation_blocked",
        "ResponsibleAIPolicyViolation",
    }
)
_FORBIDDEN = 403
_FAILED = 400
_GUARDRAIL = "guardrail"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error body, read: the error and what it signals."""

    error: ProviderError
    signal: Signal


def read_error(body: Field, status: int) -> Failure | None:
    """Return the failure that a body tells of, None where it tells of none."""
    found = body.get("error")
    if found is not None and found.is_object:
        return _read_object(found, status)
    if found is not None and found.value != "":
        return _bare(found.text(), found.path, status)
    if body.tag_at("object") == "error" or (status >= _FAILED and body.get("message") and "choices" not in body.value):
        return _read_object(body, status)
    if status >= _FAILED and "choices" not in body.value:
        return _bare(_scalar(body.get("detail")) or "", "detail", status)
    return None


def write_error(error: ProviderError) -> JsonObject:
    """Return the `error` object."""
    body: JsonObject = {"message": error.message, "type": error.kind, "code": error.code, "param": None}
    return body | ({"innererror": {"code": error.inner_code}} if error.inner_code is not None else {})


def _read_object(found: Field, status: int) -> Failure:
    inner = found.get("innererror")
    inner_code = None if inner is None or not inner.is_object else _scalar(inner.get("code"))
    error = ProviderError(
        message=_scalar(found.get("message")) or "",
        code=_scalar(found.get("code")),
        kind=_scalar(found.get("type")),
        inner_code=inner_code,
    )
    return Failure(error, _signal(error, status, prefix=f"{found.path}." if found.path else ""))


def _bare(message: str, path: str, status: int) -> Failure:
    error = ProviderError(message)
    kind = SignalKind.PROMPT_BLOCK if _is_guardrail(error, status) else SignalKind.ERROR
    return Failure(error, Signal(kind, path if message else "status", message or str(status)))


def _signal(error: ProviderError, status: int, *, prefix: str) -> Signal:
    """Return what the error signals, at the path of the word that says it."""
    said = (("code", error.code), ("innererror.code", error.inner_code), ("type", error.kind))
    for name, value in said:
        if value in _POLICY_CODES:
            detail = error.inner_code if name == "code" else None
            return Signal(SignalKind.PROMPT_BLOCK, f"{prefix}{name}", str(value), detail=detail)
    name, value = next(((n, v) for n, v in said if v), ("message", error.message))
    if _is_guardrail(error, status):
        return Signal(SignalKind.PROMPT_BLOCK, f"{prefix}{name}", str(value), detail=error.message or None)
    return Signal(SignalKind.ERROR, f"{prefix}{name}", str(value))


def _is_guardrail(error: ProviderError, status: int) -> bool:
    """Whether this is a guardrail's 403; without the word it is a matter of keys and permissions."""
    words = (error.code, error.kind, error.message)
    return status == _FORBIDDEN and any(_GUARDRAIL in word.lower() for word in words if word)


def _scalar(found: Field | None) -> str | None:
    """Return a string or number as text; vLLM and Mistral write numbers where OpenAI writes words."""
    value: Any = None if found is None else found.value
    if found is None or isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) else found.json().decode("utf-8")
