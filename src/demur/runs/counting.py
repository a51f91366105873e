"""What runs count up to: one set of queries and one arithmetic for every engine.

Rows pair by key and by their rank among rows of that key, by their place in a file only where that is asked for; rows without a key pair
with nothing; a row that failed, is empty or was not read is neither an abstention nor a response. What comes back are counts and a
bounded number of row ids, never texts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demur.errors import EmptyInputError, ShapeError, UsageError
from demur.model.comparison import ClusterSum, Missing, OutcomePairs, PairCounts, Pairing, SliceTally
from demur.model.estimate import Direction
from demur.model.run import GroupTally, RunSummary
from demur.model.verdict import NOT_JUDGED, Outcome
from demur.runs.judged import CountingEngine, JudgedRun, OutcomeCount
from demur.runs.sessions import CLUSTER_SUMS, COMPLETE, cluster_column, cluster_sums, group_pairs, group_session_sums

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from demur.model.sessions import SessionSums

__all__ = [
    "CountingEngine",
    "FlipPlace",
    "JudgedRun",
    "OutcomeCount",
    "PairTally",
    "abstained_of",
    "group_tallies",
    "pair_runs",
    "places_of",
    "run_summary",
]

_MAX_SLICE_VALUES = 50
_MAX_MODELS = 5
# The letters of states: what a row's outcome means for a pair. What is not judged is neither an abstention nor a response.
_STATES = {Outcome.FAILED: "f", Outcome.EMPTY: "e", Outcome.UNREAD: "u"}
_JUDGED, _UNJUDGED = "an", "".join(_STATES.values())
_ROW = _JUDGED + _UNJUDGED
_UNJUDGED_SQL = ", ".join(f"'{outcome}'" for outcome in NOT_JUDGED)
# Where more pairs than this have different prompts under one id, the runs are not about the same questions.
_CHANGED_SHARE = 0.5
_CELLS = (("a", "a"), ("a", "n"), ("n", "a"), ("n", "n"))
_POSITION = "row_number() OVER (ORDER BY rowid)"


@dataclass(frozen=True, slots=True)
class FlipPlace:
    """A flipped pair: its key, and the row of each run."""

    key: str
    direction: Direction
    baseline: Hashable
    candidate: Hashable


@dataclass(frozen=True, slots=True)
class _SharedKeys:
    """What two runs share: rows of the baseline whose key the candidate has, whether each run has every key once, and whether one has some more often."""

    rows: int
    unique: tuple[bool, bool]
    uneven: bool


@dataclass(frozen=True, slots=True)
class PairTally:
    """The counts of paired runs, before any text is looked at."""

    pairing: Pairing
    counts: PairCounts
    missing: Missing
    clusters: tuple[ClusterSum, ...]
    cluster_field: str | None
    repeats: int
    prompts_changed: int
    slices: tuple[SliceTally, ...]
    values_left_out: tuple[tuple[str, int], ...]
    flips: tuple[FlipPlace, ...]


def run_summary(engine: CountingEngine, run: JudgedRun) -> RunSummary:
    """Return what a run held."""
    models: tuple[str, ...] = ()
    if "model" in run.filled:
        column = engine.dialect.field("model")
        query = (
            f"SELECT {column} AS model, count(*) AS n FROM {run.table} WHERE {column} IS NOT NULL "
            f"GROUP BY {column} ORDER BY n DESC, model LIMIT {_MAX_MODELS}"
        )
        models = tuple(model for model, _ in engine.ask(query))
    outcomes, reasons, causes = (
        _by_frequency((getattr(each, word), each.rows) for each in run.counted)
        for word in ("outcome", "reason", "cause")
    )
    return RunSummary(run.name, run.format, run.rows, outcomes, reasons, causes, models, run.skipped, run.unreadable)


def _by_frequency(counts: Iterable[tuple[str | None, int]]) -> tuple[tuple[str, int], ...]:
    found: Counter[str] = Counter()
    for word, count in counts:
        if word is not None:
            found[word] += count
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def abstained_of(run: JudgedRun, counted: Sequence[str]) -> tuple[int, int]:
    """Return how many rows of a run abstained, and how many were judged at all."""
    abstained = sum(each.rows for each in run.counted if each.outcome in counted)
    return abstained, sum(
        each.rows for each in run.counted if each.outcome in counted or each.outcome not in NOT_JUDGED
    )


def group_tallies(
    engine: CountingEngine,
    runs: Sequence[JudgedRun],
    field: str,
    *,
    clustered_by: str | None = None,
    counted: Sequence[str] = (),
) -> tuple[GroupTally, ...]:
    """Return the outcomes of each value of a field over several runs; rows without the field are left out.

    `clustered_by` is what the rows come in, by `row_groups`; `counted` are then the outcomes that are abstentions.
    """
    column = engine.dialect.field(field)
    parts = [
        f"SELECT {column} AS v, outcome FROM {run.table} WHERE {column} IS NOT NULL"
        for run in runs
        if field in run.filled
    ]
    if not parts:
        return ()
    query = f"SELECT v, outcome, count(*) FROM ({' UNION ALL '.join(parts)}) AS rows GROUP BY v, outcome ORDER BY v"
    groups: dict[str, list[tuple[str, int]]] = {}
    for value, outcome, count in engine.ask(query):
        groups.setdefault(value, []).append((outcome, count))
    sums: Mapping[str, tuple[SessionSums, SessionSums]] = {}
    if clustered_by is not None:
        sums = group_session_sums(engine, runs, clustered_by, field=field, counted=counted)
    return tuple(
        GroupTally(field, value, _by_frequency(outcomes), *sums.get(value, ())) for value, outcomes in groups.items()
    )


def places_of(engine: CountingEngine, run: JudgedRun, outcomes: Sequence[Outcome], *, most: int) -> tuple[Any, ...]:
    """Return the ids of some rows with these outcomes, spread over the run, the same each time, in their order."""
    words = ", ".join(f"'{outcome}'" for outcome in outcomes)
    query = (
        f"SELECT rowid FROM {run.table} WHERE outcome IN ({words}) ORDER BY {engine.dialect.spread}, rowid LIMIT {most}"
    )
    return tuple(sorted(place for (place,) in engine.ask(query)))


def pair_runs(
    engine: CountingEngine,
    runs: tuple[JudgedRun, JudgedRun],
    *,
    counted: Sequence[str],
    key: str | None = None,
    cluster: str | None = None,
    slices: Sequence[str] = (),
    show: int = 20,
) -> PairTally:
    """Return the tally of two judged runs.

    `counted` are the outcomes that are abstentions, `key` how rows pair,
    `slices` the fields to cut by, `show` how many flips of each direction to return.
    """
    pairing, column, shared = _pairing(engine, runs, key)
    unique = shared.unique
    filled = {*runs[0].filled, *runs[1].filled}
    _define_pairs(
        engine, runs, column, [name for name in runs[0].fields if name in filled], shared=shared, counted=counted
    )
    changed = 0
    if pairing is not Pairing.PROMPT:
        changed = _changed_prompts(engine, runs, unique=all(unique), asked=key is not None)
    repeated = "sum(CAST(k > 1 AND bs <> '-' AND cs <> '-' AS INT))"
    rows = engine.ask(
        f"SELECT bs, cs, count(*), {repeated}, count(session) FROM {engine.table('pairs')} GROUP BY bs, cs"
    )
    cells = _Cells(
        {(b, c): n for b, c, n, _, _ in rows},
        int(sum(repeats for *_, repeats, _ in rows)),
        sum(sessions for b, c, _, _, sessions in rows if b in "an" and c in "an"),
    )
    grouped_by = group_pairs(
        engine, repeats=cells.repeats, sessions=cells.sessions, asked=cluster, by_prompt=pairing is Pairing.PROMPT
    )
    clusters = cluster_sums(engine, grouped_by)
    sliced = {field: _slices(engine, field, grouped_by) for field in slices if field in filled}
    return PairTally(
        pairing,
        cells.counts(),
        cells.missing(),
        clusters,
        grouped_by if clusters else None,
        cells.repeats,
        changed,
        tuple(each for found, _ in sliced.values() for each in found),
        tuple((field, more) for field, (_, more) in sliced.items() if more > 0),
        _flips(engine, show),
    )


def _define_pairs(
    engine: CountingEngine,
    runs: tuple[JudgedRun, JudgedRun],
    column: str,
    fields: Sequence[str],
    *,
    shared: _SharedKeys,
    counted: Sequence[str],
) -> None:
    """Make the table of pairs: the rows of both runs by key and rank."""
    for side, run, ranked in zip(("side_b", "side_c"), runs, shared.unique, strict=True):
        engine.define(side, _side_query(engine, run, column, fields, counted=counted, unique=ranked))
    names = [engine.dialect.field(name) for name in fields]
    if shared.uneven:
        _use_again(engine, "side_b", "side_c", names)
        _use_again(engine, "side_c", "side_b", names)
    kept = "".join(f", coalesce(b.{name}, c.{name}) AS {name}" for name in names)
    pairs_query = (
        "SELECT key, k, b.place AS base, c.place AS cand, coalesce(b.state, '-') AS bs, coalesce(c.state, '-') AS cs, "
        "b.score AS b_score, c.score AS c_score, b.prompt AS b_prompt, c.prompt AS c_prompt, "
        f"coalesce(b.session, c.session) AS session, b.session AS b_session, c.session AS c_session{kept} "
        f"FROM {engine.table('side_b')} AS b FULL JOIN {engine.table('side_c')} AS c USING (key, k)"
    )
    engine.define("pairs", pairs_query, keep=True)


def _pairing(
    engine: CountingEngine, runs: tuple[JudgedRun, JudgedRun], key: str | None
) -> tuple[Pairing, str, _SharedKeys]:
    """Return how rows pair, by which column, and what the runs share of it.

    By the key that was asked for, else by the id where it pairs many rows, else by the prompt.
    """
    if key == "position":
        # As Shadow pairs: the first row with the first, whatever they ask. Files of other lengths are not in the same order.
        if runs[0].rows != runs[1].rows:
            lengths = f"`{runs[0].name}` has {runs[0].rows:,} rows, `{runs[1].name}` has {runs[1].rows:,}"
            raise UsageError(
                f"runs of different lengths cannot pair by position: {lengths}", hint="pair by id or prompt"
            )
        return Pairing.POSITION, _POSITION, _SharedKeys(runs[0].rows, (True, True), uneven=False)
    tried = [(Pairing.ID, "id"), (Pairing.PROMPT, "prompt")]
    if key is not None:
        named = {"id": tried[0], "prompt": tried[1]}
        tried = [named.get(key, (Pairing.FIELD, engine.dialect.field(key)))]
    found: list[_SharedKeys] = []
    for _, column in tried:
        found.append(_shared_keys(engine, runs, column))
        if found[-1].rows * 2 >= runs[0].rows:
            # No other column can pair twice as many, so it need not be counted.
            break
    best = max(shared.rows for shared in found)
    for (pairing, column), shared in zip(tried, found, strict=False):
        # A few ids that happen to be alike must not outweigh prompts that pair nearly everything.
        if shared.rows and shared.rows * 2 >= best:
            return pairing, column, shared
    first, second = (
        f"{run.rows:,} rows, {engine.ask(f'SELECT count(id) FROM {run.table}')[0][0]:,} with an id" for run in runs
    )
    asked = f"no {key} is" if key else "no id and no prompt is"
    raise EmptyInputError(
        f"{asked} in both runs (`{runs[0].name}`: {first}; `{runs[1].name}`: {second})",
        hint="name the common field with --key, join the prompts of a batch with --requests, or pass --unpaired",
    )


def _shared_keys(engine: CountingEngine, runs: tuple[JudgedRun, JudgedRun], column: str) -> _SharedKeys:
    """Return what the runs share of a column."""
    # By hashes, so that a cluster moves eight bytes a row. Hashes that all differ are of keys that all differ; two keys of one hash
    # (in 10⁹ rows, once in forty runs) only cost a rank.
    sides = " UNION ALL ".join(
        f"SELECT {engine.dialect.hash}({column}) AS h, {int(i == 0)} AS b, {i} AS c FROM {run.table} WHERE {column} IS NOT NULL"
        for i, run in enumerate(runs)
    )
    keys = f"SELECT h, sum(b) AS b, sum(c) AS c FROM ({sides}) AS sides GROUP BY h"
    rows, before, after, uneven = engine.ask(
        "SELECT sum(CASE WHEN c > 0 THEN b ELSE 0 END), max(b), max(c), "
        f"max(CASE WHEN b > 0 AND c > 0 AND b <> c THEN 1 ELSE 0 END) FROM ({keys}) AS known"
    )[0]
    return _SharedKeys(int(rows or 0), ((before or 0) <= 1, (after or 0) <= 1), uneven=bool(uneven))


def _side_query(
    engine: CountingEngine, run: JudgedRun, column: str, fields: Sequence[str], *, counted: Sequence[str], unique: bool
) -> str:
    """Return the query for a run's rows by key, with their rank among rows of the same key."""
    # A window over a million rows is dear, and keys are unique in most runs.
    rank = "1"
    if not unique:
        # Repeats have no number of their own. By their places the counts would depend on the order of a file; by their outcomes
        # refusals would meet refusals, and the last of an uneven number would always be of one kind. So a hash orders them.
        # A score's last bits depend on which texts were judged together; six decimals do not.
        score = "CAST(CAST(floor(score * 1e6 + 0.5) AS BIGINT) AS STRING)"
        filled = map(engine.dialect.field, run.filled)
        parts = ", ".join([f"CAST({column} AS STRING)", "outcome", score, "reason", "cause", "session", *filled])
        # Rows without a verdict come last: a response that a retry got must meet the other run's response.
        order = f"outcome IN ({_UNJUDGED_SQL}), md5(concat_ws('|', {parts})), rowid"
        rank = f"row_number() OVER (PARTITION BY {column} ORDER BY {order})"
    words = ", ".join(f"'{word}'" for word in counted)
    unjudged = " ".join(f"WHEN outcome = '{outcome}' THEN '{letter}'" for outcome, letter in _STATES.items())
    # What is counted comes first: whoever counts empty responses as abstentions means it.
    state = f"CASE WHEN outcome IN ({words}) THEN 'a' {unjudged} ELSE 'n' END"
    kept = "".join(f", {engine.dialect.field(name)}" for name in fields)
    return (
        f"SELECT CAST({column} AS STRING) AS key, {rank} AS k, rowid AS place, {state} AS state, score, session, prompt{kept} "
        f"FROM {run.table}"
    )


