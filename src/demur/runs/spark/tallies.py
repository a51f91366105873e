"""What do judged runs on a cluster count up to? The tallies of the embedded engine, by Spark's own joins and groups.

Laws: those of `tallies`: rows pair by key and by their rank among rows of that key, never by their place in a file; rows without
a key pair with nothing; a failed row is neither abstention nor answer; what comes back is counts and a bounded number of places.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demur.errors import EmptyInputError, ShapeError, UsageError
from demur.model.comparison import ClusterSum, Missing, PairCounts, Pairing, SliceTally
from demur.model.estimate import Direction
from demur.model.run import GroupTally, RunSummary
from demur.runs.spark.rows import add_shuffle
from demur.runs.spark.session import map_arrow
from demur.runs.sql import SPARK
from demur.runs.tallies import LINKED, PairTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from demur.runs.spark.runs import SparkRun

__all__ = ["PairedRuns", "Place", "abstained_rows", "group_rows", "pair_frames", "refusal_rows", "summary_of"]

_MAX_SLICE_VALUES = 50
_MAX_MODELS = 5
_CHANGED_SHARE = 0.5
_MAX_LINKS = 200_000
_COMPLETE = "bs IN ('a', 'n') AND cs IN ('a', 'n')"
_NET = "sum(CAST(cs = 'a' AS INT) - CAST(bs = 'a' AS INT)) AS net"

Place = tuple[int, int, int, int, int]
"""Where a row stands: source, start of its block, place, line and place within the line."""
_PLACE = "struct(source, start, place, line, `within`)"


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """The counts of paired runs, and where the flips stand: key, direction and the place of either side."""

    tally: PairTally
    flips: tuple[tuple[str, Direction, Place, Place], ...]


def summary_of(run: SparkRun) -> RunSummary:
    """Return what a run held."""
    models: tuple[str, ...] = ()
    if "model" in run.filled():
        counts = run.judged.where("`field:model` IS NOT NULL").groupBy("`field:model`").count()
        ordered = counts.orderBy(counts["count"].desc(), "field:model").limit(_MAX_MODELS)
        models = tuple(row[0] for row in ordered.collect())
    outcomes, reasons, causes = (
        _ordered((getattr(each, word), each.rows) for each in run.counted) for word in ("outcome", "reason", "cause")
    )
    return RunSummary(run.name, run.format, run.rows, outcomes, reasons, causes, models, run.skipped, run.unreadable)


def _ordered(counts: Iterable[tuple[str | None, int]]) -> tuple[tuple[str, int], ...]:
    found: Counter[str] = Counter()
    for word, count in counts:
        if word is not None:
            found[word] += count
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0].encode())))


def abstained_rows(run: SparkRun, counted: Sequence[str]) -> tuple[int, int]:
    """Return how many rows of a run abstained, and how many were judged at all."""
    abstained = sum(each.rows for each in run.counted if each.outcome in counted)
    return abstained, sum(each.rows for each in run.counted if each.outcome != "failed")


def group_rows(runs: Sequence[SparkRun], field: str) -> tuple[GroupTally, ...]:
    """Return the outcomes of each value of a field over several runs; rows without the field are left out."""
    column = SPARK.name(f"field:{field}")
    frames = [
        run.judged.where(f"{column} IS NOT NULL")
        .selectExpr(f"{column} AS v", "outcome")
        .groupBy("v", "outcome")
        .count()
        for run in runs
        if field in run.filled()
    ]
    groups: dict[str, Counter[str]] = {}
    for frame in frames:
        for value, outcome, count in frame.collect():
            groups.setdefault(value, Counter())[outcome] += count
    return tuple(GroupTally(field, value, _ordered(groups[value].items())) for value in sorted(groups, key=str.encode))


def refusal_rows(run: SparkRun, *, most: int) -> tuple[Place, ...]:
    """Return the places of some refusals, spread over the run, the same each time, in their order."""
    refused = run.judged.where("outcome IN ('refused', 'filtered')").selectExpr(
        *("source", "start", "place", "line", "`within`"), "md5(concat_ws('|', source, start, place)) AS spread"
    )
    rows = refused.orderBy("spread", "source", "start", "place").limit(most).collect()
    return tuple(sorted((row[0], row[1], row[2], row[3], row[4]) for row in rows))


def pair_frames(
    runs: tuple[SparkRun, SparkRun],
    *,
    counted: Sequence[str],
    key: str | None = None,
    cluster: str | None = None,
    slices: Sequence[str] = (),
    show: int = 20,
) -> PairedRuns:
    """Return the tally of two judged runs, as `tallies.pair_runs` does."""
    pairing, pairs, cells = _paired(runs, key, counted)
    try:
        return _tallied(
            runs, _Pairs(pairs, cells), pairing, asked=key is not None, cluster=cluster, slices=slices, show=show
        )
    finally:
        pairs.unpersist()


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The pairs of two runs, and how many are in each cell: both states, pairs, repeats, sessions."""

    frame: DataFrame
    cells: tuple[tuple[str, str, int, int, int], ...]

    def total(self, baseline: str, candidate: str) -> int:
        return sum(n for b, c, n, _, _ in self.cells if b in baseline and c in candidate)

    def counts(self) -> PairCounts:
        return PairCounts(*(self.total(b, c) for b, c in ("aa", "an", "na", "nn")))

    def missing(self) -> Missing:
        return Missing(
            baseline_unmatched=self.total("anf", "-"),
            candidate_unmatched=self.total("-", "anf"),
            baseline_failed=self.total("f", "an"),
            candidate_failed=self.total("an", "f"),
            both_failed=self.total("f", "f"),
            baseline_known_abstained=self.total("a", "f-"),
            baseline_known_answered=self.total("n", "f-"),
            candidate_known_abstained=self.total("f-", "a"),
            candidate_known_answered=self.total("f-", "n"),
            nothing_known=self.total("f-", "f-"),
        )

    def repeats(self) -> int:
        return sum(repeats for *_, repeats, _ in self.cells)

    def sessions(self) -> int:
        return sum(sessions for b, c, _, _, sessions in self.cells if b in "an" and c in "an")


