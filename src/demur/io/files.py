"""Files and standard input, read item by item: plain text, a JSON document, JSON lines, or a captured stream.

Laws: an item that cannot be read is an item that holds the error, with its file and line, and the next one is read all
the same; no line and no document is held in memory beyond the limits; nothing is silently shortened.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from demur.errors import EmptyInputError, EncodingError, InputError, JsonError, ShapeError, SizeLimitError
from demur.wire.document import parse_json, parse_utf8
from demur.wire.shapes import read_exchange, read_stream
from demur.wire.sse import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.io.config import InputLimits
    from demur.model.exchange import Exchange

__all__ = [
    "BodyReader",
    "Item",
    "bounded_document",
    "bounded_lines",
    "open_source",
    "read_items",
    "read_text",
    "too_large",
]

BodyReader = Callable[[dict[str, Any]], "Exchange"]
"""Takes a JSON object apart: as an answer, or as what was asked."""

_HEAD_BYTES = 65536
_LINES_TRIED = 20
_EVENT = re.compile(rb"(?m)^data: ?(?:\{|\[DONE\])")
_ARRAY = re.compile(rb"\[\s*[{\]]")
_BOM = b"\xef\xbb\xbf"


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
    """Yield what stands in a file, or in standard input where `name` is `-`; `read` takes each JSON object."""
    source = "<stdin>" if name == "-" else name
    try:
        with open_source(name) as stream:
            yield from _read(stream, source, limits, read=read)
    except OSError as exc:
        yield Item(source, None, _unreadable(exc, source))


def read_text(name: str) -> str:
    """Return a small text file of the user's, such as a pack, whole."""
    try:
        return parse_utf8(Path(name).read_bytes())
    except OSError as exc:
        raise _unreadable(exc, name) from exc


def _unreadable(exc: OSError, source: str) -> InputError:
    return InputError((exc.strerror or "cannot be read").lower(), source=source, hint="check the path")


@contextmanager
def open_source(name: str) -> Iterator[IO[bytes]]:
    """Give the bytes of a file, or of standard input, which stays open, where `name` is `-`."""
    if name == "-":
        if sys.stdin is None:
            raise OSError(0, "standard input is closed")
        yield sys.stdin.buffer
    else:
        with Path(name).open("rb") as stream:
            yield stream


def _read(stream: IO[bytes], source: str, limits: InputLimits, *, read: BodyReader) -> Iterator[Item]:
    head = stream.read(_HEAD_BYTES)
    try:
        _refuse_unreadable(head)
        kind = _kind(source, head.removeprefix(_BOM))
        if kind is _Kind.LINES:
            yield from _lines(_Rest(head, stream), source, limits, read=read)
            return
        whole = bounded_document(stream, limits, head=head).removeprefix(_BOM)
        yield from _document(whole, kind, source, read=read)
    except InputError as exc:
        yield Item(source, None, exc.at(source))


def _refuse_unreadable(head: bytes) -> None:
    if not head.strip():
        raise EmptyInputError("nothing in it", hint="expected text, a response as JSON, or JSON lines")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise EncodingError("not UTF-8 but UTF-16", hint="convert it: iconv -f UTF-16 -t UTF-8")


def _kind(source: str, head: bytes) -> _Kind:
    """Return how to read an input, by its name's ending, else by how it starts."""
    ending = Path(source).suffix.lower()
    start = head.lstrip()
    if ending in (".jsonl", ".ndjson"):
        return _Kind.LINES
    if _EVENT.search(head):
        return _Kind.STREAM
    if _has_json_lines(start):
        return _Kind.LINES
    if ending == ".json" or start.startswith(b"{") or _ARRAY.match(start):
        return _Kind.DOCUMENT
    return _Kind.TEXT


def _has_json_lines(start: bytes) -> bool:
    """Return whether there is more than one line and one of the first is an object by itself, bad ones among them or not."""
    *lines, _ = [line for line in start.splitlines() if line.strip()][: _LINES_TRIED + 1] or [b""]
    return any(line.lstrip().startswith(b"{") and _is_json(line) for line in lines)


