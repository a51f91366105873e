"""Which rows and pairs move together, and what they add up to: turns of one session, and repeats of one question.

The same queries serve every engine. Two sessions that have something in common count as one: a question that is asked in both, or a
session of the other run. What comes back are sums over groups, never rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.model.comparison import ClusterSum
from demur.model.sessions import SessionSums
from demur.model.verdict import NOT_JUDGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from demur.runs.judged import CountingEngine, JudgedRun
    from demur.runs.sql import Dialect

__all__ = [
    "CLUSTER_SUMS",
    "COMPLETE",
    "cluster_column",
    "cluster_sums",
    "group_pairs",
    "group_session_sums",
    "linked_groups",
    "row_groups",
    "run_session_sums",
]

COMPLETE = "bs IN ('a', 'n') AND cs IN ('a', 'n')"
CLUSTER_SUMS = (
    "sum(CAST(cs = 'a' AS INT) - CAST(bs = 'a' AS INT)) AS net, count(*) AS n, sum(CAST(bs = 'a' AS INT)) AS before"
)
_BOTH_RUNS, _QUESTION, _LINKED = "session of either run", "question", "session and question"
_WITH_LINKS = (_BOTH_RUNS, _QUESTION, _LINKED)
# A text in `||` that is null makes all of it null, in both engines; `concat` would not in DuckDB. The two runs name their sessions
# independently of each other, so that each has a prefix of its own.
_SESSION_OR_KEY = "coalesce('v' || b_session, 'w' || c_session, 'k' || key)"
_KEY = "'k' || key"
_PROMPT = "coalesce(b_prompt, c_prompt)"
_SUMS = "count(*), sum(m), sum(k), sum(k * k), sum(k * m), sum(m * m)"
# What a value's rows take away from the sums of all: its groups that hold nothing else, and the part of the others.
_LOST = (
    "sum(CASE WHEN mm = m THEN 1 ELSE 0 END), sum(m), sum(k), sum(kk * kk - (kk - k) * (kk - k)), "
    "sum(kk * mm - (kk - k) * (mm - m)), sum(mm * mm - (mm - m) * (mm - m))"
)


def group_pairs(
    engine: CountingEngine, *, repeats: int, sessions: int, asked: str | None, by_prompt: bool
) -> str | None:
    """Return what groups correlated pairs: what was asked for, else sessions of several pairs and repeated questions.

    `repeats` are pairs beyond the first of their key, `sessions` complete pairs with a session; `by_prompt` says that the key is the prompt. A
    repeated prompt links pairs under several ids, but not the turns of longer sessions: each of those is asked in its own context.
    """
    if asked == "none":
        return None
    if asked not in (None, "session"):
        return asked
    if asked == "session" and not sessions:
        raise UsageError("no row has a session", hint="cluster by key, none, or a field of the rows")
    grouped, differ = _sessions_group(engine) if sessions else (False, False)
    prompt = f"CASE WHEN session IS NULL THEN {_PROMPT} END" if grouped else _PROMPT
    links = ["c_session"] if differ and (grouped or asked) else []
    questions = []
    if asked is None:
        questions += ["key"] if repeats and grouped else []
        questions += [prompt] if not by_prompt and _is_repeated(engine, prompt) else []
    if (links or questions) and _link(engine, _SESSION_OR_KEY if grouped or asked else _KEY, [*links, *questions]):
        return (_LINKED if questions else _BOTH_RUNS) if grouped or asked else _QUESTION
    if grouped or asked:
        return "session"
    return "key" if repeats else None


def _sessions_group(engine: CountingEngine) -> tuple[bool, bool]:
    """Return whether a session of either run has several pairs, and whether the runs have different sessions."""
    other = "coalesce(b_session <> c_session, b_session IS NULL)"
    before, distinct_before, after, distinct_after, differ = engine.ask(
        "SELECT count(b_session), count(DISTINCT b_session), count(c_session), count(DISTINCT c_session), "
        f"sum(CASE WHEN c_session IS NOT NULL AND {other} THEN 1 ELSE 0 END) "
        f"FROM {engine.table('pairs')} WHERE {COMPLETE}"
    )[0]
    return distinct_before < before or distinct_after < after, bool(differ)


def _is_repeated(engine: CountingEngine, prompt: str) -> bool:
    asked, distinct = engine.ask(
        f"SELECT count({prompt}), count(DISTINCT {prompt}) FROM {engine.table('pairs')} WHERE {COMPLETE}"
    )[0]
    return bool(distinct < asked)


def _link(engine: CountingEngine, name: str, shared: Sequence[str]) -> bool:
    """Group the names of pairs that share a value of these columns, directly or through others; whether any do."""
    pairs, limit = engine.table("pairs"), "" if engine.max_links is None else f" LIMIT {engine.max_links + 1}"
    # Each name is linked to the first of those that share the value: as many links as names, not as pairs of names.
    found = " UNION ALL ".join(
        f"SELECT p.name, h.head FROM (SELECT {name} AS name, {column} AS shared FROM {pairs} WHERE key IS NOT NULL) AS p JOIN "
        f"(SELECT {column} AS shared, min({name}) AS head FROM {pairs} WHERE key IS NOT NULL AND {column} IS NOT NULL "
        f"GROUP BY {column} HAVING min({name}) < max({name})) AS h ON p.shared = h.shared WHERE p.name <> h.head"
        for column in shared
    )
    links = engine.ask(f"SELECT DISTINCT name, head FROM ({found}) AS links ORDER BY name, head{limit}")
    if engine.max_links is not None and len(links) > engine.max_links:
        what = (
            f"more than {engine.max_links:,} sessions are linked by repeated questions or by sessions of the other run"
        )
        raise UsageError(what, hint="say what groups rows: --cluster session, key, none, or a field")
    if not links:
        return False
    engine.fill("links", sorted(linked_groups(links).items()), ("name", "linked_to"))
    joined = f"{pairs} AS p LEFT JOIN {engine.table('links')} AS l ON {name} = l.name"
    # The join is part of every query from here on, so its result takes the place of the pairs.
    engine.define("pairs", f"SELECT p.*, coalesce(l.linked_to, {name}) AS linked FROM {joined}")
    return True


def linked_groups(links: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return for each linked name one that stands for all names that it is linked with, directly or through others."""
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while (upper := above.setdefault(name, name)) != name:
            # Path halving keeps the chains short (Tarjan and van Leeuwen, 1984).
            above[name] = above[upper]
            name = upper
        return name

    for names in links:
        first = root(names[0])
        for name in names[1:]:
            above[root(name)] = first
    return {name: root(name) for name in list(above)}


