"""`demur.compare` and `demur.scan` over real files, real engines and real processes."""

from __future__ import annotations

import io
import json
import random
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.formats import examples_tools as made
from tests.formats.examples import chat, openai_row
from tests.runs.run_files import NO, YES, csv_text, json_lines, layouts, questions

from demur.detect.check import judge_named, judge_with
from demur.errors import DemurError, EmptyInputError, ShapeError, UnreadableRowsError, UsageError
from demur.model.comparison import ClusterSum, Comparison, PairCounts, Pairing, Tally
from demur.model.estimate import Direction
from demur.model.run import GroupTally
from demur.model.verdict import Outcome
from demur.runs.api import Reading, compare, groups_worth_showing, scan
from demur.runs.options import CountOptions

BASE = questions(40, range(4), session_id=None)
CAND = questions(40, range(2, 14), session_id=None)
LAYOUTS = (
    *("jsonl", "crlf", "bom", "no last newline", "blank lines", "gzip", "two gzips", "gzip without a name for it"),
    *("zstd", "array", "csv", "csv with a mark", "csv gzip", "csv zstd", "tsv", "csv that is no pattern"),
    *("parquet", "hive"),
)


def bare(tally: Tally) -> Tally:
    """Return a tally without the names and lines of files, which differ by layout."""
    flips = tuple(
        replace(f, baseline=replace(f.baseline, source="", line=0), candidate=replace(f.candidate, source="", line=0))
        for f in tally.flips
    )
    return replace(
        tally, baseline=replace(tally.baseline, name=""), candidate=replace(tally.candidate, name=""), flips=flips
    )


def counts(comparison: Comparison) -> tuple[int, int, int, int]:
    c = comparison.tally.counts
    return c.both, c.baseline_only, c.candidate_only, c.neither


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Path]]:
    runs = {"baseline": BASE, "candidate": CAND}
    return {name: layouts(tmp_path_factory.mktemp(name), rows) for name, rows in runs.items()}


@pytest.fixture(scope="module")
def expected(written: dict[str, dict[str, Path]]) -> Tally:
    return compare(written["baseline"]["jsonl"], written["candidate"]["jsonl"]).tally


def test_what_the_rows_say_is_counted(expected: Tally) -> None:
    """Pairs, slices and flips are those of the rows."""
    assert (expected.counts, expected.pairing, expected.missing.total) == (PairCounts(2, 2, 10, 26), Pairing.ID, 0)
    assert [(s.field, s.value, s.counts.n) for s in expected.slices] == [("category", "a", 20), ("category", "b", 20)]
    assert [f.key for f in expected.flips][-2:] == ["q0", "q1"]
    assert {f.direction for f in expected.flips[:10]} == {Direction.INCREASE}
    assert (expected.repeats, expected.clusters, expected.cluster_field) == (0, (), None)


@pytest.mark.heavy
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_tally(written: dict[str, dict[str, Path]], expected: Tally, layout: str) -> None:
    """However rows are laid out and packed, the tally is the same, evidence and texts included."""
    found = compare(written["baseline"][layout], written["candidate"][layout]).tally
    assert bare(found) == bare(expected)


@pytest.mark.heavy
def test_folders_globs_lists_and_memory_give_the_same_tally(tmp_path: Path, expected: Tally) -> None:
    """A run in several files, named by folder, glob or list, or held in memory, is the same run."""
    for name, rows in (("b", BASE), ("c", CAND)):
        (tmp_path / name / "deep").mkdir(parents=True)
        json_lines(tmp_path / name / "1.jsonl", rows[:15])
        json_lines(tmp_path / name / "deep" / "2.jsonl", rows[15:])
        (tmp_path / name / "README.md").write_text("no trace")
        (tmp_path / name / ".hidden.jsonl").write_text("{")
    b, c = tmp_path / "b", tmp_path / "c"
    runs: list[tuple[Any, Any]] = [
        (str(b), c),
        (f"{b}/**/*.jsonl", str(c / "**" / "[0-9].jsonl")),
        ([b / "1.jsonl", b / "deep" / "2.jsonl"], (c / "deep" / "2.jsonl", c / "1.jsonl")),
        (BASE, iter(CAND)),
        (pa.Table.from_pylist(BASE), pa.RecordBatch.from_pylist(CAND)),
    ]
    for baseline, candidate in runs:
        assert bare(compare(baseline, candidate).tally) == bare(expected)