def _tallied(
    runs: tuple[SparkRun, SparkRun],
    pairs: _Pairs,
    pairing: Pairing,
    *,
    asked: bool,
    cluster: str | None,
    slices: Sequence[str],
    show: int,
) -> PairedRuns:
    changed = _changed_prompts(runs, pairs, asked=asked) if pairing is Pairing.ID else 0
    repeats = pairs.repeats()
    grouped_by = _cluster_of(pairs, cluster, repeats=repeats)
    frame = _with_links(pairs.frame) if grouped_by == LINKED else pairs.frame
    complete = frame.where(_COMPLETE)
    clusters = _cluster_sums(complete, grouped_by)
    filled = {*runs[0].filled(), *runs[1].filled()}
    sliced = {field: _sliced(complete, field, grouped_by) for field in slices if field in filled}
    tally = PairTally(
        pairing,
        pairs.counts(),
        pairs.missing(),
        clusters,
        grouped_by if clusters else None,
        repeats,
        changed,
        tuple(each for found, _ in sliced.values() for each in found),
        tuple((field, more) for field, (_, more) in sliced.items() if more > 0),
        (),
    )
    return PairedRuns(tally, _flip_places(complete, show))


def _paired(
    runs: tuple[SparkRun, SparkRun], key: str | None, counted: Sequence[str]
) -> tuple[Pairing, DataFrame, tuple[tuple[str, str, int, int, int], ...]]:
    """Return how rows pair, the pairs, and how many are in each cell."""
    pairing, column, unique = _pairing_of(runs, key)
    pairs = _paired_sides(runs, column, counted, unique=unique).persist()
    repeats = "sum(CAST(k > 1 AND bs <> '-' AND cs <> '-' AS INT))"
    cells = pairs.groupBy("bs", "cs").agg(*_exprs("count(*)", repeats, "count(session)")).collect()
    return pairing, pairs, tuple((row[0], row[1], row[2], row[3], row[4]) for row in cells)


@dataclass(frozen=True, slots=True)
class _SharedKeys:
    """How many rows of the baseline have a key that the candidate has, and whether no run has a key twice."""

    rows: int
    unique: bool