def cluster_column(field: str, dialect: Dialect) -> str:
    """Return the expression for the cluster of a pair."""
    if field == "key" or field in _WITH_LINKS:
        return "key" if field == "key" else "linked"
    # A pair without the field is a cluster of its own: under its key, which the prefix keeps apart from the field's own values.
    column = "session" if field == "session" else dialect.field(field)
    return f"CASE WHEN {column} IS NULL THEN 'k' || key ELSE 'v' || {column} END"


def cluster_sums(engine: CountingEngine, field: str | None) -> tuple[ClusterSum, ...]:
    """Return how many clusters of complete pairs there are of each kind."""
    if field is None:
        return ()
    each = (
        f"SELECT {CLUSTER_SUMS} FROM {engine.table('pairs')} WHERE {COMPLETE} "
        f"GROUP BY {cluster_column(field, engine.dialect)}"
    )
    kinds = "net, n, before"
    rows = engine.ask(f"SELECT {kinds}, count(*) FROM ({each}) AS clusters GROUP BY {kinds} ORDER BY {kinds}")
    return tuple(ClusterSum(int(net), n, count, int(before)) for net, n, before, count in rows)


def row_groups(engine: CountingEngine, runs: Sequence[JudgedRun]) -> str | None:
    """Return what rows that are not paired come in, `session` or `question`; None where each row stands alone.

    Where sessions have several rows, a row belongs to its session, and one without to its prompt; else to its prompt.
    """
    rows = " UNION ALL ".join(f"SELECT session, prompt FROM {run.table}" for run in runs)
    sessions, distinct, prompts, asked = engine.ask(
        f"SELECT count(session), count(DISTINCT session), count(prompt), count(DISTINCT prompt) FROM ({rows}) AS rows"
    )[0]
    if distinct < sessions:
        return "session"
    return "question" if asked < prompts else None


