"""What did a reader leave unread, and how is it put back?

A reader spells out the fields that matter; this file compares the body with what the writer would make of the value
that was read, and keeps every field that is missing there under its JSON path, as in `messages[2].content[0].cache_control`.

Laws: `restore(written, unread(body, written))` has every field of the body; what is written always wins over what is
kept, so a text that was edited in between stays edited; a list is put back whole only where its words are still the
same; a field whose place is gone is left out; null and the empty string say nothing and are not kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.wire.fields import decode, encode, rest_of, root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.interface import JsonObject

__all__ = ["join", "put", "restore", "unread"]

Step = str | int

_NO_REST = b"{}"
_PLAIN = re.compile(r'[^.\[\]"]+')
_STEP = re.compile(r'(?:^|\.)([^.\[\]"]+)|\[([0-9]{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')


def unread(body: JsonObject, written: JsonObject) -> bytes:
    """Return the fields of the body that are missing in what was written, by path, as a canonical JSON object."""
    try:
        return rest_of(dict(_missing(body, written, path="")), frozenset())
    except RecursionError as exc:
        raise ShapeError("the body is nested too deeply") from exc


def restore(written: JsonObject, rest: bytes) -> JsonObject:
    """Return what was written with the kept fields back in their places; `written` itself is filled."""
    for path, value in root(decode(rest)).object().items() if rest != _NO_REST else ():
        steps = _steps(path)
        parent: Any = written
        for step in steps[:-1]:
            parent = _child(parent, step)
        if steps and isinstance(parent, dict):
            _fill(parent, str(steps[-1]), value=value)
    return written


def put(body: JsonObject, path: str, *, value: Any) -> None:
    """Set the value at a path, making the objects and lists on the way."""
    steps = _steps(path)
    node: Any = body
    for step, after in zip(steps, (*steps[1:], None), strict=True):
        fresh = value if after is None else {} if isinstance(after, str) else []
        if isinstance(step, int):
            node.extend({} for _ in range(len(node), step + 1))
            if after is None or not node[step]:
                node[step] = fresh
        elif after is None or step not in node:
            node[step] = fresh
        node = node[step]


def join(path: str, step: Step) -> str:
    """Return the path one step further; names that a path could misread are quoted."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _PLAIN.fullmatch(step):
        return f"{path}.{step}" if path else step
    return f"{path}[{encode(step).decode()}]"


def _missing(body: Any, written: Any, *, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(body, dict) and isinstance(written, dict):
        for key, value in body.items():
            if key not in written:
                if value is not None and value != "":
                    yield join(path, key), value
            elif value != written[key]:
                # What is the same through and through, most turns of most requests, has nothing to be found in it.
                yield from _missing(value, written[key], path=join(path, key))
    elif isinstance(body, list) and isinstance(written, list):
        if len(body) != len(written):
            yield path, body
            return
        for index, (value, counterpart) in enumerate(zip(body, written, strict=True)):
            if value != counterpart:
                yield from _missing(value, counterpart, path=join(path, index))


def _fill(parent: JsonObject, key: str, *, value: Any) -> None:
    there = parent.get(key)
    if key not in parent or (
        isinstance(there, list) and isinstance(value, list) and _words_kept(there) == _words_kept(value)
    ):
        parent[key] = value


def _words_kept(items: list[Any]) -> str:
    texts = (item.get("text") for item in items if isinstance(item, dict))
    return "\n".join(text for text in texts if text and isinstance(text, str))


def _child(node: Any, step: Step) -> Any:
    match node, step:
        case dict(), str():
            return node.get(step)
        case list(), int() if step < len(node):
            return node[step]
        case _:
            return None


def _steps(path: str) -> tuple[Step, ...]:
    return tuple(
        name or (int(index) if index else str(decode(quoted)))
        for name, index, quoted in (match.groups() for match in _STEP.finditer(path))
    )
