"""What do two loaded runs count up to? Pairs, cells, clusters, slices and the worst flips, by SQL alone.

Laws: rows pair by key and by their rank among rows of that key, never by their place in a file; rows without a key pair with
nothing; a failed row is neither abstention nor answer; what comes back is counts and a bounded number of places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demur.errors import EmptyInputError, ShapeError, UsageError
from demur.model.comparison import ClusterSum, Missing, PairCounts, Pairing, SliceTally
from demur.model.estimate import Direction
from demur.model.run import GroupTally, RunSummary
from demur.runs.sql import DUCKDB, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.runs.engine import Engine, LoadedRun

__all__ = [
    "FlipPlace",
    "PairTally",
    "abstained_of",
    "cluster_column",
    "group_tallies",
    "has_field",
    "pair_runs",
    "refusal_places",
    "run_summary",
]

LINKED = "session and question"
_MAX_SLICE_VALUES = 50
_MAX_MODELS = 5
_CHANGED_SHARE = 0.5
"""Where more pairs than this ask different prompts under one id, the runs are not about the same questions."""


@dataclass(frozen=True, slots=True)
class FlipPlace:
    """Where the two sides of a flipped pair stand: the row of each run."""

    key: str
    direction: Direction
    baseline: int
    candidate: int


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


def pair_runs(
    engine: Engine,
    runs: tuple[LoadedRun, LoadedRun],
    *,
    counted: Sequence[str],
    key: str | None = None,
    cluster: str | None = None,
    slices: Sequence[str] = (),
    show: int = 20,
) -> PairTally:
    """Return the tally of two loaded runs.

    `counted` are the outcomes that are abstentions, `key` how rows pair,
    `slices` the fields to cut by, `show` how many flips of each direction to place.
    """
    pairing, column = _pairing(engine, runs, key)
    changed = _prompts_changed(engine, runs, column, asked=key is not None) if pairing is Pairing.ID else 0
    _make_sides(engine, runs, column, counted=counted)
    _make_pairs(engine, runs[0].fields)
    repeats = _one(engine, "SELECT count(*) FROM pairs WHERE k > 1 AND base IS NOT NULL AND cand IS NOT NULL")
    cluster_field = _cluster_field(engine, cluster, repeats=repeats)
    cells = _pair_cells(engine)
    clusters = _clusters(engine, cluster_field)
    sliced = {field: _slices(engine, field, cluster_field) for field in slices}
    left_out = tuple((field, len(found) - _MAX_SLICE_VALUES) for field, found in sliced.items())
    return PairTally(
        pairing,
        _counts(cells),
        _missing_sides(cells),
        clusters,
        cluster_field if clusters else None,
        repeats,
        changed,
        tuple(each for found in sliced.values() for each in found[:_MAX_SLICE_VALUES]),
        tuple((field, more) for field, more in left_out if more > 0),
        _flips(engine, show),
    )


def abstained_of(engine: Engine, run: LoadedRun, counted: Sequence[str]) -> tuple[int, int]:
    """Return how many rows of a run abstained, and how many were judged at all."""
    words = _word_list(counted)
    query = f"SELECT count(*) FILTER (outcome IN {words}), count(*) FILTER (outcome <> 'failed') FROM {run.table}"
    abstained, judged = engine.ask(query)[0]
    return abstained, judged


def run_summary(engine: Engine, run: LoadedRun) -> RunSummary:
    """Return what a run held."""
    models: tuple[str, ...] = ()
    if "model" in run.fields:
        query = f'SELECT "field:model" FROM {run.table} GROUP BY 1 ORDER BY count(*) DESC, 1'
        models = tuple(m for (m,) in engine.ask(query) if m)[:_MAX_MODELS]
    outcomes, reasons, causes = (_tally(engine, run, column) for column in ("outcome", "reason", "cause"))
    return RunSummary(run.name, run.format, run.rows, outcomes, reasons, causes, models, run.skipped, run.unreadable)


def group_tallies(engine: Engine, tables: Sequence[str], field: str) -> tuple[GroupTally, ...]:
    """Return the outcomes of each value of a field over several runs; rows without the field are left out."""
    column = DUCKDB.name(f"field:{field}")
    union = " UNION ALL ".join(f"SELECT {column} AS v, outcome FROM {table}" for table in tables)
    query = f"SELECT v, outcome, count(*) FROM ({union}) WHERE v IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2"
    groups: dict[str, list[tuple[str, int]]] = {}
    for value, outcome, count in engine.ask(query):
        groups.setdefault(value, []).append((outcome, count))
    return tuple(GroupTally(field, value, tuple(outcomes)) for value, outcomes in groups.items())


def has_field(engine: Engine, run: LoadedRun, field: str) -> bool:
    """Return whether a row of a run has a field that was kept."""
    return bool(_one(engine, f"SELECT count({DUCKDB.name(f'field:{field}')}) FROM {run.table}"))


def refusal_places(engine: Engine, run: LoadedRun, *, most: int) -> tuple[int, ...]:
    """Return the rows of some refusals that have a text or a signal to show, spread over the run, the same each time."""
    query = f"SELECT rowid FROM {run.table} WHERE outcome IN ('refused', 'filtered') ORDER BY hash(rowid), rowid LIMIT {most}"
    return tuple(sorted(place for (place,) in engine.ask(query)))


def _pairing(engine: Engine, runs: tuple[LoadedRun, LoadedRun], key: str | None) -> tuple[Pairing, str]:
    """Return how rows pair and by which column: the key that was asked for, or the id where it pairs many rows, else the prompt."""
    named = {"id": (Pairing.ID, "id"), "prompt": (Pairing.PROMPT, "prompt")}
    if key is not None and key not in named:
        column = f"field:{key}"
        named[key] = (Pairing.FIELD, column)
    tried = [named[key]] if key is not None else [named["id"], named["prompt"]]
    shared = {column: _shared(engine, runs, column) for _, column in tried}
    # A few ids that happen to be alike must not outweigh prompts that pair nearly everything.
    best = max(shared.values())
    for pairing, column in tried:
        if shared[column] and shared[column] * 2 >= best:
            return pairing, column
    first, second = (
        f"{run.rows:,} rows, {_one(engine, f'SELECT count(id) FROM {run.table}'):,} with an id" for run in runs
    )
    asked = f"no {key} is" if key else "no id and no prompt is"
    raise EmptyInputError(
        f"{asked} in both runs (`{runs[0].name}`: {first}; `{runs[1].name}`: {second})",
        hint="name the common field with --key, join the prompts of a batch with --requests, or pass --unpaired",
    )


def _shared(engine: Engine, runs: tuple[LoadedRun, LoadedRun], column: str) -> int:
    name = DUCKDB.name(column)
    return int(
        _one(
            engine,
            f"SELECT count(*) FROM {runs[0].table} WHERE {name} IN (SELECT {name} FROM {runs[1].table})",
        )
    )


def _prompts_changed(engine: Engine, runs: tuple[LoadedRun, LoadedRun], column: str, *, asked: bool) -> int:
    """Return how many ids stand for different prompts; an error where most do and the user did not ask for ids."""
    first, second = (run.table for run in runs)
    name = DUCKDB.name(column)
    sides = (
        f"(SELECT {name} AS key, min(prompt) AS prompt, min(rowid) AS place FROM {t} GROUP BY 1)"
        for t in (first, second)
    )
    joined = "FROM {} b JOIN {} c USING (key) WHERE b.prompt IS NOT NULL AND c.prompt IS NOT NULL".format(*sides)
    query = (
        f"SELECT count(*), count(*) FILTER (b.prompt <> c.prompt), min(b.place) FILTER (b.prompt <> c.prompt) {joined}"
    )
    known, changed, place = engine.ask(query)[0]
    if changed > known * _CHANGED_SHARE and not asked:
        example = engine.ask(f"SELECT {name}, source, line FROM {first} WHERE rowid = {place}")
        key, source, line = example[0]
        row = f" of row {place - runs[0].starts[source] + 1:,}" if line is None else ""
        raise ShapeError(
            f"id `{key}`{row} asks another prompt in `{runs[1].name}`, and so do {changed:,} of {known:,} ids",
            source=runs[0].sources[source].name,
            hint="compare runs of the same questions; --key id pairs them all the same, --key prompt by what they ask",
        ).at(runs[0].sources[source].name, line)
    return int(changed)


def _make_sides(engine: Engine, runs: tuple[LoadedRun, LoadedRun], column: str, *, counted: Sequence[str]) -> None:
    """Make a table of each run's rows by key, with their rank among rows of the same key."""
    name = DUCKDB.name(column)
    for side, run in zip(("side_b", "side_c"), runs, strict=True):
        distinct, rows = engine.ask(f"SELECT count(DISTINCT {name}), count({name}) FROM {run.table}")[0]
        # A window over a million rows is dear, and keys are unique in most runs.
        rank = (
            "1"
            if distinct == rows
            else f"row_number() OVER (PARTITION BY {name} ORDER BY {_shuffle(name, run.fields)}, rowid)"
        )
        state = f"CASE WHEN outcome = 'failed' THEN 'f' WHEN outcome IN {_word_list(counted)} THEN 'a' ELSE 'n' END"
        fields = "".join(f", {DUCKDB.name(f'field:{field}')}" for field in run.fields)
        engine.ask(
            f"CREATE OR REPLACE TEMP TABLE {side} AS SELECT {name}::VARCHAR AS key, {rank} AS k, rowid AS place, "
            f"{state} AS state, score, session{fields} FROM {run.table}"
        )