def _is_json(line: bytes) -> bool:
    try:
        parse_json(line)
    except InputError:
        return False
    return True


class _Readable(Protocol):
    """Bytes that are read line by line."""

    def readline(self, size: int, /) -> bytes:
        """Return up to `size` bytes of the next line."""
        ...


class _Rest:
    """A stream whose head has been read already."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = head.removeprefix(_BOM)
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


def bounded_lines(stream: _Readable, limits: InputLimits) -> Iterator[tuple[int, bytes | SizeLimitError]]:
    """Yield each line with its number, from 1 on; one beyond the limit is skipped whole and its error stands for it."""
    number = 0
    while line := stream.readline(limits.line_bytes + 1):
        number += 1
        if len(line) > limits.line_bytes and not line.endswith(b"\n"):
            _skip_line(stream)
            yield number, too_large("line", limits.line_bytes, "DEMUR_MAX_LINE_BYTES")
        else:
            yield number, line


def _lines(stream: _Rest, source: str, limits: InputLimits, *, read: BodyReader) -> Iterator[Item]:
    for number, line in bounded_lines(stream, limits):
        if isinstance(line, SizeLimitError):
            yield Item(source, number, line.at(source, number))
        elif line.strip():
            yield _line(line, source, number, read=read)


def _skip_line(stream: _Readable) -> None:
    while (piece := stream.readline(1024 * 1024)) and not piece.endswith(b"\n"):
        pass


def _line(line: bytes, source: str, number: int, *, read: BodyReader) -> Item:
    try:
        return Item(source, number, _exchange(parse_json(line), read))
    except InputError as exc:
        return Item(source, number, exc.at(source, number))


def bounded_document(stream: IO[bytes], limits: InputLimits, *, head: bytes = b"") -> bytes:
    """Return the whole of a stream whose `head` has been read already, or raise where it is beyond the limit."""
    whole = head + stream.read(limits.document_bytes + 1 - len(head))
    if len(whole) > limits.document_bytes:
        raise too_large("document", limits.document_bytes, "DEMUR_MAX_DOCUMENT_BYTES")
    return whole


def _document(whole: bytes, kind: _Kind, source: str, *, read: BodyReader) -> Iterator[Item]:
    if kind is _Kind.TEXT:
        yield Item(source, None, parse_utf8(whole))
        return
    if kind is _Kind.STREAM:
        yield Item(source, None, read_stream(Decoder().feed(whole)))
        return
    try:
        body = parse_json(whole)
    except JsonError:
        first, _, more = whole.partition(b"\n")
        if not (more.strip() and _is_json(first)):
            raise
        # Lines after all: the first was longer than the look at the head.
        for number, line in enumerate(whole.splitlines(), 1):
            if line.strip():
                yield _line(line, source, number, read=read)
        return
    yield from _bodies(body, source, read)


def _bodies(body: Any, source: str, read: BodyReader) -> Iterator[Item]:  # noqa: ANN401 — decoded JSON
    """Yield one item for a JSON object, or one for each element of an array."""
    if not isinstance(body, list):
        yield Item(source, None, _exchange(body, read))
        return
    if not body:
        raise EmptyInputError("an empty array", hint="expected at least one response")
    for number, element in enumerate(body, 1):
        try:
            yield Item(source, number, _exchange(element, read))
        except InputError as exc:
            yield Item(source, number, exc.at(source, number))


def _exchange(body: Any, read: BodyReader) -> Exchange:  # noqa: ANN401 — decoded JSON
    if not isinstance(body, dict):
        raise ShapeError("expected a JSON object", hint="each item is a provider's response or a row with a `response`")
    return read(body)


def too_large(what: str, limit: int, setting: str) -> SizeLimitError:
    """Return the error for what is beyond a limit, which names the setting that raises it."""
    return SizeLimitError(f"a {what} of more than {limit} bytes", hint=f"raise {setting} if that is meant")
