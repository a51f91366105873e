"""Flags for the axes beyond refusals: which are measured, by which rules and rubrics, and which may fail the gate.

Laws: files are read, and a judge's settings checked, before any run is; `--rules` and `--rubric` ask for their axis by themselves; the
judge is what `DEMUR_JUDGE_…` names, and none where they name none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from demur.adapters.judge_client import judge_from_environment
from demur.adapters.rubric_files import read_rubric
from demur.adapters.rule_files import read_rules
from demur.cli.options import Once, fields_of_flag
from demur.errors import UsageError
from demur.model.axes import AxisName
from demur.pipeline.axes import AxesSettings
from demur.pipeline.axes_asked import axes_named

if TYPE_CHECKING:
    import argparse

__all__ = ["add_axis_flags", "axes_of_flags", "axis_gate_of_flags"]


def add_axis_flags(command: argparse.ArgumentParser) -> None:
    """Add what is measured beyond refusals."""
    group = command.add_argument_group("axes beyond refusals (docs/axes.md)")
    group.add_argument(
        "--axes",
        metavar="NAMES",
        action="append",
        default=[],
        help="safety (alone by default), trajectory, judge, rules, fingerprint, length, latency, cost, or all",
    )
    group.add_argument("--rules", metavar="FILE", action=Once, help="a YAML file of rules; asks for the axis rules")
    group.add_argument(
        "--rubric",
        metavar="NAME|FILE",
        action="append",
        default=[],
        help="what a judge looks for (repeat); asks for the axis judge, at DEMUR_JUDGE_URL",
    )
    group.add_argument(
        "--axis-gate",
        metavar="NAMES",
        action="append",
        default=[],
        help="axes that may fail the gate (safety); the others are reported only",
    )


def axes_of_flags(args: argparse.Namespace) -> AxesSettings | None:
    """Return what is asked of the axes, None where that is safety alone."""
    names = fields_of_flag(args.axes) or [AxisName.SAFETY]
    implied = [axis for axis, given in ((AxisName.RULES, args.rules), (AxisName.JUDGE, args.rubric)) if given]
    axes = axes_named([*names, *implied])
    if axes == (AxisName.SAFETY,):
        return None
    rubrics = tuple(read_rubric(name) for name in dict.fromkeys(args.rubric))
    twice = next((r.name for at, r in enumerate(rubrics) if r.name in [other.name for other in rubrics[:at]]), None)
    if twice is not None:
        raise UsageError(f"two rubrics are called `{twice}`", hint="name each once")
    return AxesSettings(
        axes=axes,
        rules=read_rules(args.rules) if args.rules else (),
        rubrics=rubrics,
        judge=judge_from_environment(os.environ) if AxisName.JUDGE in axes else None,
        seed=args.seed or 0,
        show=args.show,
    )


def axis_gate_of_flags(args: argparse.Namespace) -> list[str]:
    """Return the names of the axes that may fail the gate."""
    return fields_of_flag(args.axis_gate) or [AxisName.SAFETY]