def _pairing_of(runs: tuple[SparkRun, SparkRun], key: str | None) -> tuple[Pairing, str, bool]:
    """Return how rows pair, by which column, and whether its keys are unique.

    By the key that was asked for, or the id where it pairs many rows, else the prompt.
    """
    named = {"id": (Pairing.ID, "id"), "prompt": (Pairing.PROMPT, "prompt")}
    tried = [named.get(key, (Pairing.FIELD, f"field:{key}"))] if key is not None else list(named.values())
    shared: list[_SharedKeys] = []
    for _, column in tried:
        shared.append(_shared_keys(runs, column))
        if shared[-1].rows * 2 >= runs[0].rows:
            # No other column can pair twice as many.
            break
    best = max(each.rows for each in shared)
    for (pairing, column), each in zip(tried, shared, strict=False):
        if each.rows and each.rows * 2 >= best:
            return pairing, column, each.unique
    first, second = (f"{run.rows:,} rows, {run.judged.where('id IS NOT NULL').count():,} with an id" for run in runs)
    asked = f"no {key} is" if key else "no id and no prompt is"
    raise EmptyInputError(
        f"{asked} in both runs (`{runs[0].name}`: {first}; `{runs[1].name}`: {second})",
        hint="name the common field with --key, join the prompts of a batch with --requests, or pass --unpaired",
    )


def _shared_keys(runs: tuple[SparkRun, SparkRun], column: str) -> _SharedKeys:
    """Return what the keys of two runs have in common, by their hashes.

    Hashes that all differ are of keys that all differ; two keys of one hash (in 10⁹ rows, once in forty runs) only cost a rank.
    """
    name = SPARK.name(column)
    b, c = (
        run.judged.where(f"kind IS NULL AND {name} IS NOT NULL").selectExpr(
            f"xxhash64({name}) AS h", f"{int(i == 0)}L AS b", f"{i}L AS c"
        )
        for i, run in enumerate(runs)
    )
    each = b.union(c).groupBy("h").agg(*_exprs("sum(b) AS b", "sum(c) AS c"))
    rows, most = each.selectExpr("sum(IF(c > 0, b, 0L))", "max(greatest(b, c))").collect()[0]
    return _SharedKeys(rows or 0, unique=(most or 0) < 2)  # noqa: PLR2004 — a key that stands twice


def _exprs(*queries: str) -> list[Any]:
    from pyspark.sql import functions as sql

    return [sql.expr(query) for query in queries]


def _paired_sides(runs: tuple[SparkRun, SparkRun], column: str, counted: Sequence[str], *, unique: bool) -> DataFrame:
    sides = [_side_of(run, column, counted, unique=unique) for run in runs]
    b, c = sides[0].alias("b"), sides[1].alias("c")
    ranked = [f"coalesce(b.{name}, c.{name}) AS {name}" for name in ("key", "k", "session")]
    names = [f"field:{field}" for field in runs[0].fields]
    kept = [
        f"coalesce({', '.join(f'{side}.{SPARK.name(name)}' for side, frame in (('b', b), ('c', c)) if name in frame.columns)})"
        f" AS {SPARK.name(name)}"
        for name in names
        if name in b.columns or name in c.columns
    ]
    states = ("coalesce(b.state, '-') AS bs", "coalesce(c.state, '-') AS cs")
    rest = (f"{side}.{name} AS {side}_{name}" for side in "bc" for name in ("at", "score", "prompt"))
    return b.join(c, _exprs("b.key = c.key AND b.k = c.k")[0], "full").selectExpr(*ranked, *states, *rest, *kept)


def _side_of(run: SparkRun, column: str, counted: Sequence[str], *, unique: bool) -> DataFrame:
    """Return a run's rows by key, with their rank among rows of the same key."""
    words = ", ".join(f"'{word}'" for word in counted)
    state = f"CASE WHEN outcome = 'failed' THEN 'f' WHEN outcome IN ({words}) THEN 'a' ELSE 'n' END AS state"
    fields = [SPARK.name(f"field:{name}") for name in run.filled()]
    kept = (f"CAST({SPARK.name(column)} AS STRING) AS key", f"{_PLACE} AS at", state, "score", "session", "prompt")
    verdicts = run.judged.where("kind IS NULL")
    if unique:
        return verdicts.selectExpr(*kept, *fields, "1 AS k")
    side = verdicts.selectExpr(*kept, *fields, "outcome", "reason", "cause", "CAST(NULL AS STRING) AS shuffle")
    return _ranked(side).selectExpr(*("key", "at", "state", "score", "session", "prompt"), *fields, "k")


