"""Runs the cases of one application against the simulator and prints what it got, a JSON object per line.

An application hands over up to three functions (`plain`, `streamed`, `structured`). Each takes the simulator's address and returns the
text that a user would be shown and the whole value that the library returned. Nothing is judged here: `scripts/frameworks.py` does that.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import inspect
import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTION = "How do I bake bread?"
MESSAGES = [{"role": "user", "content": QUESTION}]
# Case, the function that it calls, and the simulator's scenario. The first three show that the application works at all.
CASES = (
    ("answer", "plain", "answer"),
    ("answer streamed", "streamed", "answer"),
    ("answer structured", "structured", "answer"),
    ("refusal", "plain", "refuse"),
    ("streamed", "streamed", "refuse"),
    ("filter", "plain", "filter"),
    ("blocked", "plain", "filter-azure-400"),
    ("structured", "structured", "refuse"),
)
_MAX_DEPTH = 9
_MAX_CHARS = 300


def run(**functions: Callable[[str], Any]) -> None:
    """Run every case that the application has a function for."""
    urls = json.loads(os.environ["DEMUR_SIMULATORS"])
    for case, name, scenario in CASES:
        if name in functions:
            printed = {"case": case} | _outcome(functions[name], urls[scenario])
            sys.stdout.write(json.dumps(printed) + "\n")
            sys.stdout.flush()


def _outcome(function: Callable[[str], Any], url: str) -> dict[str, Any]:
    try:
        got = function(url)
        if inspect.isawaitable(got):
            got = asyncio.run(_awaited(got))
        text, result = got
    except Exception as exc:  # noqa: BLE001 — whatever a library raises is what its user meets
        return {"raised": type(exc).__name__, "message": str(exc)[:_MAX_CHARS], "fields": _fields(vars(exc))}
    return {"text": None if text is None else str(text)[:_MAX_CHARS], "fields": _fields(result)}


async def _awaited(got: Any) -> Any:
    return await got


def _fields(value: object) -> dict[str, list[str]]:
    """Return the strings in a value by their path; items of a list share one."""
    found: dict[str, list[str]] = {}
    for path, text in _leaves(value, "", ()):
        values = found.setdefault(path, [])
        if text not in values and len(values) < len(CASES):
            values.append(text[:_MAX_CHARS])
    return found


def _leaves(value: Any, path: str, above: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    if value is None or id(value) in above or len(above) > _MAX_DEPTH:
        return
    above = (*above, id(value))
    if isinstance(value, enum.Enum):
        value = value.value if isinstance(value.value, str) else value.name
    if isinstance(value, str | int | float | bool):
        yield path, str(value)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, f"{path}[]", above)
    else:
        for key, item in _members(value):
            yield from _leaves(item, f"{path}.{key}" if path else str(key), above)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an application can reach by a public name."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif dataclasses.is_dataclass(value):
        pairs = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    else:
        pairs = list(getattr(value, "__dict__", {}).items())
        with contextlib.suppress(AttributeError, TypeError):
            pairs += value.model_extra.items()
    yield from ((str(key), item) for key, item in pairs if not str(key).startswith("_"))
