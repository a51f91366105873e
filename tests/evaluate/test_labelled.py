"""Labelled sets as people have them: the shared layout, our corpus, a plain CSV, and what is wrong with some rows."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import EmptyInputError, EncodingError, InputError, JsonError, ShapeError, SizeLimitError
from demur.evaluate.labelled import LeftOut, read_labelled, source_name
from demur.io.files import InputLimits, bounded_document, bounded_lines
from demur.model.evaluation import Dimension, Label, LabelledText

LIMITS = InputLimits()
Item = LabelledText | LeftOut | InputError
Reader = Callable[..., list[Item]]
RowReader = Callable[..., list[LabelledText]]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Writes a file and reads it as a labelled set."""

    def reads(content: str | bytes, name: str = "set.jsonl", limits: InputLimits = LIMITS) -> list[Item]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_labelled(str(path), limits))

    return reads


@pytest.fixture
def read_rows(read: Reader) -> RowReader:
    """Reads a file of which every row can be used."""

    def reads(content: str, name: str = "set.jsonl") -> list[LabelledText]:
        items = read(content, name)
        rows = [item for item in items if isinstance(item, LabelledText)]
        assert rows == items
        return rows

    return reads


def line(**fields: object) -> str:
    """One row as a JSON line."""
    return json.dumps(fields) + "\n"


def test_the_shared_layout(read_rows: RowReader) -> None:
    """A row with prompt, response and meta is a labelled response with its set, language, model and category."""
    meta = {"lang": "en", "model": "m-1", "type": "homonyms", "licence": "MIT"}
    (row,) = read_rows(line(id="x-1", source="xs", prompt="p", response="No.", label="refusal", meta=meta))
    assert (row.id, row.text, row.label, row.line) == ("x-1", "No.", Label.REFUSAL, 1)
    dimensions = (Dimension.SET, Dimension.LANGUAGE, Dimension.MODEL, Dimension.CATEGORY)
    assert row.facets == tuple(zip(dimensions, ("xs", "en", "m-1", "homonyms"), strict=True))


def test_a_prompt_label_judges_the_prompt(read_rows: RowReader) -> None:
    """The label says which side counts, also where the row holds both."""
    (row,) = read_rows(line(prompt="p", response="r", label="jailbreak", meta={"cats": ["SH", "V"]}))
    assert (row.id, row.text, row.label) == ("set:1", "p", Label.ATTACK)
    assert row.facets == ((Dimension.SET, "set"), (Dimension.CATEGORY, "SH"), (Dimension.CATEGORY, "V"))


def test_our_own_corpus() -> None:
    """Every row of the corpus in the repository can be used."""
    paths = sorted((Path(__file__).parents[1] / "corpus").glob("*.jsonl"))
    assert [path.name for path in paths] == ["prompts.jsonl", "responses.jsonl"]
    for path in paths:
        items = list(read_labelled(str(path), LIMITS))
        rows = [item for item in items if isinstance(item, LabelledText)]
        assert rows == items
        assert {Dimension.LANGUAGE, Dimension.TRAP} <= {dimension for row in rows for dimension, _ in row.facets}


def test_a_plain_csv(read_rows: RowReader) -> None:
    """A header names the columns in any order and case; quoted texts may run over lines; blank lines are nothing."""
    content = '\ufeffLabel,Text,Lang,Category\nrefused,"No, I\ncannot.",en,a\n\ncomplied,Sure.,,b\n'
    first, second = read_rows(content, "mine.csv")
    assert (first.text, first.label, first.line) == ("No, I\ncannot.", Label.REFUSAL, 2)
    assert (second.text, second.label, second.line) == ("Sure.", Label.COMPLIANCE, 5)
    assert first.facets == ((Dimension.SET, "mine"), (Dimension.LANGUAGE, "en"), (Dimension.CATEGORY, "a"))
    assert second.facets == ((Dimension.SET, "mine"), (Dimension.CATEGORY, "b"))


def test_a_csv_field_may_be_long(read: Reader) -> None:
    """A text beyond the csv module's own limit is read, and one beyond ours is refused."""
    content = "text,label\n" + "a" * 200_000 + ",refusal\n"
    (row,) = read(content, "a.csv")
    assert isinstance(row, LabelledText)
    (error,) = read(content, "a.csv", InputLimits(line_bytes=1000))
    assert isinstance(error, SizeLimitError)
    assert "DEMUR_MAX_LINE_BYTES" in str(error)


@pytest.mark.parametrize(
    ("word", "label"),
    [
        ("refusal", Label.REFUSAL),
        ("Refused", Label.REFUSAL),
        ("full refusal", Label.REFUSAL),
        ("2_full_refusal", Label.REFUSAL),
        ("3_partial_refusal", Label.PARTIAL),
        ("1_full_compliance", Label.COMPLIANCE),
        ("complied", Label.COMPLIANCE),
        ("attack", Label.ATTACK),
        ("prompt-injection", Label.ATTACK),
        ("extraction", Label.ATTACK),
        ("harmful", Label.HARMFUL),
        (" BENIGN ", Label.BENIGN),
    ],
)
def test_labels_have_synonyms(read_rows: RowReader, word: str, label: Label) -> None:
    """Spellings in use mean one of our labels."""
    (row,) = read_rows(line(text="t", label=word))
    assert row.label is label


def test_an_attack_without_category_has_its_label(read_rows: RowReader) -> None:
    """The kind of attack that a label names is the category where none is given."""
    rows = read_rows(line(text="t", label="extraction") + line(text="t", label="attack", category="injection"))
    assert [dict(row.facets)[Dimension.CATEGORY] for row in rows] == ["extraction", "injection"]