@pytest.mark.heavy
def test_two_processes_count_like_one(written: dict[str, dict[str, Path]], expected: Tally) -> None:
    """Work in other processes gives the same tally, for lines and for tables, with judges of every kind."""
    b, c = written["baseline"], written["candidate"]
    assert bare(compare(b["jsonl"], c["parquet"], reading=Reading(jobs=2)).tally) == bare(expected)
    for judge in (judge_named("shadow"), judge_with(refused=0.9, complied=0.2)):
        one, two = (compare(b["csv"], c["jsonl"], reading=Reading(jobs=jobs, judge=judge)).tally for jobs in (1, 2))
        assert one == two


@pytest.mark.heavy
def test_order_decides_nothing(tmp_path: Path) -> None:
    """Shuffled candidates give the same comparison, repeated ids and uneven numbers of them included."""
    base = questions(20, range(3)) + questions(10, range(5)) + questions(4, range(2))
    cand = questions(20, range(6)) + questions(10, range(2, 7))
    orders = [list(cand) for _ in range(4)]
    for seed, order in enumerate(orders):
        random.Random(seed).shuffle(order)  # noqa: S311 — an order, no secret
    tallies = [bare(compare(base, json_lines(tmp_path / "c.jsonl", order)).tally) for order in orders]
    assert all(tally == tallies[0] for tally in tallies)


def test_a_shuffled_run_has_not_changed() -> None:
    """The same answers, repeats among them, in another order are no flips."""
    rows = questions(20, range(3)) + questions(20, range(9)) + questions(20, range(1, 15, 2))
    found = compare(rows, rows[::-1]).tally
    assert (found.counts.discordant, found.counts.n, found.repeats) == (0, 60, 40)


def test_repeats_pair_by_rank_and_cluster_by_key() -> None:
    """Two answers to one question are two pairs in one cluster; a third of one side alone meets one of the two again."""
    base = questions(3, ()) * 2
    cand = questions(3, [0]) * 2 + questions(1, [0])
    found = compare(base, cand).tally
    assert (found.counts, found.repeats, found.cluster_field) == (PairCounts(0, 0, 3, 4), 4, "key")
    assert found.clusters == (ClusterSum(0, 2, 2, 0), ClusterSum(3, 3, 1, 0))
    assert found.missing.total == 0
    assert compare(base, cand, cluster="none").tally.clusters == ()


def test_sessions_and_fields_cluster() -> None:
    """Sessions of several pairs cluster by themselves, a field when it is named; a pair without one stands alone."""
    base, cand = questions(12, ()), questions(12, range(6))
    for i, (b, c) in enumerate(zip(base, cand, strict=True)):
        b["session_id"], c["session_id"] = (f"s{i // 3}",) * 2
        b["team"] = "x" if i < 4 else None
    found = compare(base, cand)
    assert (found.tally.cluster_field, found.tally.clusters) == (
        "session",
        (ClusterSum(0, 3, 2, 0), ClusterSum(3, 3, 2, 0)),
    )
    assert found.clustering is not None
    by_team = compare(base, cand, cluster="team").tally.clusters
    assert by_team == (ClusterSum(0, 1, 6, 0), ClusterSum(1, 1, 2, 0), ClusterSum(4, 4, 1, 0))
    with pytest.raises(UsageError, match="no row has a session"):
        compare(questions(2, ()), questions(2, ()), cluster="session")


def test_rows_pair_by_id_prompt_or_field() -> None:
    """Without shared ids prompts pair; a field pairs when it is named, and its value is what a flip is called."""
    base, cand = questions(8, ()), questions(8, [1, 2])
    for i, (b, c) in enumerate(zip(base, cand, strict=True)):
        b["id"], c["id"] = f"b{i}", f"c{i}"
        b["case"] = c["case"] = f"case {i}"
    by_prompt = compare(base, cand).tally
    assert (by_prompt.pairing, by_prompt.counts) == (Pairing.PROMPT, PairCounts(0, 0, 2, 6))
    assert all(flip.key.startswith("prompt ") for flip in by_prompt.flips)
    for row in (*base, *cand):
        del row["id"], row["prompt"]
    by_field = compare(base, cand, key="case").tally
    assert (by_field.pairing, by_field.counts) == (Pairing.FIELD, PairCounts(0, 0, 2, 6))
    assert [flip.key for flip in by_field.flips] == ["case 1", "case 2"]


