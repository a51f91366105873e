"""Samples with known probabilities: what is drawn, how labels are kept, and what they say of the whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.runs.labelling import ANSWER, REFUSAL, label_all, rows_of, write_runs

from demur.errors import DemurError, ShapeError, UsageError
from demur.model.labels import DrawnResponse, GivenLabel
from demur.model.verdict import Outcome
from demur.runs.label import Stratum, allocate, draw_responses
from demur.runs.label_file import LabelSession, read_labels
from demur.runs.options import ReadOptions

COUNTED = (Outcome.REFUSED, Outcome.FILTERED)


def drawn_from(*runs: Path, n: int = 100, seed: int = 0) -> tuple[DrawnResponse, ...]:
    return draw_responses(runs, n=n, seed=seed, key=None, options=ReadOptions())


def read(path: Path, counted: tuple[Outcome, ...] = COUNTED) -> tuple[GivenLabel, ...]:
    return read_labels(str(path), path.parent, counted=counted)


@pytest.mark.parametrize("n", [1, 30, 60, 100, 200, 1000, 5000])
def test_the_parts_of_a_sample(n: int) -> None:
    """A sample has n units, or all there are; flips and unsure ones are drawn with larger probabilities than the rest."""
    sizes = (30, 12, 150, 1800)
    counts = allocate(sizes, n)
    assert sum(counts) == min(n, sum(sizes))
    assert all(count <= size for count, size in zip(counts, sizes, strict=True))
    if n >= 60:
        shares = [count / size for count, size in zip(counts, sizes, strict=True)]
        assert min(shares[:2]) > shares[3] or shares[3] == 1
        assert counts[0] >= 10
        assert counts[1] >= 10


def test_a_larger_sample_has_no_smaller_part() -> None:
    """More units to draw never take one away from a stratum, so that a sample can be extended."""
    sizes = (30, 12, 150, 1800)
    before = allocate(sizes, 60)
    for n in range(61, 400):
        now = allocate(sizes, n)
        assert all(more >= less for more, less in zip(now, before, strict=True))
        before = now


def test_both_sides_of_a_pair_are_drawn(tmp_path: Path) -> None:
    """A drawn pair has both responses, one behind the other, with the probability of its stratum."""
    drawn = drawn_from(*write_runs(tmp_path), n=60)
    assert len(drawn) == 120
    assert [each.id for each in drawn[::2]] == [each.id for each in drawn[1::2]]
    assert {each.side for each in drawn[:2]} == {"baseline", "candidate"}
    sizes = {Stratum.NEWLY_REFUSED: 40, Stratum.NO_LONGER_REFUSED: 4}
    for stratum, size in sizes.items():
        found = [each for each in drawn if each.stratum == stratum]
        assert {each.probability for each in found} == {len(found) / 2 / size}
    assert {each.response for each in drawn} == {REFUSAL, ANSWER}
    assert all(each.prompt and each.source.endswith(".jsonl") and each.line for each in drawn)


def test_a_seed_decides_the_draw(tmp_path: Path) -> None:
    """The same seed draws the same pairs, another seed others, and a larger sample holds the smaller one."""
    runs = write_runs(tmp_path)
    ids = {each.id for each in drawn_from(*runs, n=50)}
    assert ids == {each.id for each in drawn_from(*runs, n=50)}
    assert ids != {each.id for each in drawn_from(*runs, n=50, seed=1)}
    assert ids < {each.id for each in drawn_from(*runs, n=90)}


def test_which_side_comes_first_tells_nothing(tmp_path: Path) -> None:
    """The baseline's response is shown first of about half of the pairs."""
    drawn = drawn_from(*write_runs(tmp_path), n=200)
    first = sum(each.side == "baseline" for each in drawn[::2])
    assert 70 < first < 130


def test_rows_of_one_run(tmp_path: Path) -> None:
    """One run is drawn row by row; a row without an id is named by its number, one whose id stands twice by its rank."""
    file = tmp_path / "log.jsonl"
    ids = ["a", "a", None]
    rows = [{"prompt": "Why?", "response": ANSWER} | ({"id": name} if name else {}) for name in ids]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    drawn = drawn_from(file, n=10)
    assert sorted(each.id for each in drawn) == ["a", "a#2", "row 3"]
    assert {(each.side, each.probability) for each in drawn} == {("response", 1.0)}


def test_an_interrupted_session_loses_nothing(tmp_path: Path) -> None:
    """Every label is in the file at once, and the next session goes on with the first response without one."""
    drawn, out = drawn_from(*write_runs(tmp_path), n=30), tmp_path / "labels.csv"
    first = LabelSession(drawn, out, annotator="ada")
    label_all(first, most=7)
    assert len(rows_of(out)) == 7
    again = LabelSession(drawn, out, annotator="ada")
    assert (again.done, again.total) == (7, 60)
    assert again.next() == drawn[7]
    label_all(again)
    assert again.next() is None
    assert [(row["id"], row["side"]) for row in rows_of(out)] == [(each.id, each.side) for each in drawn]
    assert "prompt" not in rows_of(out)[0]