def _shuffle(key: str, fields: Sequence[str]) -> str:
    """Return an order for rows of one key that neither their places nor their outcomes decide.

    Repeats have no number of their own. By their places the counts would depend on the order of a file; by their outcomes
    refusals would meet refusals, and the last of an uneven number would always be of one kind.
    """
    # A score's last bits depend on which texts were judged together; six decimals do not.
    score = "CAST(floor(score * 1e6 + 0.5) AS BIGINT)"
    told = ", ".join(
        ["outcome", score, "reason", "cause", "session", *(DUCKDB.name(f"field:{name}") for name in fields)]
    )
    # Failed rows come last: an answer that a retry got must meet the other run's answer.
    return f"outcome = 'failed', md5(concat_ws('|', {key}, {told}))"


def _make_pairs(engine: Engine, fields: Sequence[str]) -> None:
    names = [DUCKDB.name(f"field:{field}") for field in fields]
    kept = "".join(f", coalesce(b.{name}, c.{name}) AS {name}" for name in names)
    engine.ask(
        "CREATE OR REPLACE TEMP TABLE pairs AS SELECT key, k, b.place AS base, c.place AS cand, "
        "coalesce(b.state, '-') AS bs, coalesce(c.state, '-') AS cs, b.score AS b_score, c.score AS c_score, "
        f"coalesce(b.session, c.session) AS session{kept} FROM side_b b FULL JOIN side_c c USING (key, k)"
    )


