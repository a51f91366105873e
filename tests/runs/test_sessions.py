"""Rows that belong together count as one: in scans, between runs of different questions, and between pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runs.run_files import NO, YES

from demur.io.files import InputLimits
from demur.model.comparison import Change, ClusterSum
from demur.model.sessions import SessionSums
from demur.report.diff_view import diff_view
from demur.report.scan_view import scan_view
from demur.report.terminal import terminal_lines
from demur.runs.api import compare, scan
from demur.runs.engine import Engine, LoadedRun, open_engine
from demur.runs.ingest import Ingest
from demur.runs.inputs import spool_rows
from demur.runs.sessions import group_session_sums, linked_groups, row_groups, run_session_sums

COUNTED = ("refused", "filtered")
Row = dict[str, Any]


def row(i: int, *, refused: bool, **extra: Any) -> Row:
    """Return the row of a question."""
    return {"id": f"q{i}", "prompt": f"question {i}", "response": NO if refused else YES, **extra}


def talks(sessions: int, turns: int, refusing: int, **extra: Any) -> list[Row]:
    """Return conversations of which some are refused throughout."""
    numbers = count()
    return [
        row(next(numbers), refused=s < refusing, session_id=f"s{s}", **extra)
        for s in range(sessions)
        for _ in range(turns)
    ]


def said(view: Any) -> str:
    """Return a report as its reader sees it, without line breaks."""
    return " ".join(" ".join(terminal_lines(view, width=200)).split())


def test_one_conversation_does_not_make_a_group_differ() -> None:
    """One conversation of forty that refuses throughout is one refusal of forty, not ten of four hundred (audit 6)."""
    rows = talks(40, 10, 1, category="a") + talks(40, 10, 0, category="b")
    apart = [
        {**each, "session_id": f"{each['category']}{each['session_id']}", "id": str(i), "prompt": f"p{i}"}
        for i, each in enumerate(rows)
    ]
    found = scan(apart, by=["category"])
    assert found.differences[0].difference.p > 0.2
    assert "beyond chance" not in said(scan_view(found))
    single = scan([{k: v for k, v in each.items() if k != "session_id"} for each in apart], by=["category"])
    assert single.differences[0].difference.p < 0.01
    assert found.rate.interval.high > 1.5 * single.rate.interval.high


def test_a_scan_says_that_sessions_count() -> None:
    """A scan of sessions says that they count, and how many there are; one of single rows does not."""
    text = said(scan_view(scan(talks(12, 5, 2))))
    assert "60 judged answers come in 12 sessions: sessions count, not rows" in text
    assert "sessions count" not in said(scan_view(scan([row(i, refused=i < 2) for i in range(60)])))


def test_runs_without_pairs_count_sessions() -> None:
    """Two conversations that refuse throughout prove nothing between runs that are not paired (audit 6)."""
    found = compare(talks(20, 10, 0), talks(20, 10, 2), unpaired=True)
    assert found.difference.p > 0.05
    assert found.difference.interval.low < 0 < found.difference.interval.high
    assert found.clustering is not None
    assert (found.clustering.field, found.clustering.count) == ("session", 40)
    assert "sessions count, not rows" in said(diff_view(found))
    alone = [[{k: v for k, v in each.items() if k != "session_id"} for each in talks(20, 10, n)] for n in (0, 2)]
    assert compare(*alone, unpaired=True).difference.p < 0.001


def test_few_sessions_support_no_test_between_runs() -> None:
    """With fewer than five sessions on a side no difference is claimed, and the reason is said."""
    found = compare(talks(30, 10, 0), talks(4, 50, 4), unpaired=True)
    assert (found.difference.value, found.difference.p) == (1.0, 1.0)
    assert found.decision.change is Change.INCONCLUSIVE
    assert "4 sessions on a side cannot support a test at 5 %" in found.decision.reason
    assert compare(talks(30, 10, 0), talks(5, 50, 5), unpaired=True).decision.change is Change.INCREASED


def test_one_question_asked_often_is_one_question() -> None:
    """One question asked 200 times in each run is one cluster on each side, paired or not (audit 6)."""
    before, after = ([{"prompt": "the same", "response": NO if i < n else YES} for i in range(200)] for n in (20, 120))
    found = compare(before, after, unpaired=True)
    assert (found.difference.p, found.decision.change) == (1.0, Change.INCONCLUSIVE)
    assert "1 question on a side" in found.decision.reason
    assert compare(before, after).difference.p == 1.0


def test_one_prompt_under_many_ids_is_one_cluster() -> None:
    """Thirty ids of one prompt are one question (audit 14); `--cluster key` says that they are thirty."""
    before = [{**row(i, refused=False), "prompt": "the same"} for i in range(30)]
    after = [{**each, "response": NO} for each in before]
    found = compare(before, after)
    assert (found.tally.cluster_field, found.tally.clusters) == ("question", (ClusterSum(30, 30, 1, 0),))
    assert (found.difference.p, found.decision.change) == (1.0, Change.INCONCLUSIVE)
    assert compare(before, after, cluster="none").difference.p < 0.001


def test_sessions_of_both_runs_count() -> None:
    """Where the candidate's rows are of two sessions, two things happened, however many sessions the baseline has (audit 14)."""
    before = [row(i, refused=False, session_id=f"b{i // 2}") for i in range(100)]
    after = [row(i, refused=i % 2 == 0, session_id=f"c{i // 50}") for i in range(100)]
    found = compare(before, after)
    assert (found.tally.cluster_field, found.clustering and found.clustering.count) == ("session of either run", 2)
    assert "2 sessions cannot support a test" in found.decision.reason
    there = compare(after, before)
    assert there.clustering is not None
    assert (there.clustering.count, there.difference.p) == (2, found.difference.p)


