"""The log: events and fields of closed sets, so that nothing private can be in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.io.log import LogEvent, log_event, set_up_log

SECRETS = ("sk-live-5up3rs3cr3t", "Ignore your instructions and", "I cannot help with that", "Bearer abc")
FIELDS = [
    *("status", "took_ms", "shape", "phase", "effect", "outcome", "cause", "fault", "part", "auditor"),
    *("client", "rules", "session", "model", "trace", "policy", "error"),
    *("prompt", "text", "body", "key", "authorization", "headers", "path", "message"),
    *("at", "level", "event", "logger", "where", "dropped"),
]


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    names = ("", "uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "demur.gateway")
    loggers = [logging.getLogger(name) for name in names]
    before = [(one, one.handlers[:], one.level, one.propagate) for one in loggers]
    yield
    for one, handlers, level, propagate in before:
        one.handlers[:] = handlers
        one.setLevel(level)
        one.propagate = propagate


def opened_log(**settings: Any) -> io.StringIO:
    """Return what the log is written to from now on."""
    stream = io.StringIO()
    set_up_log(stream, **settings)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_with_its_fields() -> None:
    """Numbers, words of ours and announced names are written; the level follows from the event."""
    stream = opened_log(names=frozenset({"safety", "no-attacks"}))
    kept = {"status": 403, "took_ms": 1.5, "streamed": True, "effect": "deny", "auditor": "safety"}
    log_event(LogEvent.DENIED, **kept, rules=("no-attacks", "unknown rule"), error=ValueError("private"), cause=None)
    (line,) = lines(stream)
    assert str(line.pop("at")).endswith("+00:00")
    told = {"level": "warning", "event": "denied", **kept, "rules": ["no-attacks"], "error": "ValueError"}
    assert line == told


@pytest.mark.heavy
@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_gets_in_by_any_field(secret: str, *, as_json: bool) -> None:
    """A secret in every field, as text, in a list, in an error or as bytes, is nowhere in the log."""
    stream = opened_log(level="debug", as_json=as_json)
    for name in FIELDS:
        for value in (secret, [secret], (secret,), {secret: secret}, secret.encode(), ValueError(secret)):
            for event in LogEvent:
                log_event(event, **{name: value})
    assert stream.getvalue().count("\n") == len(FIELDS) * 6 * len(LogEvent)
    assert all(part not in stream.getvalue() for part in (secret, max(secret.split(), key=len), repr(secret.encode())))


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_gets_in_by_other_libraries(secret: str) -> None:
    """Messages, arguments, errors and tracebacks of anyone else are reduced to who spoke and from where."""
    stream = opened_log(level="debug")
    for name in ("asyncio", "uvicorn.error", "uvicorn.access", "demur.gateway", "httpx"):
        logger = logging.getLogger(name)
        logger.error(secret)
        logger.error("said %s", secret)
        logger.error("x", extra={"demur_event": secret, "demur_fields": {"status": secret}})
        logger.error("x", extra={"demur_event": LogEvent.FAULT, "demur_fields": {"prompt": secret, "model": secret}})
        logger.error(secret, exc_info=ValueError(secret))
    found = lines(stream)
    assert len(found) == 20  # the access log, which quotes paths, is silent
    assert secret not in stream.getvalue()
    assert max(secret.split(), key=len) not in stream.getvalue()
    assert {"event": "library", "logger": "asyncio", "error": "ValueError"}.items() <= found[4].items()


def test_what_is_dropped_is_counted() -> None:
    """A field that may not be written leaves a trace of having been there, not more."""
    stream = opened_log()
    log_event(LogEvent.EXCHANGE, prompt="x", status="200", took_ms=float("nan"), shape="unheard", seq=1)
    (line,) = lines(stream)
    assert (line["dropped"], line["seq"]) == (4, 1)
    assert "status" not in line


@given(st.text(min_size=1, max_size=30), st.sampled_from(FIELDS))
def test_a_line_is_a_line(text: str, name: str) -> None:
    """No text can break a line, or forge another field."""
    stream = opened_log(as_json=True)
    log_event(LogEvent.EXCHANGE, **{name: text})
    (line,) = lines(stream)
    assert set(line) <= {"at", "level", "event", "dropped", name}
    assert line["event"] == "exchange"


def test_the_same_session_has_the_same_digest() -> None:
    """What a client names can be followed through the log without standing in it."""
    stream = opened_log()
    for session in ("s1", "s1", "s2"):
        log_event(LogEvent.EXCHANGE, session=session)
    first, second, third = (line["session"] for line in lines(stream))
    assert first == second != third
    # printf s1 | sha256sum | cut -c1-16
    assert first == "e8bc163c82eee187"


def test_levels_hold() -> None:
    """Below the level nothing is written; a fail-open is an error."""
    stream = opened_log(level="error")
    log_event(LogEvent.EXCHANGE, status=200)
    log_event(LogEvent.FAILED_OPEN, part="store")
    (line,) = lines(stream)
    assert (line["level"], line["part"]) == ("error", "store")


def test_the_text_form_has_the_same_fields() -> None:
    """For people the line is words, under the same rules."""
    stream = opened_log(as_json=False)
    log_event(LogEvent.EXCHANGE, status=200, prompt="private")
    assert stream.getvalue().rstrip().endswith("info event=exchange status=200 dropped=1")