def run_session_sums(
    engine: CountingEngine, runs: Sequence[JudgedRun], group: str, *, counted: Sequence[str]
) -> tuple[SessionSums, tuple[SessionSums, ...]]:
    """Return the sums over the groups of all runs, in which a session of several runs is one, and of each run."""
    rows = _judged_rows(engine, runs, group, counted=counted)
    groups = f"SELECT run, count(*) AS m, sum(a) AS k FROM ({rows}) AS rows GROUP BY run, g"
    sums = engine.ask(f"SELECT run, {_SUMS} FROM ({groups}) AS groups GROUP BY run")
    each = {int(run): SessionSums(*map(int, totals)) for run, *totals in sums}
    found = tuple(each.get(i, SessionSums()) for i in range(len(runs)))
    return (found[0] if len(runs) == 1 else _whole(engine, rows)), found


def group_session_sums(
    engine: CountingEngine, runs: Sequence[JudgedRun], group: str, *, field: str, counted: Sequence[str]
) -> Mapping[str, tuple[SessionSums, SessionSums]]:
    """Return, for each value of a field, the sums over the groups of its rows, and of all other rows that have the field."""
    rows = _judged_rows(
        engine, [run for run in runs if field in run.filled], group, counted=counted, value=engine.dialect.field(field)
    )
    each = f"SELECT v, g, count(*) AS m, sum(a) AS k FROM ({rows}) AS rows GROUP BY v, g"
    whole = _whole(engine, rows)
    # What a group of rows holds beyond this value is its total less its own, so that all values cost one pass.
    totals = (
        f"SELECT v, m, k, sum(m) OVER (PARTITION BY g) AS mm, sum(k) OVER (PARTITION BY g) AS kk FROM ({each}) AS each"
    )
    found = {}
    for value, *sums in engine.ask(f"SELECT v, {_SUMS}, {_LOST} FROM ({totals}) AS totals GROUP BY v"):
        own, less = SessionSums(*map(int, sums[:6])), SessionSums(*map(int, sums[6:]))
        found[str(value)] = own, whole.less(less)
    return found


def _whole(engine: CountingEngine, rows: str) -> SessionSums:
    each = f"SELECT count(*) AS m, sum(a) AS k FROM ({rows}) AS rows GROUP BY g"
    return SessionSums(*(int(total or 0) for total in engine.ask(f"SELECT {_SUMS} FROM ({each}) AS groups")[0]))


def _judged_rows(
    engine: CountingEngine, runs: Sequence[JudgedRun], group: str, *, counted: Sequence[str], value: str | None = None
) -> str:
    """Return the query for the judged rows of some runs: run, group, whether the row abstained, and the value of a field."""
    words, unjudged = (", ".join(f"'{word}'" for word in found) for found in (counted, NOT_JUDGED))
    kept, there = ("", "") if value is None else (f", {value} AS v", f" AND {value} IS NOT NULL")
    session = "'v' || session, " if group == "session" else ""
    # Hashes, so that no text of a million sessions is kept; a row that stands alone has its place in its own run.
    return " UNION ALL ".join(
        f"SELECT {i} AS run, CASE WHEN outcome IN ({words}) THEN 1 ELSE 0 END AS a{kept}, {engine.dialect.hash}("
        f"coalesce({session}'p' || CAST(prompt AS STRING), 'r{i}.' || CAST(rowid AS STRING))) AS g FROM {run.table} "
        f"WHERE (outcome IN ({words}) OR outcome NOT IN ({unjudged})){there}"
        for i, run in enumerate(runs)
    )
