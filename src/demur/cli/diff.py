"""`demur diff`: baseline, candidate → did refusals change, can we be sure, and should the pull request wait?

Further axes are measured by flags: which ones, by which rules and rubrics, and which of them may fail the gate.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from demur.cli.columns import add_column_flags, columns_of_flags
from demur.cli.options import (
    EngineName,
    Once,
    add_engine_flags,
    add_judge_flags,
    add_label_flags,
    add_limit_flags,
    add_reading_flags,
    check_outputs,
    check_report_flags,
    engine_of_flags,
    fields_of_flag,
    limits_of_flags,
    name_bad_rows,
    progress_line,
    reading_of_flags,
    share,
    share_or_percent,
    whole_number,
)
from demur.cli.output import show_view, write_report
from demur.errors import UnreadableRowsError, UsageError
from demur.io.files import input_limits
from demur.model.axes import AxisName
from demur.model.comparison import DiffSettings, GateMode
from demur.model.estimate import Direction, Severity
from demur.model.several import ComparedCandidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.axes.compare import AxesSettings
    from demur.model.comparison import Comparison, GateResult
    from demur.runs.options import ReadOptions

__all__ = ["add_axis_flags", "add_parser", "axes_of_flags", "axis_gate_of_flags"]


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
        "--floor",
        metavar="RUN",
        action=Once,
        help="a second run of the baseline's agent: what calls change by chance; the trajectory gate needs it",
    )
    group.add_argument(
        "--trajectory-floor",
        metavar="D",
        type=_floor,
        help="the share of pairs whose calls change between runs of one agent, where it is known",
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
    if not (args.axes or args.rules or args.rubric or args.judge_labels or args.floor):
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
    if args.floor and args.trajectory_floor is not None:
        raise UsageError("two floors of the trajectory", hint="give --floor RUN or --trajectory-floor D")
    if args.floor and AxisName.TRAJECTORY not in axes:
        raise UsageError("`--floor` is for the axis trajectory", hint="add it: --axes safety,trajectory")
    if args.floor and "-" in (args.baseline, args.floor):
        raise UsageError("with `--floor` the baseline is read twice", hint="name files, not standard input")
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
        floor=args.floor,
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


# Not 1, so that CI can tell "worse" from "cannot say".
EXIT_INCONCLUSIVE = 3
# Not a severity: the report still says how severe the change is.
_NEVER = "never"

_EXAMPLES = """\
examples:
  demur diff baseline.jsonl candidate.jsonl
  demur diff main/ branch/ --by category --html report.html
  demur diff old.eval new.eval --gate-on both --fail-on minor
  demur diff a.jsonl b.jsonl --requests input.jsonl   batch outputs
  demur diff a.agentlog b.agentlog --gate shadow --seed 1
  demur diff baseline.jsonl gpt.jsonl claude.jsonl gemini.jsonl
  demur diff baseline.jsonl so_far.jsonl --sequential
  demur diff a b --axes all --rules rules.yaml --axis-gate safety,rules
  demur diff s3a://runs/main s3a://runs/branch --engine spark

a run is a file, a folder, a quoted glob, or - for standard input:
.jsonl, .json, .csv, .tsv, .parquet, .agentlog, .eval, gzip, zstd,
in the logs of providers, gateways and evaluation tools (--format)

rows pair by id, or else by what was asked; --key says by what

exit codes: 0 pass, 1 the gate failed, 2 bad input or nothing to
compare, 3 inconclusive (fewer than 80 % of the rows pair, responses
without a verdict could change the result, --fail-inconclusive, or
an axis of --axis-gate could not be measured)
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "diff",
        help="compare the refusals of two runs, and gate on it",
        description="Compares the refusals of two runs of the same questions: did they change,\ncan we be sure, and by which exchanges?",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("baseline", metavar="BASELINE", help="the run to compare with")
    command.add_argument(
        "candidate", metavar="CANDIDATE", nargs="+", help="a run that may have changed; several are compared together"
    )
    _add_gate_flags(command)
    command.add_argument("--key", metavar="FIELD", help="what pairs two rows: id, prompt, position, or a field")
    command.add_argument(
        "--allow-unmatched", action="store_true", help="conclude also where fewer than 80%% of the rows pair"
    )
    add_limit_flags(command)
    command.add_argument("--cluster", metavar="FIELD", help="what groups rows: session, key, none, or a field")
    _add_slice_flags(command)
    command.add_argument("--unpaired", action="store_true", help="compare runs of different questions")
    add_label_flags(command)
    add_judge_flags(command)
    add_reading_flags(command)
    add_column_flags(command)
    command.add_argument("--json", metavar="FILE", nargs="?", const="-", help="the comparison as JSON")
    command.add_argument("--markdown", metavar="FILE", nargs="?", const="-", help="for a pull request's comment")
    command.add_argument("--html", metavar="FILE", help="a page with plots")
    command.add_argument("--junit", metavar="FILE", help="for a CI's test report")
    command.add_argument("--out", metavar="FILE", help="every pair, to .parquet or .jsonl")
    command.add_argument(
        "--show", metavar="N", type=whole_number, default=10, help="flips of each direction shown (10)"
    )
    add_axis_flags(command)
    add_engine_flags(command)
    command.set_defaults(run=run)