@pytest.mark.heavy
def test_other_prompts_under_the_same_ids_are_refused(tmp_path: Path) -> None:
    """Ids that stand for other questions are an error that names a line; a few are counted, and `key` insists."""
    base, cand = questions(10, ()), questions(10, [1])
    b = json_lines(tmp_path / "b.jsonl", base)
    changed = [{**row, "prompt": f"another {i}"} for i, row in enumerate(cand)]
    with pytest.raises(ShapeError, match=r"b.jsonl` line 1: id `q0` asks another prompt in .* 10 of 10 ids"):
        compare(b, changed)
    with pytest.raises(ShapeError, match=r"baseline`: id `q0` of row 1 asks another prompt"):
        compare(pa.Table.from_pylist(base), changed)
    assert compare(b, changed, key="id").tally.prompts_changed == 10
    assert compare(b, changed[:3] + cand[3:]).tally.prompts_changed == 3


def test_failed_and_unmatched_rows_are_counted_and_bounded() -> None:
    """A missing answer is neither refusal nor answer; the bounds are those of the worst and the best that it could be."""
    base = questions(10, [0, 1])
    cand = questions(12, [0, 1])
    base[2]["response"] = cand[3]["response"] = None
    base[4]["error"] = "timeout"
    cand[4]["response"] = None
    del base[5]
    found = compare(base, cand)
    missing = found.tally.missing
    assert (missing.baseline_failed, missing.candidate_failed, missing.both_failed) == (1, 1, 1)
    assert (missing.baseline_unmatched, missing.candidate_unmatched) == (0, 3)
    assert (missing.candidate_known_answered, missing.baseline_known_answered, missing.nothing_known) == (4, 1, 1)
    assert found.tally.counts == PairCounts(2, 0, 0, 4)
    assert found.missing_bounds is not None
    assert found.missing_bounds[0] < 0 < found.missing_bounds[1]
    assert dict(found.tally.baseline.outcomes)["failed"] == 2


def test_runs_without_pairs_are_compared_as_such() -> None:
    """Rates of different questions are compared without pairs, failed rows being counted as missing."""
    cand = [{**row, "id": f"other {row['id']}", "prompt": "?"} for row in questions(20, range(15))]
    cand[-1]["response"] = None
    found = compare(questions(30, range(3)), cand, unpaired=True)
    tally = found.tally
    assert (tally.pairing, tally.unpaired_baseline, tally.unpaired_candidate) == (Pairing.NONE, (3, 30), (15, 19))
    assert (tally.missing.baseline_failed, tally.missing.candidate_failed) == (0, 1)
    with pytest.raises(UsageError, match="without pairs"):
        compare(BASE, CAND, unpaired=True, by=["category"])


def test_nothing_in_common_is_an_error() -> None:
    """Runs that share no question, and runs whose rows all failed, are errors and never a pass."""
    others = [{**row, "id": f"x{i}", "prompt": f"x{i}"} for i, row in enumerate(questions(5, ()))]
    with pytest.raises(EmptyInputError, match=r"no id and no prompt is in both runs.*5 rows, 5 with an id"):
        compare(questions(5, ()), others)
    failed = [{**row, "response": None} for row in questions(5, ())]
    with pytest.raises(EmptyInputError, match="no pair was judged in both runs"):
        compare(questions(5, ()), failed)
    with pytest.raises(EmptyInputError, match="a run has no answered row"):
        compare(questions(5, ()), failed, unpaired=True)
    with pytest.raises(EmptyInputError, match="no rows in the run"):
        compare(questions(5, ()), [])


def test_outcomes_that_count_are_chosen() -> None:
    """What counts as saying no is the caller's to say."""
    rows = [{"id": str(i), "response": text} for i, text in enumerate([NO, "", YES])]
    base = [{"id": str(i), "response": YES} for i in range(3)]
    assert counts(compare(base, rows)) == (0, 0, 1, 1)
    wider = Reading(counted=(Outcome.REFUSED, Outcome.EMPTY))
    assert counts(compare(base, rows, reading=wider)) == (0, 0, 2, 1)


