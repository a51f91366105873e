"""Flags for where rows are judged and counted: on this machine, or by Spark on another and many.

Laws: this machine is the default; what Spark cannot do is refused in one line, before anything is read or started; whichever engine
counts, the reports and the exit codes are the same code over the same values.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from demur.cli.options import Once
from demur.errors import UsageError

if TYPE_CHECKING:
    import argparse

__all__ = ["EngineName", "add_engine_flags", "engine_of_flags"]

_NOT_ON_SPARK = (
    *("requests", "verify", "jobs", "out", "labels"),
    *("axes", "rules", "rubric", "judge_labels", "trajectory_floor", "axis_gate"),
)
"""Flags that ask for what only one machine does: the order of files, texts of all pairs, or its own processes."""


class EngineName(StrEnum):
    """Who judges and counts."""

    LOCAL = "local"
    SPARK = "spark"


def add_engine_flags(command: argparse.ArgumentParser) -> None:
    """Add who judges and counts the rows."""
    group = command.add_argument_group("beyond one machine (docs/scale.md)")
    group.add_argument(
        "--engine",
        choices=list(EngineName),
        default=EngineName.LOCAL,
        help="local: this machine (default); spark: any Hadoop path, Java 17",
    )
    group.add_argument(
        "--master", metavar="URL", action=Once, help="where Spark runs: local[*] (default), spark://…, yarn, k8s://…"
    )


def engine_of_flags(args: argparse.Namespace) -> EngineName:
    """Return the engine that is asked for; flags that it does not know are an error."""
    engine = EngineName(args.engine)
    if engine is EngineName.LOCAL:
        if args.master is not None:
            raise UsageError("`--master` is Spark's", hint="add --engine spark, or drop it")
        return engine
    given = [f"`--{name.replace('_', '-')}`" for name in _NOT_ON_SPARK if getattr(args, name, None)]
    if given:
        what = f"{', '.join(given)} {'is' if len(given) == 1 else 'are'} not for Spark"
        raise UsageError(what, hint=f"drop {'it' if len(given) == 1 else 'them'}, or --engine spark")
    return engine