def test_unclear_rows_are_left_out(read: Reader) -> None:
    """A label that the set itself calls other is no error."""
    assert read(line(text="t", label="other")) == [LeftOut("labelled other")]


def test_an_empty_answer_is_a_text(read_rows: RowReader) -> None:
    """A response of no characters is a row, since models do answer so."""
    (row,) = read_rows(line(response="", label="refusal"))
    assert row.text == ""


@pytest.mark.parametrize(
    ("bad", "kind", "says"),
    [
        ("{", JsonError, "not JSON"),
        ("[" * 100_000, JsonError, "not JSON"),
        ("[1]", ShapeError, "expected a JSON object"),
        ('{"text": "t"}', ShapeError, "no label"),
        ('{"text": "t", "label": 1}', ShapeError, "unknown label `1`"),
        ('{"text": "t", "label": []}', ShapeError, "no label"),
        ('{"text": "t", "label": "maybe"}', ShapeError, "unknown label `maybe`"),
        ('{"response": null, "label": "refusal"}', ShapeError, "no text for a response label"),
        ('{"prompt": ["p"], "label": "attack"}', ShapeError, "no text for a prompt label"),
        ('{"text": "\\ud800", "label": "attack"}', JsonError, "not JSON"),
    ],
)
def test_a_bad_row_is_named_and_the_next_is_read(read: Reader, bad: str, kind: type[InputError], says: str) -> None:
    """The error knows its file and line in one line, and the row behind it is read."""
    first, error, last = read(line(text="a", label="refusal") + bad + "\n" + line(text="b", label="refusal"))
    assert isinstance(error, kind)
    assert says in str(error)
    assert "\n" not in str(error)
    assert (str(error.source).endswith("set.jsonl"), error.line) == (True, 2)
    assert isinstance(first, LabelledText)
    assert isinstance(last, LabelledText)
    assert last.line == 3


def test_bytes_that_are_no_text(read: Reader) -> None:
    """A line or a CSV file in another encoding is named as such."""
    error, last = read(b'{"text": "\xff", "label": "refusal"}\n{"text": "a", "label": "refusal"}\n')
    assert isinstance(error, EncodingError)
    assert isinstance(last, LabelledText)
    (error,) = read(b"text,label\n\xff,refusal\n", "a.csv")
    assert isinstance(error, EncodingError)


def test_csv_rows_of_another_length(read: Reader) -> None:
    """A row with too many or too few cells is named, the others are read; a header without label is refused."""
    many, few, good = read("text,label\na,b,refusal\na\na,refusal\n", "a.csv")
    assert [str(e).split(": ", 1)[1].split(";", maxsplit=1)[0] for e in (many, few)] == [
        "3 cells where the header has 2",
        "1 cells where the header has 2",
    ]
    assert isinstance(good, LabelledText)
    (error,) = read("text,verdict\na,refusal\n", "a.csv")
    assert "no `label` in the header" in str(error)


def test_limits_hold(read: Reader) -> None:
    """A line beyond the limit is skipped whole, and the setting is named."""
    long = line(text="a" * 500, label="refusal")
    error, row = read(long + line(text="b", label="refusal"), "a.jsonl", InputLimits(line_bytes=100))
    assert isinstance(error, SizeLimitError)
    assert "DEMUR_MAX_LINE_BYTES" in str(error)
    assert isinstance(row, LabelledText)
    assert row.line == 2


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.csv"])
def test_an_empty_file_is_an_error(read: Reader, name: str) -> None:
    """Nothing to read is said, never passed."""
    for content in ("\n", ""):
        (error,) = read(content, name)
        assert isinstance(error, EmptyInputError)


def test_a_missing_file_is_an_error() -> None:
    """A file that is not there is one error with its name."""
    (error,) = read_labelled("gone.jsonl", LIMITS)
    assert str(error) == "`gone.jsonl`: no such file or directory; check the path"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads JSON lines from standard input, a byte order mark aside."""
    data = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + line(text="t", label="refusal").encode()))
    monkeypatch.setattr(sys, "stdin", data)
    (row,) = read_labelled("-", LIMITS)
    assert isinstance(row, LabelledText)
    assert (row.source, row.id) == ("<stdin>", "stdin:1")


def test_a_name_can_always_be_written() -> None:
    """A file name of any bytes is shown as text."""
    assert source_name("a\udcff.jsonl") == "a?.jsonl"


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_named(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """No content makes the reader raise."""
    folder = tmp_path_factory.mktemp("any")
    for name in ("a.jsonl", "a.csv"):
        (folder / name).write_bytes(data)
        assert list(read_labelled(str(folder / name), LIMITS))


def test_lines_are_bounded() -> None:
    """Every line comes with its number, blank ones too; one beyond the limit is skipped whole and leaves its error."""
    numbered = list(bounded_lines(io.BytesIO(b"12345\n\n" + b"x" * 40 + b"\nlast"), InputLimits(line_bytes=6)))
    whole = [(number, line) for number, line in numbered if isinstance(line, bytes)]
    assert whole == [(1, b"12345\n"), (2, b"\n"), (4, b"last")]
    assert [(number, type(line)) for number, line in numbered if not isinstance(line, bytes)] == [(3, SizeLimitError)]


def test_documents_are_bounded() -> None:
    """A document up to the limit is whole, its head included; a byte more is refused."""
    assert bounded_document(io.BytesIO(b"456"), InputLimits(document_bytes=6), head=b"123") == b"123456"
    with pytest.raises(SizeLimitError, match="DEMUR_MAX_DOCUMENT_BYTES"):
        bounded_document(io.BytesIO(b"1234567"), InputLimits(document_bytes=6))