def _use_again(engine: CountingEngine, side: str, other: str, fields: Sequence[str]) -> None:
    """Give a key with fewer rows here than there its judged rows once more, in turn, until every judged row there has a counterpart.

    One response against five repeats is then five pairs of one cluster, whose net is five times the difference of the means; without it
    four of the five would be left out. Where both runs have a key equally often nothing is added.
    """
    mine, judged = engine.table(side), "sum(CASE WHEN state IN ('a', 'n') THEN 1 ELSE 0 END)"
    sizes = (
        f"SELECT key, count(*) AS n, CAST({judged} AS BIGINT) AS judged FROM {mine} WHERE key IS NOT NULL GROUP BY key"
    )
    # Judged rows come first in rank, so the ranks up to their number are theirs.
    lacking = (
        f"SELECT o.key, o.k, (o.k - 1) % s.judged + 1 AS again FROM {engine.table(other)} AS o JOIN ({sizes}) AS s ON o.key = s.key "
        "WHERE s.judged > 0 AND o.k > s.n AND o.state IN ('a', 'n')"
    )
    kept = "".join(f", m.{name}" for name in ("place", "state", "score", "session", "prompt", *fields))
    again = f"SELECT m.key, l.k{kept} FROM {mine} AS m JOIN ({lacking}) AS l ON m.key = l.key AND m.k = l.again"
    engine.define(side, f"SELECT * FROM {mine} UNION ALL {again}")