@pytest.mark.heavy
@pytest.mark.parametrize("wrong", ["categry", "nowhere", 'x"; DROP TABLE baseline; --', "'); --", ""])
def test_a_field_that_no_row_has_is_an_error(wrong: str) -> None:
    """A slip of the pen in a field's name is said, with the fields that there are, and is never read as SQL."""
    for args in ({"by": [wrong]}, {"key": wrong}, {"cluster": wrong}):
        with pytest.raises(UsageError, match=r"no row has a field .*`category`"):
            compare(BASE, CAND, **args)
    with pytest.raises(UsageError, match="no row has a field"):
        scan(BASE, by=["category", wrong])


def test_fields_that_differ_in_case_alone() -> None:
    """One of them may be named, both at once may not."""
    rows = [{**row, "Model": f"m{i % 2}"} for i, row in enumerate(questions(4, [1]))]
    assert [g.value for g in scan(rows, by=["Model"]).groups] == ["m0", "m1"]
    with pytest.raises(UsageError, match="differ in case alone"):
        scan(rows, by=["Model", "MODEL"])


@pytest.mark.heavy
def test_names_and_values_are_never_sql(tmp_path: Path) -> None:
    """Quotes and semicolons in files, fields and values are names and values."""
    odd = "a'; DROP TABLE baseline; --\""
    rows = [{**row, odd: odd if i % 2 else "'"} for i, row in enumerate(questions(10, ()))]
    after = [{**row, "response": NO} if i == 3 else row for i, row in enumerate(rows)]
    for ending in ("jsonl", "csv", "parquet"):
        paths = []
        for name, content in (("b", rows), ("c", after)):
            path = tmp_path / f"{name}'; DROP TABLE candidate; --\".{ending}"
            if ending == "jsonl":
                json_lines(path, content)
            elif ending == "csv":
                path.write_text(csv_text(content))
            else:
                pq.write_table(pa.Table.from_pylist(content), path)
            paths.append(path)
        out = tmp_path / "out'; --.jsonl"
        found = compare(paths[0], paths[1], by=[odd], out=out)
        assert [(s.value, s.counts.n) for s in found.tally.slices] == [("'", 5), (odd, 5)]
        assert len(out.read_text().splitlines()) == 10
        assert scan(paths[0], by=[odd], out=out).rate.n == 10


def place(comparison: Comparison) -> tuple[str, int | None, str | None, int | None, str | None]:
    (flip,) = comparison.tally.flips
    return Path(flip.candidate.source).name, flip.candidate.line, flip.candidate.text, flip.baseline.line, flip.prompt


@pytest.mark.heavy
def test_flips_carry_their_line_and_text(tmp_path: Path) -> None:
    """The line of a flip is the line where it stands: in lines, in tables with cells of several lines, by row in Parquet."""
    base = questions(9, ())
    base[0]["response"] = "one\ntwo\n\nthree"
    cand = [{**row, "response": NO} if i == 6 else row for i, row in enumerate(base)]
    for layout, line in (("jsonl", 7), ("gzip", 7), ("blank lines", 13), ("csv", 11), ("tsv", 11), ("parquet", 7)):
        folders = [tmp_path / f"{layout} {side}" for side in "bc"]
        for folder in folders:
            folder.mkdir()
        b, c = (layouts(folder, rows)[layout] for folder, rows in zip(folders, (base, cand), strict=True))
        assert place(compare(b, c)) == (c.name, line, NO, line, "question 6")


def test_flips_of_lines_with_several_exchanges(tmp_path: Path) -> None:
    """An exchange in the middle of a line of several is the one that is shown."""

    def spans(refused: int) -> list[dict[str, Any]]:
        def span(number: int) -> dict[str, Any]:
            asked = [{"role": "user", "parts": [{"type": "text", "content": f"question {number}"}]}]
            said = made.genai(NO if number == refused else f"{YES} {number}")
            del said["gen_ai.conversation.id"]
            ids = {"traceId": f"{number:032x}", "spanId": f"{number:016x}"}
            return made.span({**said, "gen_ai.input.messages": json.dumps(asked)}, **ids)

        return [made.otlp(*(span(3 * line + k) for k in range(3))) for line in range(3)]

    b = json_lines(tmp_path / "b.jsonl", spans(-1))
    c = json_lines(tmp_path / "c.jsonl", spans(4))
    found = compare(b, c)
    assert (found.tally.baseline.format, counts(found)) == ("otel", (0, 0, 1, 8))
    assert place(found) == ("c.jsonl", 2, NO, 2, "question 4")


