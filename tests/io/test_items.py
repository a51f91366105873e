"""Every kind of input is read; what cannot be is an item that says why."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from demur.cli.check import Item, read_items
from demur.errors import EmptyInputError, EncodingError, InputError, JsonError, ShapeError, SizeLimitError
from demur.io.files import InputLimits
from demur.model.exchange import Exchange

LIMITS = InputLimits()
CHAT = b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'
ROW = b'{"response": "hi"}'
STREAM = (
    b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
    b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def items(tmp_path: Path, name: str, data: bytes, limits: InputLimits = LIMITS) -> list[Item]:
    path = tmp_path / name
    path.write_bytes(data)
    return list(read_items(str(path), limits))


def text_of(item: Item) -> str:
    if isinstance(item.content, str):
        return item.content
    assert isinstance(item.content, Exchange)
    assert item.content.response is not None
    return item.content.response.choices[0].text


@pytest.mark.parametrize(
    ("name", "data", "texts"),
    [
        ("a.txt", b"Hello there.", ["Hello there."]),
        ("a", b"\xef\xbb\xbfHello", ["Hello"]),
        ("a", b"[CLASSIC] I cannot", ["[CLASSIC] I cannot"]),
        ("a.json", CHAT, ["hi"]),
        ("a", b"\n  " + CHAT, ["hi"]),
        ("a.json", b"[" + CHAT + b"," + ROW + b"]", ["hi", "hi"]),
        ("a.jsonl", ROW + b"\n\n" + CHAT + b"\n", ["hi", "hi"]),
        ("a.json", ROW + b"\r\n" + ROW, ["hi", "hi"]),
        ("a.jsonl", b"\xef\xbb\xbf" + ROW, ["hi"]),
        ("a.sse", STREAM, ["hi"]),
    ],
)
def test_what_can_be_read_is_read(tmp_path: Path, name: str, data: bytes, texts: list[str]) -> None:
    """Text, documents, arrays, lines and captured streams are told apart by name or by how they start."""
    assert [text_of(item) for item in items(tmp_path, name, data)] == texts


@pytest.mark.parametrize(
    ("name", "data", "error", "says"),
    [
        ("a.txt", b" \n", EmptyInputError, "nothing in it"),
        ("a.json", b"[]", EmptyInputError, "an empty array"),
        ("a.txt", b"caf\xe9", EncodingError, "not UTF-8 at byte 3"),
        ("a.json", b'{"a": "\xe9"}', EncodingError, "not UTF-8 at byte 7"),
        ("a.txt", b"\xff\xfeh\x00", EncodingError, "UTF-16"),
        ("a.json", b'{"a": ', JsonError, "not JSON"),
        ("a.json", b"hello", JsonError, "not JSON"),
        ("a.json", b'{"foo": 1}', ShapeError, "unknown shape with the fields `foo`"),
        ("a.json", b"{}", ShapeError, "an empty object"),
        ("a.json", b"3", ShapeError, "expected a JSON object"),
        ("a.json", b'{"choices": 7}', ShapeError, "choices"),
        ("a.sse", b"data: {}\n\n", ShapeError, "a stream of no known shape"),
    ],
)
def test_what_cannot_be_read_says_why(
    tmp_path: Path, name: str, data: bytes, error: type[InputError], says: str
) -> None:
    """The one item holds the error, which names the file and what is wrong."""
    (item,) = items(tmp_path, name, data)
    assert isinstance(item.content, error)
    assert says in str(item.content)
    assert str(tmp_path / name) in str(item.content)


def test_bad_lines_do_not_stop_the_good_ones(tmp_path: Path) -> None:
    """Each bad line is an error with its number, and the others are read."""
    data = b"\n".join([ROW, b"{", b"[1]", ROW, b'{"response": "\xff"}', b'{"nothing": 1}', ROW])
    read = items(tmp_path, "a.jsonl", data)
    assert [i.line for i in read] == list(range(1, 8))
    assert [i.line for i in read if isinstance(i.content, InputError)] == [2, 3, 5, 6]
    assert f"`{tmp_path / 'a.jsonl'}` line 2: not JSON" in str(read[1].content)


def test_a_bad_element_does_not_stop_an_array(tmp_path: Path) -> None:
    """An array is read element by element."""
    read = items(tmp_path, "a.json", b"[" + ROW + b", 3, " + ROW + b"]")
    assert [isinstance(i.content, InputError) for i in read] == [False, True, False]


@pytest.mark.parametrize("head", [0, 70_000])
def test_a_long_line_is_refused_and_the_next_is_read(tmp_path: Path, head: int) -> None:
    """A line beyond the limit is never held whole; its number is told and reading goes on behind it."""
    long = b'{"response": "' + b"x" * 200_000 + b'"}'
    data = b"\n".join([*([ROW] * (head // len(ROW))), long, ROW])
    read = items(tmp_path, "a.jsonl", data, InputLimits(line_bytes=100_000))
    assert isinstance(read[-2].content, SizeLimitError)
    assert "DEMUR_MAX_LINE_BYTES" in str(read[-2].content)
    assert text_of(read[-1]) == "hi"


def test_a_large_document_is_refused(tmp_path: Path) -> None:
    """A document beyond the limit is an error that names the setting."""
    (item,) = items(tmp_path, "a.txt", b"x" * 101, InputLimits(document_bytes=100))
    assert isinstance(item.content, SizeLimitError)
    assert "a document of more than 100 bytes; raise DEMUR_MAX_DOCUMENT_BYTES" in str(item.content)


def test_lines_longer_than_the_head_are_whole(tmp_path: Path) -> None:
    """Lines that cross the first read are put together again."""
    data = b"\n".join(b'{"response": "%d %s"}' % (i, b"x" * 30_000) for i in range(8))
    assert [text_of(i)[0] for i in items(tmp_path, "a.jsonl", data)] == list("01234567")


def test_a_missing_file_is_an_item(tmp_path: Path) -> None:
    """A file that is not there is one error, not a traceback."""
    (item,) = read_items(str(tmp_path / "none.json"), LIMITS)
    assert "no such file or directory; check the path" in str(item.content)


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"{bad\n" + ROW + b"\n" + ROW + b"\n", [False, True, True]),
        (b"oops\n" + ROW + b"\n" + ROW + b"\n", [False, True, True]),
        (b'{"response": "' + b"x" * 70_000 + b'"}\n' + ROW + b"\n", [True, True]),
    ],
)
def test_lines_are_known_without_an_ending(tmp_path: Path, data: bytes, read: list[bool]) -> None:
    """Bad or very long first lines do not hide that a file is lines of JSON."""
    found = items(tmp_path, "log", data)
    assert [not isinstance(item.content, InputError) for item in found] == read


CUT = STREAM[: STREAM.index(b'"stop"')]


@pytest.mark.parametrize(
    "capture",
    [STREAM[: STREAM.index(b"data: [DONE]")], CUT, b": ping\n\n" + CUT, STREAM.replace(b'"stop"}', b"oops", 1)],
    ids=["not closed", "cut", "cut after a ping", "spoilt"],
)
def test_a_cut_or_spoilt_stream_keeps_what_arrived(tmp_path: Path, capture: bytes) -> None:
    """A capture that ends early, or holds one bad event, is judged by the rest and is not complete."""
    (item,) = items(tmp_path, "a.sse", capture)
    assert text_of(item) == "hi"
    assert isinstance(item.content, Exchange)
    assert item.content.response is not None
    assert not item.content.response.complete


def test_json_beyond_the_strict_decoder_is_read(tmp_path: Path) -> None:
    """Escaped lone surrogates are JSON, and so are integers of any length."""
    (item, big) = items(tmp_path, "a.jsonl", b'{"text": "a \\ud800 b"}\n{"text": "b", "n": ' + b"9" * 400 + b"}\n")
    assert text_of(item) == "a \ud800 b"
    assert text_of(big) == "b"


def test_a_closed_input_is_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no standard input, that is said."""
    monkeypatch.setattr(sys, "stdin", None)
    (item,) = read_items("-", LIMITS)
    assert "standard input is closed" in str(item.content)


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` is standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ROW)))
    (item,) = read_items("-", LIMITS)
    assert (item.source, text_of(item)) == ("<stdin>", "hi")