def _changed_prompts(engine: CountingEngine, runs: tuple[JudgedRun, JudgedRun], *, unique: bool, asked: bool) -> int:
    """Return how many ids have different prompts in the two runs; an error where most do and the user did not ask for ids."""
    each = "key, b_prompt, c_prompt, base"
    group = ""
    if not unique:
        each, group = "key, min(b_prompt) AS b_prompt, min(c_prompt) AS c_prompt, min(base) AS base", " GROUP BY key"
    ids = f"(SELECT {each} FROM {engine.table('pairs')} WHERE key IS NOT NULL{group}) AS ids"
    both = "b_prompt IS NOT NULL AND c_prompt IS NOT NULL"
    known, changed = engine.ask(f"SELECT count(*), sum(CAST(b_prompt <> c_prompt AS INT)) FROM {ids} WHERE {both}")[0]
    changed = int(changed or 0)
    if changed > known * _CHANGED_SHARE and not asked:
        query = f"SELECT key, base FROM {ids} WHERE {both} AND b_prompt <> c_prompt ORDER BY base LIMIT 1"
        key, base = engine.ask(query)[0]
        source, line, number = engine.place_of(runs[0], base)
        row = f" of row {number:,}" if line is None else ""
        raise ShapeError(
            f"id `{key}`{row} asks another prompt in `{runs[1].name}`, and so do {changed:,} of {known:,} ids",
            hint="compare runs of the same questions; --key id pairs them all the same, --key prompt by what they ask",
        ).at(source, line)
    return changed