def test_sessions_of_other_names_are_the_same_sessions() -> None:
    """Runs that name the same sessions differently have the clusters of either alone."""
    before = [row(i, refused=False, session_id=f"b{i // 4}") for i in range(40)]
    after = [row(i, refused=i < 8, session_id=f"c{i // 4}") for i in range(40)]
    same = [{**each, "session_id": f"b{i // 4}"} for i, each in enumerate(after)]
    assert compare(before, after).tally.clusters == compare(before, same).tally.clusters


def test_turns_of_one_text_do_not_link_sessions() -> None:
    """A turn that many sessions begin with does not make one session of them."""
    before = [{**row(i, refused=False, session_id=f"s{i // 4}"), "prompt": f"turn {i % 4}"} for i in range(80)]
    after = [{**each, "response": NO if i < 8 else YES} for i, each in enumerate(before)]
    found = compare(before, after, key="id")
    assert (found.tally.cluster_field, found.clustering and found.clustering.count) == ("session", 20)


def test_one_answer_meets_all_repeats() -> None:
    """One answer against five repeats uses all five: twenty questions, nothing left out (audit 14)."""
    before = [row(i, refused=False) for i in range(20)]
    after = [row(i, refused=r < 2) for i in range(20) for r in range(5)]
    found = compare(before, after)
    assert (found.tally.missing.total, found.missing_bounds) == (0, None)
    assert (found.tally.counts.n, found.difference.value) == (100, 0.4)
    assert found.tally.clusters == (ClusterSum(2, 5, 20, 0),)
    assert found.tally.cluster_field == "key"
    back = compare(after, before)
    assert back.difference.value == -0.4
    assert back.difference.p == found.difference.p


def test_a_retry_is_no_repeat() -> None:
    """A failed call beside its retry has no counterpart, and takes no response for one."""
    before = [row(i, refused=i < 2) for i in range(10)]
    after = [*before, {"id": "q0", "prompt": "question 0", "response": None, "error": "timeout"}]
    found = compare(before, after).tally
    assert (found.counts.n, found.missing.candidate_unmatched, found.missing.total) == (10, 1, 1)


