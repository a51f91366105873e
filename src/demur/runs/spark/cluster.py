"""The same scan and the same comparison on Spark, for notebooks and for runs that one machine is too small for.

    demur.cluster.scan(spark.read.parquet("s3a://logs/2026/"), by=["model"]).rate
    demur.cluster.compare("hdfs:///runs/main", "hdfs:///runs/branch", key="id").decision

A run is a Spark DataFrame (with a response column, or of lines of JSON in `value`), a path that the executors can read, or several.
The same input gives the same result as `demur.compare` and `demur.scan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.model.comparison import DiffSettings
from demur.runs.api import FLIPS_SHOWN, check_runs, scan_runs, tally_pair
from demur.runs.compare import compare_tally
from demur.runs.options import CountOptions, ReadOptions
from demur.runs.spark.engine import open_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.comparison import Comparison
    from demur.model.run import Scan

__all__ = ["compare", "scan"]


def compare(  # noqa: PLR0913 — the library's main function: all but the runs are keywords with defaults
    baseline: object,
    candidate: object,
    *,
    by: Sequence[str] | None = None,
    key: str | None = None,
    cluster: str | None = None,
    settings: DiffSettings | None = None,
    reading: ReadOptions | None = None,
    unpaired: bool = False,
    show: int = FLIPS_SHOWN,
    master: str | None = None,
) -> Comparison:
    """Return how the candidate's refusals differ from the baseline's, as `demur.compare` does, counted by Spark.

    `master` is where a session is opened if none is open: `local[*]`, `spark://…`, `yarn`, `k8s://…`.
    """
    if unpaired and (by or key or cluster):
        raise UsageError("runs without pairs have no slices, keys or clusters")
    options, counting = reading or ReadOptions(), CountOptions(by, key, cluster)
    with open_spark((baseline, candidate), options, master) as engine:
        _, tally = tally_pair(
            engine, baseline, candidate, counting=counting, options=options, unpaired=unpaired, show=show
        )
        return compare_tally(tally, settings or DiffSettings())


def scan(
    *runs: object, by: Sequence[str] | None = None, reading: ReadOptions | None = None, master: str | None = None
) -> Scan:
    """Return how often the models of some runs say no, as `demur.scan` does, counted by Spark."""
    check_runs(runs)
    options = reading or ReadOptions()
    with open_spark(runs, options, master) as engine:
        return scan_runs(engine, runs, counting=CountOptions(by), options=options)[1]