@dataclass(frozen=True, slots=True)
class _Cells:
    """How many pairs are in each cell: the states of both sides (`a`bstained, a`n`swered, `f`ailed, `e`mpty, `u`nread, `-` absent)."""

    pairs: Mapping[tuple[str, str], int]
    repeats: int
    sessions: int

    def total(self, baseline: str, candidate: str) -> int:
        """Return how many pairs have one of these states on either side."""
        return sum(n for (b, c), n in self.pairs.items() if b in baseline and c in candidate)

    def counts(self) -> PairCounts:
        """Return the pairs that were answered in both runs."""
        return PairCounts(*(self.total(b, c) for b, c in _CELLS))

    def missing(self) -> Missing:
        """Return the pairs that were not, and what is known of them."""
        unknown, matched = _UNJUDGED + "-", self.total(_ROW, _ROW)
        alone = self.total(_ROW, "-"), self.total("-", _ROW)
        return Missing(
            baseline_unmatched=alone[0],
            candidate_unmatched=alone[1],
            baseline_failed=self.total("f", "aneu"),
            candidate_failed=self.total("aneu", "f"),
            both_failed=self.total("f", "f"),
            baseline_known_abstained=self.total("a", unknown),
            baseline_known_answered=self.total("n", unknown),
            candidate_known_abstained=self.total(unknown, "a"),
            candidate_known_answered=self.total(unknown, "n"),
            nothing_known=self.total(unknown, unknown),
            both_unjudged=self.total(_UNJUDGED, _UNJUDGED),
            matched=matched,
            smaller=matched + min(alone),
            unmatched_baseline=(self.total("a", "-"), self.total(_JUDGED, "-")),
            unmatched_candidate=(self.total("-", "a"), self.total("-", _JUDGED)),
            gaps=tuple(self._gap(outcome, letter) for outcome, letter in _STATES.items() if self._has(letter)),
        )

    def _has(self, letter: str) -> bool:
        return bool(self.total(letter, _ROW) or self.total(_ROW, letter))

    def _gap(self, outcome: Outcome, letter: str) -> OutcomePairs:
        other = _ROW.replace(letter, "")
        cells = ((letter, letter), (letter, other), (other, letter), (other, other))
        return OutcomePairs(outcome, PairCounts(*(self.total(b, c) for b, c in cells)))