def _pair_cells(engine: Engine) -> dict[tuple[str, str], int]:
    rows = engine.ask("SELECT bs, cs, count(*) FROM pairs GROUP BY 1, 2")
    return {(b, c): n for b, c, n in rows}


def _counts(cells: dict[tuple[str, str], int]) -> PairCounts:
    return PairCounts(*(cells.get(cell, 0) for cell in (("a", "a"), ("a", "n"), ("n", "a"), ("n", "n"))))


def _missing_sides(cells: dict[tuple[str, str], int]) -> Missing:
    def total(baseline: str, candidate: str) -> int:
        return sum(n for (b, c), n in cells.items() if b in baseline and c in candidate)

    return Missing(
        baseline_unmatched=total("anf", "-"),
        candidate_unmatched=total("-", "anf"),
        baseline_failed=total("f", "an"),
        candidate_failed=total("an", "f"),
        both_failed=total("f", "f"),
        baseline_known_abstained=total("a", "f-"),
        baseline_known_answered=total("n", "f-"),
        candidate_known_abstained=total("f-", "a"),
        candidate_known_answered=total("f-", "n"),
        nothing_known=total("f-", "f-"),
    )


def _cluster_field(engine: Engine, asked: str | None, *, repeats: int) -> str | None:
    """Return what groups correlated pairs: what was asked for, else sessions of several pairs, else repeated keys."""
    if asked == "none":
        return None
    if asked is not None and asked != "session":
        return asked
    sessions, rows = engine.ask(
        "SELECT count(DISTINCT session), count(session) FROM pairs WHERE bs IN ('a', 'n') AND cs IN ('a', 'n')"
    )[0]
    if asked == "session" and not rows:
        raise UsageError("no row has a session", hint="cluster by key, none, or a field of the rows")
    if asked is None and repeats and sessions:
        _make_linked_sessions(engine)
        return LINKED
    if asked == "session" or sessions < rows:
        return "session"
    return "key" if repeats else None


def _make_linked_sessions(engine: Engine) -> None:
    """Group sessions that a repeated question links: rows move together by session and by question, so both must count."""
    known = "coalesce('v' || session, 'k' || key)"
    linked = engine.ask(
        f"SELECT list(DISTINCT {known}) FROM pairs WHERE key IS NOT NULL GROUP BY key HAVING count(DISTINCT {known}) > 1"
    )
    roots: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := roots.get(name, name)) != name:
            roots[name] = roots.get(above, above)
            name = above
        return name

    for (names,) in linked:
        first = root(min(names))
        for name in names:
            roots[root(name)] = first
    import pyarrow as pa

    rows = sorted(name for (names,) in linked for name in names)
    table = pa.table({"name": pa.array(rows, pa.string()), "linked": pa.array(map(root, rows), pa.string())})
    engine.ask("CREATE OR REPLACE TEMP TABLE linked_sessions (name VARCHAR, linked VARCHAR)")
    engine.insert("linked_sessions", table.group_by(["name", "linked"]).aggregate([]))
    engine.ask("ALTER TABLE pairs ADD COLUMN linked VARCHAR")
    engine.ask(f"UPDATE pairs SET linked = {known}")
    engine.ask("UPDATE pairs SET linked = l.linked FROM linked_sessions l WHERE pairs.linked = l.name")