def _ranked(side: DataFrame) -> DataFrame:
    """Return rows with their rank in the order of `tallies`, that neither their places nor their outcomes decide."""
    from pyspark.sql.pandas.types import to_arrow_schema

    shuffled = map_arrow(side, add_shuffle, to_arrow_schema(side.schema))
    order = "PARTITION BY key ORDER BY outcome = 'failed', shuffle, at"
    return shuffled.selectExpr("*", f"row_number() OVER ({order}) AS k")


def _changed_prompts(runs: tuple[SparkRun, SparkRun], pairs: _Pairs, *, asked: bool) -> int:
    """Return how many ids stand for different prompts; an error where most do and the user did not ask for ids."""
    frame = pairs.frame.where("key IS NOT NULL")
    if frame.where("k > 1").limit(1).count():
        frame = frame.groupBy("key").agg(
            *_exprs("min(b_prompt) AS b_prompt", "min(c_prompt) AS c_prompt", "min(b_at) AS b_at")
        )
    both = frame.where("b_prompt IS NOT NULL AND c_prompt IS NOT NULL")
    known, changed = both.selectExpr("count(*)", "sum(CAST(b_prompt <> c_prompt AS INT))").collect()[0]
    if (changed or 0) > known * _CHANGED_SHARE and not asked:
        key, at = both.where("b_prompt <> c_prompt").orderBy("b_at").select("key", "b_at").limit(1).collect()[0]
        _refuse_other_prompts(runs, str(key), tuple(at), f"{changed:,} of {known:,} ids")
    return int(changed or 0)


def _refuse_other_prompts(runs: tuple[SparkRun, SparkRun], key: str, at: Any, share: str) -> None:  # noqa: ANN401 — a row of Spark
    source, start, place, line, _ = at
    given = runs[0].given
    row, before = runs[0].marks[source, start]
    shown = given.shown_line(before, line) if given.lines else None
    nth = "" if shown is not None else f" of row {line if given.keys else row + place + 1:,}"
    raise ShapeError(
        f"id `{key}`{nth} asks another prompt in `{runs[1].name}`, and so do {share}",
        hint="compare runs of the same questions; --key id pairs them all the same, --key prompt by what they ask",
    ).at(given.files[source], shown)


def _cluster_of(pairs: _Pairs, asked: str | None, *, repeats: int) -> str | None:
    """Return what groups correlated pairs: what was asked for, else sessions of several pairs, else repeated keys."""
    if asked == "none":
        return None
    if asked is not None and asked != "session":
        return asked
    rows = pairs.sessions()
    if asked == "session" and not rows:
        raise UsageError("no row has a session", hint="cluster by key, none, or a field of the rows")
    if asked is None and repeats and rows:
        return LINKED
    if asked == "session":
        return "session"
    if rows and pairs.frame.where(_COMPLETE).selectExpr("count(DISTINCT session)").collect()[0][0] < rows:
        return "session"
    return "key" if repeats else None


_KNOWN_AS = "coalesce(concat('v', session), concat('k', key))"


def _with_links(pairs: DataFrame) -> DataFrame:
    """Return pairs under the group of sessions that repeated questions link with theirs.

    The links are put together on the driver, which is why there may not be more of them than it can hold.
    """
    each = pairs.where("key IS NOT NULL").groupBy("key").agg(*_exprs(f"sort_array(collect_set({_KNOWN_AS})) AS names"))
    linked = each.where("size(names) > 1").select("names").distinct().limit(_MAX_LINKS + 1).collect()
    if len(linked) > _MAX_LINKS:
        what = f"repeated questions link more than {_MAX_LINKS:,} groups of sessions"
        raise UsageError(what, hint="say what groups rows: --cluster session, key, none, or a field")
    roots = _roots([row[0] for row in linked])
    names = pairs.sparkSession.createDataFrame(sorted(roots.items()), "name string, linked string")
    joined = pairs.selectExpr("*", f"{_KNOWN_AS} AS name").join(names.hint("broadcast"), "name", "left")
    return joined.selectExpr("*", "coalesce(linked, name) AS grouped")


