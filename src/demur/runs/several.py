"""Several candidates compared with one baseline: which of them refuse more, at one chance of a false alarm for all.

Each p-value is adjusted for multiple comparisons by Holm's method, each interval by Bonferroni's; where Holm's proves more, the interval ends
just short of 0, so that the two agree. One candidate alone is compared as `compare` does it. The baseline is read and judged once.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from demur.errors import UsageError
from demur.measure.decision import holm
from demur.model.comparison import DiffSettings
from demur.model.estimate import Family
from demur.model.several import ComparedCandidates
from demur.runs.api import FLIPS_SHOWN, check_fields, tally_runs
from demur.runs.compare import compare_tally
from demur.runs.engine import open_engine
from demur.runs.options import CountOptions, ReadOptions, reading_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.columns import ColumnNames
    from demur.model.comparison import Tally
    from demur.runs.api import RunsEngine

__all__ = ["compare_all", "compare_tallies", "tally_candidates"]


def compare_all(  # noqa: PLR0913 — as `compare`: all but the runs are keywords with defaults
    baseline: object,
    candidates: Sequence[object],
    *,
    by: Sequence[str] | None = None,
    key: str | None = None,
    cluster: str | None = None,
    settings: DiffSettings | None = None,
    reading: ReadOptions | None = None,
    unpaired: bool = False,
    show: int = FLIPS_SHOWN,
    **columns: Unpack[ColumnNames],
) -> ComparedCandidates:
    """Return how each candidate's refusals differ from the baseline's, adjusted for multiple comparisons over the candidates.

    The keywords are those of `compare`; labels, further axes and a file of pairs are for two runs.
    """
    if unpaired and (by or key or cluster):
        raise UsageError("runs without pairs have no slices, keys or clusters")
    options = reading_of(reading, columns)
    with open_engine(jobs=options.jobs) as engine:
        tallies = tally_candidates(
            engine,
            baseline,
            candidates,
            counting=CountOptions(by, key, cluster),
            options=options,
            unpaired=unpaired,
            show=show,
        )
        return compare_tallies(tallies, settings or DiffSettings())


def tally_candidates(
    engine: RunsEngine,
    baseline: object,
    candidates: Sequence[object],
    *,
    counting: CountOptions,
    options: ReadOptions,
    unpaired: bool,
    show: int,
) -> list[Tally]:
    """Return what each candidate and the baseline count up to."""
    _check_candidates(candidates)
    first = engine.load_run("baseline", baseline, fields=counting.kept, options=options)
    runs = [
        engine.load_run(f"candidate_{number}", candidate, fields=counting.kept, options=options)
        for number, candidate in enumerate(candidates, 1)
    ]
    check_fields(engine, [first, *runs], counting.named)
    return [
        tally_runs(engine, (first, run), counting=counting, options=options, unpaired=unpaired, show=show)
        for run in runs
    ]


def compare_tallies(tallies: Sequence[Tally], settings: DiffSettings) -> ComparedCandidates:
    """Return the comparisons that the tallies amount to, at one chance of a false alarm for all of them.

    Holds whatever the candidates have in common, which is at least the baseline. One tally: no adjustment.
    """
    if settings.sequential:
        raise UsageError("several candidates cannot be looked at after every pair", hint="compare them one by one")
    alone = [compare_tally(tally, settings) for tally in tallies]
    unadjusted = tuple(one.difference.p for one in alone)
    if len(alone) == 1:
        return ComparedCandidates(tuple(alone), unadjusted)
    many = len(alone)
    families = [
        # A p-value too small for a float is multiplied by what Bonferroni's method would take.
        Family(many, float(many) if not p or adjusted is None else adjusted / p)
        for p, adjusted in zip(unadjusted, holm(unadjusted), strict=True)
    ]
    found = (compare_tally(t, replace(settings, family=f)) for t, f in zip(tallies, families, strict=True))
    return ComparedCandidates(tuple(found), unadjusted)


def _check_candidates(candidates: Sequence[object]) -> None:
    if not candidates:
        raise UsageError("no candidate to compare", hint="name at least one")
    names = [str(run) for run in candidates if isinstance(run, str | Path)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the candidate `{twice}` is named twice", hint="name each once")