def _slices(engine: CountingEngine, field: str, cluster: str | None) -> tuple[list[SliceTally], int]:
    """Return the largest slices of a field that has more than one value, and how many further ones there are."""
    column, pairs = engine.dialect.field(field), engine.table("pairs")
    cells = ", ".join(f"count(*) FILTER (WHERE bs = '{b}' AND cs = '{c}')" for b, c in _CELLS)
    having = f"FROM {pairs} WHERE {COMPLETE} AND {column} IS NOT NULL"
    largest = f"{having} GROUP BY {column} ORDER BY count(*) DESC, v LIMIT"
    found = engine.ask(f"SELECT {column} AS v, {cells} {largest} {_MAX_SLICE_VALUES + 1}")
    if len(found) < 2:  # noqa: PLR2004 — one value is no slice
        return [], 0
    more = 0
    if len(found) > _MAX_SLICE_VALUES:
        more = engine.ask(f"SELECT count(DISTINCT {column}) {having}")[0][0] - _MAX_SLICE_VALUES
    clusters: dict[str, list[ClusterSum]] = {}
    if cluster is not None:
        kept = f"(SELECT {column} AS v {largest} {_MAX_SLICE_VALUES}) AS kept"
        each = (
            f"SELECT {column} AS v, {CLUSTER_SUMS} {having} "
            f"GROUP BY {column}, {cluster_column(cluster, engine.dialect)}"
        )
        kinds = "net, n, before"
        query = f"SELECT v, {kinds}, count(*) FROM ({each}) AS clusters JOIN {kept} USING (v) GROUP BY v, {kinds} ORDER BY {kinds}"
        for value, net, n, before, count in engine.ask(query):
            clusters.setdefault(value, []).append(ClusterSum(int(net), n, count, int(before)))
    return [
        SliceTally(field, value, PairCounts(*counts), tuple(clusters.get(value, ())))
        for value, *counts in found[:_MAX_SLICE_VALUES]
    ], more


def _flips(engine: CountingEngine, show: int) -> tuple[FlipPlace, ...]:
    """Return the flips with the largest change of score, as many of each direction; increases first."""
    places: list[FlipPlace] = []
    for direction, before, after in ((Direction.INCREASE, "n", "a"), (Direction.DECREASE, "a", "n")):
        # Rounded, since a score's last bits depend on which texts were judged together.
        query = (
            f"SELECT key, base, cand FROM {engine.table('pairs')} WHERE bs = '{before}' AND cs = '{after}' "
            f"ORDER BY floor(abs(c_score - b_score) * 1e6 + 0.5) DESC, key, k LIMIT {show}"
        )
        places += [FlipPlace(key, direction, base, cand) for key, base, cand in engine.ask(query)]
    return tuple(places)