def _add_slice_flags(command: argparse.ArgumentParser) -> None:
    """Add what the pairs are cut by."""
    command.add_argument("--by", metavar="FIELD", action="append", default=[], help="slice by fields (repeat, or a,b)")
    command.add_argument(
        "--pool-slices", action="store_true", help="show slices also drawn towards their mean (partial pooling)"
    )


def _add_gate_flags(command: argparse.ArgumentParser) -> None:
    """Add what fails the gate, and what passes it."""
    command.add_argument(
        "--fail-on",
        choices=[*(s for s in Severity if s is not Severity.NONE), _NEVER],
        default=Severity.MODERATE,
        help="smallest change that fails the gate (moderate: 5 points)",
    )
    command.add_argument(
        "--gate-on",
        choices=list(Direction),
        default=Direction.INCREASE,
        help="increase: over-refusal (default); decrease: lost refusals",
    )
    command.add_argument(
        "--gate", choices=[*GateMode, "seed"], default=GateMode.DEMUR, help="shadow (or seed): severity alone decides"
    )
    command.add_argument("--seed", metavar="N", type=whole_number, help="the seed's own resampled interval")
    command.add_argument("--margin", metavar="D", type=share, default=0.05, help="a change below D is none (0.05)")
    command.add_argument("--fail-inconclusive", action="store_true", help="exit 3 where nothing can be said")
    command.add_argument(
        "--sequential", action="store_true", help="valid after every pair: stop, or exit 3 to go on (docs/diff.md)"
    )
    command.add_argument(
        "--prove-no-increase", metavar="D", type=share_or_percent, help="pass only if proven: no rise above D (2%%)"
    )
    command.add_argument(
        "--fail-ratio",
        metavar="R",
        type=_ratio,
        default=2.0,
        help="a proven change by this factor fails too (2; 0: never)",
    )
    command.add_argument(
        "--fail-flips", metavar="N", type=whole_number, default=10, help="flips from which on a factor counts (10)"
    )


def _ratio(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if value != 0 and not 1 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"`{word}` is not a factor above 1; 0 switches it off")
    return value


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    engine_of_flags(args)
    _check_proof(args)
    if [args.baseline, *args.candidate].count("-") > 1:
        which = "both" if len(args.candidate) == 1 else "two"
        raise UsageError(f"{which} runs are standard input", hint="name a file for one of them")
    check_report_flags(args)
    if len(args.candidate) > 1:
        _check_several(args)
    asks_pairs = (args.by, args.key, args.cluster, args.labels, args.out, args.axes, args.rules, args.rubric)
    if args.unpaired and any(asks_pairs):
        hint = "drop --by, --key, --cluster, --labels, --out and further axes, or --unpaired"
        raise UsageError("`--unpaired` has no pairs", hint=hint)
    files = [name for name in (args.labels, args.rules, args.judge_labels, args.floor) if name]
    inputs = [args.baseline, *args.candidate, *args.requests, *files]
    # Checked before anything is read: an hour of judging must not end in a missing folder.
    check_outputs((args.json, args.markdown, args.html, args.junit, args.out), inputs)
    progress = progress_line()
    try:
        compared = _diff_by_engine(args, reading_of_flags(args, progress, columns_of_flags(args)))
    except UnreadableRowsError as exc:
        return name_bad_rows(exc)
    finally:
        if progress is not None:
            progress.close()
    gate: GateResult | ComparedCandidates
    if isinstance(compared, ComparedCandidates):
        _show_several(compared, args)
        gate = compared
    else:
        _show_one(compared, args)
        gate = compared.gate
    # `--fail-on never` reports and never fails, unless it is asked to where nothing can be said.
    if args.fail_on == _NEVER and not args.fail_inconclusive:
        return 0
    if gate.failed and args.fail_on != _NEVER:
        return 1
    return EXIT_INCONCLUSIVE if gate.unsettled else 0


