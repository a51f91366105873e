"""The structured log, which can never hold a text, a prompt or a key.

A line is an event of a closed set with fields of a closed set. A field holds a number, a word of ours, a name from the operator's
own files, or a digest; anything else is left out and counted in `dropped`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from demur.model.claim import Effect
from demur.model.passport import DeclineCause, RejectReason
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LogEvent", "SafeFormatter", "is_logged", "log_event", "set_up_log"]

_LOGGER = logging.getLogger("demur.gateway")
_DIGEST_DIGITS = 16  # enough to follow one session, too few to be worth guessing at
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class LogEvent(StrEnum):
    """Everything that can be said."""

    STARTED = "started"
    STOPPED = "stopped"
    EXCHANGE = "exchange"
    DENIED = "denied"
    UNAUTHORISED = "unauthorised"
    OVERLOADED = "overloaded"
    HTTP_REJECTED = "http_rejected"
    UPSTREAM_FAILED = "upstream_failed"
    AUDITOR_FAILED = "auditor_failed"
    FAILED_OPEN = "failed_open"
    FAILED_CLOSED = "failed_closed"
    RECORD_FAILED = "record_failed"
    POLICY_SWAPPED = "policy_swapped"
    POLICY_REFUSED = "policy_refused"
    CLIENT_GONE = "client_gone"
    FAULT = "fault"


_LEVELS = {
    LogEvent.DENIED: logging.WARNING,
    LogEvent.UNAUTHORISED: logging.WARNING,
    LogEvent.OVERLOADED: logging.WARNING,
    LogEvent.HTTP_REJECTED: logging.WARNING,
    LogEvent.UPSTREAM_FAILED: logging.WARNING,
    LogEvent.AUDITOR_FAILED: logging.WARNING,
    LogEvent.FAILED_OPEN: logging.ERROR,
    LogEvent.FAILED_CLOSED: logging.ERROR,
    LogEvent.RECORD_FAILED: logging.ERROR,
    LogEvent.POLICY_REFUSED: logging.ERROR,
    LogEvent.FAULT: logging.ERROR,
}


def _number(value: object) -> int | float | None:
    # NaN and the infinities are no JSON (RFC 8259, section 6), and Python's bool is an int.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _digest(value: object) -> str | None:
    return (
        hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_DIGITS]
        if isinstance(value, str)
        else None
    )


def _one_of(*words: str) -> Callable[[object], str | None]:
    known = {str(word) for word in words}
    return lambda value: str(value) if isinstance(value, str) and value in known else None


class _OperatorNames:
    """Names from the operator's own files (rules, auditors, clients): only those that were announced are let through."""

    def __init__(self) -> None:
        self.known: frozenset[str] = frozenset()

    def __call__(self, value: object) -> str | list[str] | None:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list | tuple):
            return None
        kept = [name for name in given if isinstance(name, str) and name in self.known and _NAME.fullmatch(name)]
        return (kept[0] if kept else None) if isinstance(value, str) else kept


_names = _OperatorNames()
_FIELDS: Mapping[str, Callable[[object], object]] = {
    "status": _number,
    "upstream_status": _number,
    "took_ms": _number,
    "added_ms": _number,
    "request_bytes": _number,
    "response_bytes": _number,
    "port": _number,
    "workers": _number,
    "worker": _number,
    "leaf": _number,
    "seq": _number,
    "streamed": lambda value: value if isinstance(value, bool) else None,
    "shape": _one_of("openai_chat", "openai_responses", "anthropic", "passed"),
    "phase": _one_of("request", "response", "artifact", "execution"),
    "effect": _one_of(*(effect.word for effect in Effect)),
    "outcome": _one_of(*Outcome),
    "cause": _one_of(*DeclineCause),
    "fault": _one_of("connect", "timeout", "cut", "protocol"),
    "reason": _one_of(*RejectReason),
    "timeout": _one_of("connect", "read", "total"),
    "part": _one_of("upstream", "auditors", "store", "policy_reload"),
    "auditor": _names,
    "client": _names,
    "rules": _names,
    # What clients send is only ever a digest.
    "session": _digest,
    "model": _digest,
    "trace": _digest,
    "policy": _digest,
    # The class alone: a message may quote the text that was being read.
    "error": lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
}


def log_event(event: LogEvent, /, **fields: object) -> None:
    """Write one line, with the fields that are allowed in it."""
    if is_logged(event):
        level = _LEVELS.get(event, logging.INFO)
        _LOGGER.log(level, event.value, extra={"demur_event": event, "demur_fields": fields})


def is_logged(event: LogEvent) -> bool:
    """Return whether an event would be written, for callers whose fields are costly to collect."""
    return _LOGGER.isEnabledFor(_LEVELS.get(event, logging.INFO))


def _safe_fields(fields: Mapping[str, object]) -> dict[str, object]:
    kept: dict[str, object] = {}
    dropped = 0
    for name, value in fields.items():
        if value is None:
            continue
        read = _FIELDS.get(name)
        found = None if read is None else read(value)
        if found is None:
            dropped += 1
        else:
            kept[name] = found
    # Counted, since a field that is silently missing looks like one that was never given.
    return {**kept, "dropped": dropped} if dropped else kept


class SafeFormatter(logging.Formatter):
    """Writes a record as one line, of ours with its fields, of anyone else's without its message."""

    def __init__(self, *, as_json: bool = True) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"at": at, "level": record.levelname.lower()}
        event = getattr(record, "demur_event", None)
        if record.name == _LOGGER.name and isinstance(event, LogEvent):
            # Filtered here, at the last step, so that a direct call of the logger is filtered too.
            fields = getattr(record, "demur_fields", {})
            line |= {"event": event.value, **_safe_fields(fields if isinstance(fields, dict) else {})}
        else:
            # Another library's message may quote anything, so only who logged it, and where, is kept.
            line |= {"event": "library", "logger": record.name.split(".")[0][:32]}
            line["where"] = f"{record.filename}:{record.lineno}"
            if record.exc_info and record.exc_info[0] is not None:
                line["error"] = record.exc_info[0].__name__
        if self._as_json:
            # ASCII, so that no line separator of Unicode breaks one entry into two for a log collector.
            return json.dumps(line, ensure_ascii=True, separators=(",", ":"))
        return " ".join(
            f"{name}={value}" if number > 1 else str(value) for number, (name, value) in enumerate(line.items())
        )


def set_up_log(
    stream: TextIO, *, level: str = "info", as_json: bool = True, names: frozenset[str] = frozenset()
) -> logging.Handler:
    """Send every line of this process to a stream, filtered; `names` are those of the operator's files."""
    _names.known = names
    handler = logging.StreamHandler(stream)
    handler.setFormatter(SafeFormatter(as_json=as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", _LOGGER.name):
        other = logging.getLogger(name)
        other.handlers.clear()
        other.propagate = name != "uvicorn.access"  # an access line quotes the client's path
        other.setLevel(logging.NOTSET)
    return handler
