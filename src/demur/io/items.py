"""What `demur check` reads: files and standard input, item by item, as plain text, a JSON document, JSON lines or a captured stream.

What cannot be read is an item too: it holds the error, with its file and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from demur.errors import EmptyInputError, EncodingError, InputError, JsonError, ShapeError
from demur.io.files import BOM, bounded_document, is_json, json_object, json_rows, open_source, unreadable
from demur.wire.document import parse_json, parse_utf8
from demur.wire.shapes import read_exchange, read_stream
from demur.wire.sse import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.io.files import InputLimits
    from demur.model.exchange import Exchange

__all__ = ["BodyReader", "Item", "read_items"]

BodyReader = Callable[[dict[str, Any]], "Exchange"]
"""Reads a JSON object: as a response, or as a request."""

# Long enough for the first lines of any file that people hand in.
_HEAD_BYTES = 65536
_LINES_TRIED = 20
_EVENT = re.compile(rb"(?m)^data: ?(?:\{|\[DONE\])")
_ARRAY = re.compile(rb"\[\s*[{\]]")
_HINT = "each item is a provider's response or a row with a `response`"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing read: a text, an exchange, or the error met in its place."""

    source: str
    line: int | None
    content: str | Exchange | InputError


class _Kind(Enum):
    TEXT = auto()
    DOCUMENT = auto()
    LINES = auto()
    STREAM = auto()


def read_items(name: str, limits: InputLimits, *, read: BodyReader = read_exchange) -> Iterator[Item]:
    """Yield what a file holds, or standard input where `name` is `-`; `read` takes each JSON object."""
    source = "<stdin>" if name == "-" else name
    try:
        with open_source(name) as stream:
            head = stream.read(_HEAD_BYTES)
            if not head.strip():
                raise EmptyInputError("nothing in it", hint="expected text, a response as JSON, or JSON lines")
            if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise EncodingError("not UTF-8 but UTF-16", hint="convert it: iconv -f UTF-16 -t UTF-8")
            kind = _kind(source, head.removeprefix(BOM))
            # Only JSON lines are read as they come: the others mean something as a whole, which the limits bound.
            if kind is _Kind.LINES:
                for number, record in json_rows(_Rest(head, stream), limits, hint=_HINT):
                    yield _item(record, source, number, read=read)
                return
            whole = bounded_document(stream, limits, head=head).removeprefix(BOM)
            if kind is _Kind.TEXT:
                yield Item(source, None, parse_utf8(whole))
            elif kind is _Kind.STREAM:
                yield Item(source, None, read_stream(Decoder().feed(whole)))
            else:
                yield from _document(whole, source, read=read)
    # An item, not an exception: the other files of the call are still read.
    except OSError as exc:
        yield Item(source, None, unreadable(exc, source))
    except InputError as exc:
        yield Item(source, None, exc.at(source))


def _kind(source: str, head: bytes) -> _Kind:
    """Return how to read an input, by its name's ending, else by how it starts."""
    ending = Path(source).suffix.lower()
    start = head.lstrip()
    if ending in (".jsonl", ".ndjson"):
        return _Kind.LINES
    # A captured stream of server-sent events (WHATWG HTML, 9.2).
    if _EVENT.search(head):
        return _Kind.STREAM
    # JSON lines are more than one line, of which one of the first is an object by itself; the others may be damaged.
    *lines, _ = [line for line in start.splitlines() if line.strip()][: _LINES_TRIED + 1] or [b""]
    if any(line.lstrip().startswith(b"{") and is_json(line) for line in lines):
        return _Kind.LINES
    if ending == ".json" or start.startswith(b"{") or _ARRAY.match(start):
        return _Kind.DOCUMENT
    return _Kind.TEXT


class _Rest:
    """A stream whose head has been read already."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = head.removeprefix(BOM)
        self._stream = stream

    def readline(self, size: int) -> bytes:
        """Return up to `size` bytes of the next line."""
        if not self._head:
            return self._stream.readline(size)
        cut = self._head.find(b"\n") + 1
        take = min(cut or len(self._head), size)
        piece, self._head = self._head[:take], self._head[take:]
        if cut or take == size:
            return piece
        return piece + self._stream.readline(size - take)


def _document(whole: bytes, source: str, *, read: BodyReader) -> Iterator[Item]:
    """Yield one item for a JSON object, or one for each element of an array."""
    try:
        body = parse_json(whole)
    except JsonError:
        first, _, more = whole.partition(b"\n")
        if not (more.strip() and is_json(first)):
            raise
        # Lines after all: the first was longer than the head that was looked at.
        for number, line in enumerate(whole.splitlines(), 1):
            if line.strip():
                yield _item(json_object(line, hint=_HINT), source, number, read=read)
        return
    if isinstance(body, list) and not body:
        raise EmptyInputError("an empty array", hint="expected at least one response")
    for number, element in enumerate(body if isinstance(body, list) else [body], 1):
        record = element if isinstance(element, dict) else ShapeError("expected a JSON object", hint=_HINT)
        yield _item(record, source, number if isinstance(body, list) else None, read=read)


def _item(record: dict[str, Any] | InputError, source: str, number: int | None, *, read: BodyReader) -> Item:
    try:
        if isinstance(record, InputError):
            raise record
        return Item(source, number, read(record))
    except InputError as exc:
        return Item(source, number, exc.at(source, number))