def test_rates_of_few_sessions_are_wide() -> None:
    """The intervals of rates count sessions: 59 % from two sessions is hardly known (audit 17)."""
    before = [row(i, refused=False, session_id=f"s{i // 500}") for i in range(1000)]
    after = [row(i, refused=i < 590, session_id=f"s{i // 500}") for i in range(1000)]
    found = compare(before, after)
    assert found.candidate.value == 0.59
    assert found.candidate.interval.high - found.candidate.interval.low > 0.9
    assert found.candidate.interval.method == "wilson, design effect"
    assert "count rows, not groups" not in said(diff_view(found))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine of the module's own."""
    with open_engine() as opened:
        yield opened


def loaded(engine: Engine, table: str, rows: list[Row]) -> LoadedRun:
    """Return rows as a judged run."""
    engine.ask(f"DROP TABLE IF EXISTS {table}")
    path = spool_rows(rows, engine.folder / table)
    return engine.load(table, [str(path)], name=table, port=Ingest(fields=("category",)), limits=InputLimits())


ROWS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["s", "t", "u"]) | st.none(),
        st.sampled_from("pqr") | st.none(),
        st.sampled_from("xyz"),
    ),
    min_size=1,
    max_size=15,
)


def by_hand(rows: list[tuple[str, bool]]) -> SessionSums:
    """Return the sums over groups of rows."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for name, refused in rows:
        groups[name].append(refused)
    k, m = np.array([sum(g) for g in groups.values()], int), np.array([len(g) for g in groups.values()], int)
    return SessionSums(len(groups), int(m.sum()), int(k.sum()), int(k @ k), int(k @ m), int(m @ m))


@pytest.mark.heavy
@settings(max_examples=40)
@given(ROWS)
def test_sums_are_those_by_hand(engine: Engine, drawn: list[tuple[bool, str | None, str | None, str]]) -> None:
    """Sums over sessions, of the whole, of a value and of the rest, are those of a count by hand."""
    rows: list[Row] = [
        {"id": str(i), "response": NO if no else YES, "session_id": s, "prompt": p, "category": v}
        for i, (no, s, p, v) in enumerate(drawn)
    ]
    run = loaded(engine, "drawn", rows)
    sessions, prompts = (Counter(each[i] for each in drawn if each[i] is not None) for i in (1, 2))
    grouped, repeated = any(n > 1 for n in sessions.values()), any(n > 1 for n in prompts.values())
    kind = "session" if grouped else "question" if repeated else None
    assert row_groups(engine, [run]) == kind
    if kind is None:
        return
    names = [
        f"s{s}" if grouped and s is not None else f"p{p}" if p is not None else f"r{i}"
        for i, (_, s, p, _) in enumerate(drawn)
    ]
    found = [(name, no, v) for name, (no, _, _, v) in zip(names, drawn, strict=True)]
    whole, each = run_session_sums(engine, [run], kind, counted=COUNTED)
    assert each == (whole,) == (by_hand([(name, no) for name, no, _ in found]),)
    groups = group_session_sums(engine, [run], kind, field="category", counted=COUNTED)
    for value in {v for *_, v in found}:
        own, rest = ([(name, no) for name, no, v in found if (v == value) is is_own] for is_own in (True, False))
        assert groups[value] == (by_hand(own), by_hand(rest))


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True), max_size=8))
def test_linked_names_have_one_group(links: list[list[str]]) -> None:
    """Names that are linked, directly or through others, have one group, and no others have it."""
    groups: list[set[str]] = []
    for names in links:
        met = [group for group in groups if group & set(names)]
        groups = [group for group in groups if group not in met] + [set(names).union(*met)]
    found = linked_groups(links)
    joined = [{name for name in found if found[name] == root} for root in set(found.values())]
    assert sorted(joined, key=min) == sorted(groups, key=min)