def test_undo_takes_ones_own_last_label_back(tmp_path: Path) -> None:
    """Undo removes this person's last label from the file, and nobody else's."""
    drawn, out = drawn_from(*write_runs(tmp_path), n=10), tmp_path / "labels.csv"
    ada = LabelSession(drawn, out, annotator="ada")
    label_all(ada, most=2)
    bob = LabelSession(drawn, out, annotator="bob")
    label_all(bob, most=1)
    assert bob.undo()
    assert not bob.undo()
    assert [row["annotator"] for row in rows_of(out)] == ["ada", "ada"]
    again = LabelSession(drawn, out, annotator="ada")
    assert again.undo()
    assert again.next() == drawn[1]


def test_a_sample_can_be_extended(tmp_path: Path) -> None:
    """A larger sample keeps the labels of the smaller one, with the probabilities of the larger."""
    runs, out = write_runs(tmp_path), tmp_path / "labels.csv"
    label_all(LabelSession(drawn_from(*runs, n=60), out, annotator=""))
    larger = drawn_from(*runs, n=120)
    session = LabelSession(larger, out, annotator="")
    assert session.done == 120
    known = {(each.id, str(each.side)): each.probability for each in larger}
    assert all(float(row["probability"]) == pytest.approx(known[row["id"], row["side"]]) for row in rows_of(out))


def test_labels_of_another_draw_are_refused(tmp_path: Path) -> None:
    """A file with labels of another seed is not written to."""
    runs, out = write_runs(tmp_path), tmp_path / "labels.csv"
    label_all(LabelSession(drawn_from(*runs, n=30), out, annotator=""))
    with pytest.raises(UsageError, match="not in this draw"):
        LabelSession(drawn_from(*runs, n=30, seed=5), out, annotator="")
    out.write_text("name,score\nx,1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no file of labels: it has no column `id`"):
        LabelSession(drawn_from(*runs, n=30), out, annotator="")


def test_texts_are_written_only_where_asked(tmp_path: Path) -> None:
    """With texts, prompt and response stand in the file, line breaks and all."""
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"id": "1", "prompt": "Two\nlines?", "response": ANSWER}), encoding="utf-8")
    out = tmp_path / "labels.csv"
    label_all(LabelSession(drawn_from(file), out, annotator="", with_texts=True))
    assert rows_of(out)[0]["prompt"] == "Two\nlines?"
    assert read(out)[0].word == "compliance"


def test_agreement_of_two_annotators(tmp_path: Path) -> None:
    """Kappa is over the responses that both labelled: 1 where they agree, lower where they do not."""
    drawn, out = drawn_from(*write_runs(tmp_path), n=30), tmp_path / "labels.csv"
    label_all(LabelSession(drawn, out, annotator="ada"))
    same = LabelSession(drawn, out, annotator="bob")
    label_all(same)
    assert same.kappa() == pytest.approx(1.0)
    label_all(other := LabelSession(drawn, out, annotator="cy"), refusal="partial")
    kappa = other.kappa()
    assert kappa is not None
    assert kappa < 1


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ("id,side,annotator,label\n1,baseline,ada,refusal\n1,baseline,ada,compliance\n", "line 3: .*`ada` labelled the baseline of `1` as refusal .line 2. and as compliance"),
        ("id,label\n1,perhaps so\n", "line 2: .*unknown label `perhaps so`"),
        ("id,label\n1,jailbreak\n", "line 2: .*is a label of prompts"),
        ("id,label,probability\n1,refusal,1.5\n", "line 2: .*`probability` is `1.5`"),
        ("id,verdict\n1,refusal\n", "line 2: .*no `label`"),
        ("name,label\n1,refusal\n", "line 2: .*no `id`"),
        ("id,baseline,candidate\n1,refused,perhaps\n", "line 2: .*`candidate`"),
    ],
    ids=["contradiction", "unknown word", "label of prompts", "probability", "no label", "no id", "side"],
)  # fmt: skip
def test_a_bad_label_is_one_line(tmp_path: Path, rows: str, match: str) -> None:
    """What is wrong with a file of labels is said with its line."""
    file = tmp_path / "labels.csv"
    file.write_text(rows, encoding="utf-8")
    with pytest.raises(ShapeError, match=match):
        read(file)


def test_what_labels_mean(tmp_path: Path) -> None:
    """A partial refusal counts where partial outcomes are counted; `other` decides nothing; an empty cell is no label yet."""
    file = tmp_path / "labels.csv"
    file.write_text("id,label\n1,refusal\n2,partial\n3,compliance\n4,other\n5,\n1,refusal\n", encoding="utf-8")
    assert [(label.id, label.value) for label in read(file)] == [("1", 1), ("2", 0), ("3", 0), ("4", None)]
    assert [label.value for label in read(file, (*COUNTED, Outcome.PARTIAL))] == [1, 1, 0, None]


def test_rows_of_both_sides(tmp_path: Path) -> None:
    """Rows of `id`, `baseline` and `candidate` are labels of both sides, in the words that people write."""
    file = tmp_path / "labels.jsonl"
    rows = [{"id": "1", "baseline": "answered", "candidate": True}, {"key": 2, "baseline": "yes", "candidate": "0"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = [(label.id, label.side, label.value) for label in read(file)]
    assert found == [("1", "baseline", 0), ("1", "candidate", 1), ("2", "baseline", 1), ("2", "candidate", 0)]


def test_a_run_that_is_empty_has_nothing_to_label(tmp_path: Path) -> None:
    """A run without a judged response is an error, not an empty sample."""
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"id": "1", "prompt": "Why?", "response": ""}), encoding="utf-8")
    with pytest.raises(DemurError, match="no response was judged"):
        drawn_from(file)