def cluster_column(field: str) -> str:
    """Return the expression that tells which cluster a pair is in."""
    if field in ("key", LINKED):
        return "linked" if field == LINKED else "key"
    # A pair without the field stands alone: under its own key, kept apart from the field's own values.
    column = "session" if field == "session" else DUCKDB.name(f"field:{field}")
    return f"CASE WHEN {column} IS NULL THEN 'k' || key ELSE 'v' || {column} END"


_COMPLETE = "bs IN ('a', 'n') AND cs IN ('a', 'n')"
_NET = "sum((cs = 'a')::INTEGER - (bs = 'a')::INTEGER)"


def _clusters(engine: Engine, field: str | None) -> tuple[ClusterSum, ...]:
    if field is None:
        return ()
    inner = f"SELECT {_NET} AS net, count(*) AS pairs FROM pairs WHERE {_COMPLETE} GROUP BY {cluster_column(field)}"
    rows = engine.ask(f"SELECT net, pairs, count(*) FROM ({inner}) GROUP BY 1, 2 ORDER BY 1, 2")
    return tuple(ClusterSum(int(net), pairs, count) for net, pairs, count in rows)


def _slices(engine: Engine, field: str, cluster: str | None) -> list[SliceTally]:
    """Return the slices of a field that has more than one value, largest first."""
    column = DUCKDB.name(f"field:{field}")
    query = f"SELECT {column}, bs, cs, count(*) FROM pairs WHERE {_COMPLETE} AND {column} IS NOT NULL GROUP BY 1, 2, 3"
    cells: dict[str, dict[tuple[str, str], int]] = {}
    for value, b, c, n in engine.ask(query):
        cells.setdefault(value, {})[b, c] = n
    if len(cells) < 2:  # noqa: PLR2004 — one value is no slice
        return []
    kept = sorted(cells, key=lambda v: (-sum(cells[v].values()), v))
    clusters = _slice_clusters(engine, column, cluster) if cluster else {}
    return [SliceTally(field, value, _counts(cells[value]), tuple(clusters.get(value, ()))) for value in kept]


def _slice_clusters(engine: Engine, column: str, cluster: str) -> dict[str, list[ClusterSum]]:
    inner = (
        f"SELECT {column} AS v, {_NET} AS net, count(*) AS pairs FROM pairs "
        f"WHERE {_COMPLETE} AND {column} IS NOT NULL GROUP BY {column}, {cluster_column(cluster)}"
    )
    rows = engine.ask(f"SELECT v, net, pairs, count(*) FROM ({inner}) GROUP BY 1, 2, 3 ORDER BY 2, 3")
    found: dict[str, list[ClusterSum]] = {}
    for value, net, pairs, count in rows:
        found.setdefault(value, []).append(ClusterSum(int(net), pairs, count))
    return found


def _flips(engine: Engine, show: int) -> tuple[FlipPlace, ...]:
    """Return the flips with the largest change of score, as many of each direction; increases first."""
    places: list[FlipPlace] = []
    for direction, before, after in ((Direction.INCREASE, "n", "a"), (Direction.DECREASE, "a", "n")):
        query = (
            f"SELECT key, base, cand FROM pairs WHERE bs = '{before}' AND cs = '{after}' "
            f"ORDER BY round(abs(c_score - b_score), 6) DESC, key, k LIMIT {show}"
        )
        places += [FlipPlace(key, direction, base, cand) for key, base, cand in engine.ask(query)]
    return tuple(places)


def _tally(engine: Engine, run: LoadedRun, column: str) -> tuple[tuple[str, int], ...]:
    query = f"SELECT {column}, count(*) FROM {run.table} WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
    return tuple((value, count) for value, count in engine.ask(query))


def _one(engine: Engine, query: str) -> Any:  # noqa: ANN401 — one number of a query of our own
    return engine.ask(query)[0][0]


def _word_list(words: Sequence[str]) -> str:
    return "(" + ", ".join(map(literal, words)) + ")"