def eval_log(path: Path, refused: int) -> Path:
    """Write an Inspect log by hand: a header and a sample for each question."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(made.INSPECT_HEADER))
        for i in range(5):
            sample = made.inspect_sample(NO if i == refused else YES, id=f"s{i}", input=f"question {i}")
            archive.writestr(f"samples/s{i}_epoch_1.json", json.dumps(sample))
    return path


def test_flips_of_an_archive(tmp_path: Path) -> None:
    """A sample of an Inspect log is found again in its archive."""
    found = compare(eval_log(tmp_path / "b.eval", -1), eval_log(tmp_path / "c.eval", 3))
    assert (found.tally.baseline.format, counts(found)) == ("inspect", (0, 0, 1, 4))
    assert place(found) == ("c.eval", None, NO, None, "question 3")


def test_the_worst_flips_come_first() -> None:
    """Flips are shown by how far the score moved, as many of each direction as asked for."""
    half = f"{YES} I cannot go into details."
    base = [{"id": str(i), "response": YES} for i in range(9)]
    cand = [{"id": str(i), "response": NO if i > 5 else half if i == 0 else YES} for i in range(9)]
    flips = compare(base, cand, show=2).tally.flips
    assert [flip.key for flip in flips] == ["6", "7"]
    moved = [abs(f.candidate.verdict.score - f.baseline.verdict.score) for f in compare(base, cand).tally.flips]
    assert moved == sorted(moved, reverse=True)
    assert compare(base, cand, show=0).tally.flips == ()


def batch(rows: list[dict[str, Any]], *, sent: bool) -> list[dict[str, Any]]:
    """Return what was sent to a batch, or what came back."""
    if sent:
        return [
            {
                "custom_id": row["id"],
                "url": "/v1/chat/completions",
                "body": {"model": "m", "messages": [{"role": "user", "content": row["prompt"]}]},
            }
            for row in rows
        ]
    return [{**openai_row(chat(row["response"]))[0], "custom_id": row["id"]} for row in rows]


@pytest.mark.heavy
def test_requests_give_a_batch_its_prompts(tmp_path: Path) -> None:
    """The inputs of a batch join its outputs: they show what was asked, and pair outputs whose ids differ."""
    base, cand = questions(6, ()), questions(6, [2])
    b = json_lines(tmp_path / "b.jsonl", batch(base, sent=False))
    c = json_lines(tmp_path / "c.jsonl", batch(cand[::-1], sent=False))
    sent = str(json_lines(tmp_path / "in.jsonl", batch(base, sent=True)))
    without, found = compare(b, c), compare(b, c, reading=Reading(requests=(sent,)))
    assert (counts(without), without.tally.flips[0].prompt) == ((0, 0, 1, 5), None)
    assert (counts(found), place(found)) == ((0, 0, 1, 5), ("c.jsonl", 4, NO, 3, "question 2"))
    other = [{**row, "id": f"other-{row['id']}"} for row in cand]
    d = json_lines(tmp_path / "d.jsonl", batch(other, sent=False))
    more = str(json_lines(tmp_path / "more.jsonl", batch(other, sent=True)))
    paired = compare(b, d, reading=Reading(requests=(sent, more)))
    assert (paired.tally.pairing, counts(paired)) == (Pairing.PROMPT, (0, 0, 1, 5))
    assert paired.tally.flips[0].prompt == "question 2"
    with pytest.raises(EmptyInputError, match=r"more.jsonl`: no request is of a row in .*b.jsonl"):
        compare(b, c, reading=Reading(requests=(more,)))


def test_labels_correct_the_difference(tmp_path: Path) -> None:
    """Labels of some pairs join them by id, and their difference is the headline; that of the detector stands beside it."""
    base, cand = questions(150, range(4)), questions(150, range(2, 14))
    labels = [
        {"id": f"q{i}", "baseline": "answered", "candidate": "refused" if i < 8 else "answered"} for i in range(4, 124)
    ]
    path = str(json_lines(tmp_path / "l.jsonl", labels))
    found = compare(base, cand, labels=path, labels_are_random=True)
    labelled = found.tally.labelled
    assert (len(labelled), sum(p.human for p in labelled), sum(p.detector for p in labelled)) == (120, 4, 10)
    assert found.correction is not None
    assert (found.correction.labelled, found.correction.lacking) == (120, None)
    assert found.difference == found.correction.difference
    assert found.correction.detector is not None
    assert found.correction.detector.value == pytest.approx(8 / 150)
    with pytest.raises(UsageError, match="have no column `probability`: how were they drawn"):
        compare(base, cand, labels=path)
    stray = str(json_lines(tmp_path / "s.jsonl", [*labels, {**labels[0], "id": "gone"}]))
    with pytest.raises(DemurError, match="line 121: no pair of these runs has the id `gone`"):
        compare(base, cand, labels=stray, labels_are_random=True)


def test_slices_are_those_asked_for() -> None:
    """A field on one side alone is a slice too; a field of one value is none unless it is all there is."""
    base = [{**row, "metadata": {"tier": "ab"[i % 2]}, "lang": "en"} for i, row in enumerate(questions(12, ()))]
    cand = [{k: v for k, v in row.items() if k != "metadata"} for row in base]
    found = compare(base, cand, by=["metadata.tier", "language"])
    found_slices = [(s.field, s.value, s.counts.n) for s in found.tally.slices]
    assert found_slices == [("metadata.tier", "a", 6), ("metadata.tier", "b", 6)]


def test_bad_rows_stop_a_run_or_are_left_out_and_counted(tmp_path: Path) -> None:
    """Rows that cannot be read are named with their lines; left out on request, they are counted, and never all of a run."""
    rows: list[Any] = [*BASE[:5], {"nothing": 1}, *BASE[5:]]
    path = json_lines(tmp_path / "b.jsonl", rows)
    with path.open("ab") as out:
        out.write(b'{"id": NaN}\n\xff\xfe\n[1]\n')
    with pytest.raises(UnreadableRowsError, match=r"4 rows cannot be read, the first: .*b.jsonl` line 6") as caught:
        compare(path, CAND)
    assert [error.line for error in caught.value.errors] == [6, 42, 43, 44]
    found = compare(path, CAND, reading=Reading(skip_bad=True)).tally
    assert (found.baseline.unreadable, found.baseline.rows, found.counts) == (4, 40, PairCounts(2, 2, 10, 26))
    lost = json_lines(tmp_path / "lost.jsonl", [BASE[0]])
    lost.write_bytes(b"{\n" + lost.read_bytes().replace(b'"response"', b'"nothing"'))
    with pytest.raises(UnreadableRowsError, match="no row of the run can be read"):
        scan(lost, reading=Reading(skip_bad=True, format="flat"))


@pytest.mark.heavy
def test_rows_in_memory_of_every_kind() -> None:
    """Texts pair by their place, data frames are tables, and what is no run is refused."""
    assert counts(compare([YES, NO, YES], [NO, NO, None])) == (1, 0, 1, 0)
    assert counts(compare(BASE, pd.DataFrame(CAND))) == (2, 2, 10, 26)
    for nothing in (5, None, {"response": YES}, b"x"):
        with pytest.raises(UsageError, match="neither a path nor rows; pass a path"):
            compare(BASE, nothing)
    with pytest.raises(UsageError, match=r"row 1 is no JSON \(.*; rows hold texts, numbers"):
        compare([{"response": YES, "x": object()}], BASE)
    flip = compare(BASE, CAND).tally.flips[0]
    assert (flip.baseline.source, flip.candidate.source, flip.candidate.line) == ("baseline", "candidate", 11)


def test_a_surrogate_in_memory_is_read() -> None:
    """A text with half a character is a text."""
    assert counts(compare(["\ud800 hello", YES], [f"{NO} \udfff", YES])) == (0, 0, 1, 1)


def test_nothing_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's folder is gone after a comparison, and after one that failed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compare(BASE, CAND)
    with pytest.raises(UsageError):
        compare(BASE, CAND, by=["nowhere"])
    assert list(tmp_path.iterdir()) == []


def test_standard_input_is_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Tally) -> None:
    """A run that is piped in is read, and read again for its flips."""
    path = json_lines(tmp_path / "c.jsonl", CAND)
    with path.open("rb") as raw:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(raw))
        found = compare(BASE, "-").tally
    assert bare(found) == bare(expected)
    assert (found.candidate.name, found.flips[0].candidate.source) == ("standard input", "<stdin>")


def test_scans_count_groups_and_phrases(tmp_path: Path) -> None:
    """Rates are by run and by group, and the words that refusals used are counted."""
    b, c = json_lines(tmp_path / "b.jsonl", BASE), tmp_path / "c.csv"
    c.write_text(csv_text(CAND))
    found = scan(b, c)
    assert [(rate.count, rate.n) for rate in found.runs] == [(4, 40), (12, 40)]
    assert [(g.field, g.value, g.rate.n) for g in found.groups] == [("category", "a", 40), ("category", "b", 40)]
    assert found.tally.read_for_phrases == 16
    assert found.tally.phrases[0].count == 16
    with pytest.raises(UsageError, match="no run to scan"):
        scan()


def test_verification_is_for_logs_with_hashes() -> None:
    """Ids that are no hashes cannot be verified, and saying nothing of it would be a lie."""
    with pytest.raises(UsageError, match="format flat, whose ids cannot be verified"):
        compare(BASE, CAND, reading=Reading(verify=True))


def test_what_is_counted_is_told_once_for_every_engine() -> None:
    """Named fields are those of the call that are no words of ours; rows are kept with them and the model, each once."""
    asked = CountOptions(["tier", "model", "tier"], key="ticket", cluster="session")
    assert asked.slices == ("tier", "model")
    assert asked.named == asked.kept == ("tier", "model", "ticket")
    assert (CountOptions(key="id", cluster="none").named, CountOptions([]).kept) == ((), ("model",))
    with pytest.raises(UsageError, match="the fields `Tier` and `tier` differ in case alone"):
        assert CountOptions(["Tier"], cluster="tier").kept


def test_groups_by_default_are_those_of_several_values() -> None:
    """A field of one value is shown where it was asked for, and left out where it was not."""
    one, two = GroupTally("model", "m", ()), [GroupTally("tier", value, ()) for value in "ab"]
    assert groups_worth_showing([one, *two], CountOptions()) == tuple(two)
    assert groups_worth_showing([one, *two], CountOptions(["model", "tier"])) == (one, *two)


def test_columns_are_named_by_keywords(tmp_path: Path) -> None:
    """The keywords of Python are the names of the flags, for rows in memory, files and tables, also in the pairs that axes read again."""
    own = [{"uid": r["id"], "asked": r["prompt"], "out": {"said": r["response"]}} for r in questions(30, range(5))]
    tables = [{"key": row["uid"], "out.said": row["out"]["said"]} for row in own]
    assert (scan(own, response_field="out.said").rate.count, scan(tables, response_field="out.said").rate.count) == (
        5,
        5,
    )
    path = json_lines(tmp_path / "own.jsonl", own)
    found = compare(path, own, response_field="out.said", id_field="uid", prompt_field="asked", axes=["length"])
    assert (found.tally.pairing, found.tally.counts) == (Pairing.ID, PairCounts(5, 0, 0, 25))
    assert found.axes is not None
    with pytest.raises(TypeError, match="response_filed"):
        scan(own, response_filed="out.said")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"no row has a column `out.sad`; did you mean `out.said`\?"):
        scan(own, response_field="out.sad")


def test_labels_count_in_flips() -> None:
    """A flip that only people saw is shown with what they said."""
    rows = [{"id": i, "response": "Fine.", "human": 0} for i in range(10)]
    labelled = [rows[0] | {"human": 1}, *rows[1:]]
    found = compare(rows, labelled, label_field="human", label_map={1: "refusal", 0: "compliance"})
    (flip,) = found.tally.flips
    assert (flip.key, flip.candidate.verdict.cause, flip.candidate.text) == ("0", "person", "Fine.")
