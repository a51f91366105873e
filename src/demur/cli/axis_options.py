"""Flags for the axes beyond refusals: which are measured, by which rules and rubrics, and which may fail the gate."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from typing import TYPE_CHECKING

from demur.cli.options import Once, fields_of_flag
from demur.errors import UsageError
from demur.io.files import input_limits
from demur.model.axes import AxisName

if TYPE_CHECKING:
    from demur.axes.compare import AxesSettings

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
        "--judge-labels",
        metavar="FILE",
        action=Once,
        help="pairs that people labelled by a rubric: id, baseline, candidate",
    )
    group.add_argument(
        "--trajectory-floor",
        metavar="D",
        type=_floor,
        default=0.0,
        help="share of pairs whose calls change between runs of one model (0)",
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
    if not (args.axes or args.rules or args.rubric or args.judge_labels):
        # Most diffs compare refusals alone, and need none of the axes' modules.
        return None
    from demur.axes.compare import AxesSettings, axes_named
    from demur.axes.judge.client import judge_from_environment
    from demur.axes.judge.labels import read_judge_labels
    from demur.axes.rubric import HumanVerdict, read_rubric
    from demur.axes.rules.files import read_rules

    # `--rules` and `--rubric` ask for their axis by themselves.
    names = fields_of_flag(args.axes) or [AxisName.SAFETY]
    implied = [axis for axis, given in ((AxisName.RULES, args.rules), (AxisName.JUDGE, args.rubric)) if given]
    axes = axes_named([*names, *implied])
    if args.judge_labels and not args.rubric:
        raise UsageError("labels of people need the rubric they are of", hint="name it: --rubric NAME")
    if axes == (AxisName.SAFETY,):
        return None
    # Files are read, and the judge's settings checked, before any run is: a mistake should not cost a scan.
    rubrics = tuple(read_rubric(name) for name in dict.fromkeys(args.rubric))
    twice = next((name for name, count in Counter(rubric.name for rubric in rubrics).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"two rubrics are called `{twice}`", hint="name each once")
    human: tuple[tuple[str, HumanVerdict], ...] = ()
    if args.judge_labels is not None:
        labels = read_judge_labels(args.judge_labels, rubrics, limits=input_limits())
        human = tuple((one.rubric, HumanVerdict(one.key, one.baseline, one.candidate)) for one in labels)
    return AxesSettings(
        axes=axes,
        rules=read_rules(args.rules) if args.rules else (),
        rubrics=rubrics,
        judge=judge_from_environment(os.environ) if AxisName.JUDGE in axes else None,
        human=human,
        trajectory_floor=args.trajectory_floor,
        seed=args.seed or 0,
        show=args.show,
    )


def axis_gate_of_flags(args: argparse.Namespace) -> list[str]:
    """Return the names of the axes that may fail the gate."""
    return fields_of_flag(args.axis_gate) or [AxisName.SAFETY]


def _floor(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"`{word}` is no share from 0 on, below 1")
    return value