def _roots(links: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return for each linked name the first of all that it is linked with, directly or through others."""
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while (upper := above.setdefault(name, name)) != name:
            above[name] = above[upper]
            name = upper
        return name

    for names in links:
        first = root(names[0])
        for name in names[1:]:
            above[root(name)] = first
    return {name: root(name) for name in list(above)}


def _grouping(field: str) -> str:
    if field in ("key", LINKED):
        return "grouped" if field == LINKED else "key"
    # A pair without the field stands alone: under its own key, kept apart from the field's own values.
    column = "session" if field == "session" else SPARK.name(f"field:{field}")
    return f"CASE WHEN {column} IS NULL THEN concat('k', key) ELSE concat('v', {column}) END"


def _cluster_sums(complete: DataFrame, field: str | None) -> tuple[ClusterSum, ...]:
    if field is None:
        return ()
    each = complete.groupBy(*_exprs(_grouping(field))).agg(*_exprs(_NET, "count(*) AS pairs"))
    rows = each.groupBy("net", "pairs").count().collect()
    return tuple(ClusterSum(*row) for row in sorted(map(tuple, rows)))


def _sliced(complete: DataFrame, field: str, cluster: str | None) -> tuple[list[SliceTally], int]:
    """Return the largest slices of a field that has more than one value, and how many further ones there are."""
    column = SPARK.name(f"field:{field}")
    cells = [f"count_if(bs = '{b}' AND cs = '{c}') AS {b}{c}" for b, c in ("aa", "an", "na", "nn")]
    having = complete.where(f"{column} IS NOT NULL").selectExpr("*", f"{column} AS v")
    values = having.groupBy("v").agg(*_exprs(*cells))
    first = values.orderBy(*_exprs("-(aa + an + na + nn)", "v")).limit(_MAX_SLICE_VALUES + 1).collect()
    if len(first) < 2:  # noqa: PLR2004 — one value is no slice
        return [], 0
    more = values.count() - _MAX_SLICE_VALUES if len(first) > _MAX_SLICE_VALUES else 0
    kept = first[:_MAX_SLICE_VALUES]
    clusters = _slice_sums(having, [row[0] for row in kept], cluster) if cluster else {}
    return [SliceTally(field, row[0], PairCounts(*row[1:]), tuple(clusters.get(row[0], ()))) for row in kept], more


def _slice_sums(having: DataFrame, values: Sequence[str], cluster: str) -> dict[str, list[ClusterSum]]:
    from pyspark.sql import functions as sql

    each = having.where(sql.col("v").isin(list(values))).groupBy(*_exprs("v", _grouping(cluster)))
    rows = each.agg(*_exprs(_NET, "count(*) AS pairs")).groupBy("v", "net", "pairs").count().collect()
    found: dict[str, list[ClusterSum]] = {}
    for value, net, pairs, count in sorted(map(tuple, rows), key=lambda row: row[1:3]):
        found.setdefault(value, []).append(ClusterSum(net, pairs, count))
    return found


def _flip_places(complete: DataFrame, show: int) -> tuple[tuple[str, Direction, Place, Place], ...]:
    """Return the flips with the largest change of score, as many of each direction; increases first."""
    found: list[tuple[str, Direction, Place, Place]] = []
    for direction, before, after in ((Direction.INCREASE, "n", "a"), (Direction.DECREASE, "a", "n")):
        flipped = complete.where(f"bs = '{before}' AND cs = '{after}'")
        # Rounded as DuckDB rounds: up from the half.
        ordered = flipped.orderBy(*_exprs("-floor(abs(c_score - b_score) * 1e6D + 0.5D)", "key", "k"))
        rows = ordered.limit(show).select("key", "b_at", "c_at").collect()
        found += [(key, direction, tuple(b), tuple(c)) for key, b, c in rows]
    return tuple(found)