def _check_proof(args: argparse.Namespace) -> None:
    """Raise where a proof is asked for that cannot be given."""
    if args.prove_no_increase is None:
        return
    if not 0 < args.prove_no_increase < 1:
        raise UsageError("`--prove-no-increase` is not between 0 and 100 %", hint="write 2% or 0.02")
    if args.gate_on != Direction.INCREASE:
        raise UsageError("`--prove-no-increase` and `--gate-on` ask for different things", hint="drop one of them")


def _check_several(args: argparse.Namespace) -> None:
    """Raise where something is asked of several candidates that only two runs have."""
    two_runs = {
        "--labels": args.labels,
        "--out": args.out,
        "--sequential": args.sequential,
        "--axes": args.axes or args.rules or args.rubric or args.axis_gate,
        "--engine spark": engine_of_flags(args) is EngineName.SPARK,
    }
    named = next((flag for flag, given in two_runs.items() if given), None)
    if named is not None:
        raise UsageError(f"`{named}` is for one candidate, not {len(args.candidate)}", hint="compare them one by one")


# Reports are imported once there is something to show: `demur diff --help` needs none of them.
def _show_one(comparison: Comparison, args: argparse.Namespace) -> None:
    from demur.report.diff_view import diff_view

    def as_object() -> object:
        from demur.report.json import comparison_object

        return comparison_object(comparison)

    show_view(diff_view(comparison, show=args.show), args, as_object=as_object)
    if args.junit:
        from demur.report.junit import junit

        write_report(args.junit, junit(comparison))


def _show_several(compared: ComparedCandidates, args: argparse.Namespace) -> None:
    from demur.report.several_view import several_junit, several_object, several_view

    show_view(several_view(compared, show=args.show), args, as_object=lambda: several_object(compared))
    if args.junit:
        write_report(args.junit, several_junit(compared))


class _Shared(TypedDict):
    """What both engines are asked."""

    by: Sequence[str] | None
    key: str | None
    cluster: str | None
    settings: DiffSettings
    reading: ReadOptions
    unpaired: bool
    show: int


def _diff_by_engine(args: argparse.Namespace, reading: ReadOptions) -> Comparison | ComparedCandidates:
    """Return the comparison by the engine that is asked for."""
    settings = DiffSettings(
        # The comparison wants a severity; that it never fails is decided by the exit code.
        fail_on=DiffSettings().fail_on if args.fail_on == _NEVER else Severity(args.fail_on),
        gate_on=Direction(args.gate_on),
        gate=GateMode(args.gate),
        seed=args.seed,
        margin=args.margin,
        fail_inconclusive=args.fail_inconclusive,
        min_paired=0.0 if args.allow_unmatched else DiffSettings().min_paired,
        limits=limits_of_flags(args),
        min_ratio=args.fail_ratio or None,
        min_flips=args.fail_flips,
        prove_no_increase=args.prove_no_increase,
        sequential=args.sequential,
        pool_slices=args.pool_slices,
    )
    shared: _Shared = {
        "by": fields_of_flag(args.by),
        # Shadow pairs by position, so its gate decides as it does there only over such pairs.
        "key": args.key or ("position" if settings.gate is GateMode.SEED and not args.unpaired else None),
        "cluster": args.cluster,
        "settings": settings,
        "reading": reading,
        "unpaired": args.unpaired,
        "show": args.show,
    }
    if engine_of_flags(args) is EngineName.SPARK:
        from demur.runs.spark import engine as cluster

        return cluster.compare(args.baseline, args.candidate[0], master=args.master, **shared)
    if len(args.candidate) > 1:
        from demur.runs.several import compare_all

        return compare_all(args.baseline, args.candidate, **shared)
    from demur.runs.api import compare

    return compare(
        args.baseline,
        args.candidate[0],
        labels=args.labels,
        labels_are_random=args.labels_are_random,
        out=args.out,
        axes=axes_of_flags(args),
        axis_gate=axis_gate_of_flags(args),
        **shared,
    )
