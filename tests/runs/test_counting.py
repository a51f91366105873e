"""Counts by SQL against the same counts by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runs.run_files import NO, YES

from demur.io.files import InputLimits
from demur.model.comparison import PairCounts
from demur.model.verdict import Outcome
from demur.runs.counting import abstained_of, group_tallies, pair_runs, places_of, run_summary
from demur.runs.engine import Engine, LoadedRun, open_engine
from demur.runs.ingest import Ingest
from demur.runs.inputs import spool_rows

COUNTED = ("refused", "filtered")
STATES: dict[str, dict[str, Any]] = {"a": {"response": NO}, "n": {"response": YES}, "f": {"response": None}}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_engine() as opened:
        yield opened


def loaded(engine: Engine, table: str, rows: list[dict[str, Any]]) -> LoadedRun:
    engine.ask(f"DROP TABLE IF EXISTS {table}")
    path = spool_rows(rows, engine.folder / table)
    port = Ingest(fields=("category", "model"))
    return engine.load(table, [str(path)], name=table, port=port, limits=InputLimits())


SIDE = st.lists(
    st.tuples(st.sampled_from("abcde") | st.none(), st.sampled_from("anf"), st.sampled_from(["s", "t"]) | st.none()),
    max_size=12,
)


def rows_of(side: list[tuple[str | None, str, str | None]]) -> list[dict[str, Any]]:
    shared: dict[str, Any] = {"id": "shared", "response": YES}
    return [shared] + [{"id": key, **STATES[state], "session_id": session} for key, state, session in side]


@pytest.mark.heavy
@settings(max_examples=60)
@given(SIDE, SIDE)
def test_pairs_add_up(engine: Engine, before: list[Any], after: list[Any]) -> None:
    """Every row is in one pair or unmatched; rates, missing sides and clusters add up to what the rows hold."""
    runs = (loaded(engine, "baseline", rows_of(before)), loaded(engine, "candidate", rows_of(after)))
    found = pair_runs(engine, runs, counted=COUNTED)
    counts, missing = found.counts, found.missing
    keys = [Counter(key for key, *_ in side if key) for side in (before, after)]
    judged = [Counter(key for key, state, _ in side if key and state != "f") for side in (before, after)]
    # A judged row that the other run has no row for meets one of its judged rows again.
    again = [sum(max(0, judged[1 - i][key] - keys[i][key]) for key in judged[i] if judged[i][key]) for i in (0, 1)]
    paired = 1 + sum((keys[0] & keys[1]).values()) + sum(again)
    lone = [sum(key is None for key, *_ in side) for side in (before, after)]
    assert missing.baseline_unmatched == sum((keys[0] - keys[1]).values()) + lone[0] - again[1]
    assert missing.candidate_unmatched == sum((keys[1] - keys[0]).values()) + lone[1] - again[0]
    assert counts.n + missing.baseline_failed + missing.candidate_failed + missing.both_failed == paired
    assert counts.n + missing.total == paired + missing.baseline_unmatched + missing.candidate_unmatched
    known = [sum(state == "a" for _, state, _ in side) for side in (before, after)]
    found_abstained = (
        counts.both + counts.baseline_only + missing.baseline_known_abstained,
        counts.both + counts.candidate_only + missing.candidate_known_abstained,
    )
    for abstained, once, more in zip(found_abstained, known, again, strict=True):
        assert once <= abstained <= once + more
    if found.clusters:
        assert sum(c.pairs * c.count for c in found.clusters) == counts.n
        assert sum(c.net * c.count for c in found.clusters) == counts.candidate_only - counts.baseline_only
        assert sum((c.before or 0) * c.count for c in found.clusters) == counts.both + counts.baseline_only
    assert found.repeats == sum(n - 1 for n in (keys[0] & keys[1]).values()) + sum(again)


def test_unique_keys_are_counted_by_hand(engine: Engine) -> None:
    """With one row a key the table of pairs is that of a join by hand."""
    states = ["aa", "an", "na", "nn", "af", "fn", "ff", "na"]
    base = [{"id": str(i), **STATES[s[0]], "category": "xy"[i % 2]} for i, s in enumerate(states)]
    cand = [{"id": str(i), **STATES[s[1]]} for i, s in enumerate(states)]
    runs = (loaded(engine, "baseline", base), loaded(engine, "candidate", cand))
    found = pair_runs(engine, runs, counted=COUNTED, slices=["category", "model"])
    assert found.counts == PairCounts(1, 1, 2, 1)
    by_hand: dict[str, Counter[str]] = defaultdict(Counter)
    for i, state in enumerate(states):
        if "f" not in state:
            by_hand["xy"[i % 2]][state] += 1
    assert {s.value: s.counts for s in found.slices} == {
        value: PairCounts(*(cells[s] for s in ("aa", "an", "na", "nn"))) for value, cells in by_hand.items()
    }
    assert [(p.key, p.baseline, p.candidate) for p in found.flips] == [("2", 2, 2), ("7", 7, 7), ("1", 1, 1)]


def test_what_a_run_held(engine: Engine) -> None:
    """Outcomes, reasons, models and groups are counted, most frequent first."""
    rows = [{"id": str(i), **STATES["aannf"[i]], "model": "mno"[i // 2]} for i in range(5)]
    run = loaded(engine, "baseline", [*rows, {"id": "z", "response": YES}])
    summary = run_summary(engine, run)
    assert (summary.outcomes, summary.rows) == ((("complied", 3), ("refused", 2), ("failed", 1)), 6)
    assert (summary.models, summary.reasons) == (("m", "n", "o"), (("safety", 2),))
    assert abstained_of(run, COUNTED) == (2, 5)
    groups = group_tallies(engine, [run, run], "model")
    assert [g.value for g in groups] == ["m", "n", "o"]
    assert [dict(g.outcomes) for g in groups] == [{"refused": 4}, {"complied": 4}, {"failed": 2}]
    assert run.filled == ("model",)
    assert places_of(engine, run, (Outcome.REFUSED, Outcome.FILTERED), most=9) == (0, 1)
    assert len(places_of(engine, run, (Outcome.REFUSED,), most=1)) == 1
