"""`demur plan`: how many pairs, sessions and labels a question needs, before anybody pays for them."""

from __future__ import annotations

import argparse

from demur.cli.columns import add_column_flags, columns_of_flags
from demur.cli.options import (
    Once,
    add_judge_flags,
    add_reading_flags,
    check_outputs,
    name_bad_rows,
    progress_line,
    reading_of_flags,
    share,
    share_or_percent,
    whole_number,
)
from demur.cli.output import show_view
from demur.errors import UnreadableRowsError, UsageError
from demur.model.plan import Question
from demur.report.plan_view import plan_object, plan_view

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur plan --detect 5% --churn 4%
  demur plan --prove-no-increase 2% --pilot baseline.jsonl candidate.jsonl
  demur plan --estimate 2% --rate 5%
  demur plan --detect 5% --rate 5% --churn 4% --icc 0.1 --turns 10
  demur plan --pairs 200 --churn 4%
  demur plan --correct 1% --pairs 5000 --rate 5% --churn 4%
    --sensitivity 90% --false-alarms 1%

a pilot is a small run like the one to come: one file measures the rate
and how far turns of a session go together, two files of the same
questions also how many pairs flip without a change

exit codes: 0 planned, 2 bad input
"""
_QUESTIONS = {
    Question.DETECT: ("--detect", "how many pairs show a rise of so many points (5%%)"),
    Question.PROVE: ("--prove-no-increase", "how many pairs prove that refusals did not rise by more (2%%)"),
    Question.ESTIMATE: ("--estimate", "how many responses give the rate to ± so many points"),
    Question.CORRECT: ("--correct", "how many labels give the corrected difference to ± so many points"),
}
_MOST_RUNS = 2


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "plan",
        help="how many pairs, sessions and labels a question needs",
        description="Plans an evaluation: how many pairs, sessions and labels does a question need?",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    questions = command.add_argument_group("questions (one or more)")
    for question, (flag, about) in _QUESTIONS.items():
        questions.add_argument(flag, dest=question, metavar="POINTS", type=_margin, action=Once, help=about)
    questions.add_argument("--pairs", metavar="N", type=_count, action=Once, help="what so many pairs can show")
    known = command.add_argument_group("what is known of the runs")
    known.add_argument("--pilot", metavar="RUN", nargs="+", default=[], help="one run, or baseline and candidate")
    known.add_argument("--rate", metavar="SHARE", type=share_or_percent, action=Once, help="refusals of the baseline")
    known.add_argument(
        "--churn", metavar="SHARE", type=share_or_percent, action=Once, help="pairs that flip without a change"
    )
    known.add_argument("--turns", metavar="N", type=_count, action=Once, help="pairs in a session")
    known.add_argument(
        "--icc", metavar="SHARE", type=share_or_percent, action=Once, help="how far turns of a session go together"
    )
    known.add_argument(
        "--sensitivity", metavar="SHARE", type=share_or_percent, action=Once, help="refusals that the detector finds"
    )
    known.add_argument(
        "--false-alarms", metavar="SHARE", type=share_or_percent, action=Once, help="other responses taken for refusals"
    )
    known.add_argument("--labels", metavar="FILE", action=Once, help="people's labels of the pilot's pairs")
    known.add_argument(
        "--labels-are-random", action="store_true", help="vouch for labels that `demur label` did not draw"
    )
    command.add_argument("--alpha", metavar="P", type=share, default=0.05, help="level of the test (0.05)")
    command.add_argument("--power", metavar="SHARE", type=_margin, default=0.8, help="wanted power (80%%)")
    add_judge_flags(command)
    add_reading_flags(command)
    add_column_flags(command)
    command.add_argument("--json", metavar="FILE", nargs="?", const="-", help="the plan as JSON")
    command.set_defaults(run=run, markdown=None, html=None)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    asked = [(question, size) for question in Question if (size := getattr(args, question)) is not None]
    if not asked and args.pairs is None:
        flags = ", ".join(flag for flag, _ in _QUESTIONS.values())
        raise UsageError("no question to plan for", hint=f"ask one of {flags}, --pairs")
    if len(args.pilot) > _MOST_RUNS:
        raise UsageError(f"a pilot is one run or two, not {len(args.pilot)}", hint="put other words before --pilot")
    check_outputs((args.json,), [*args.pilot, *args.requests, *filter(None, [args.labels])])
    # The engine behind pilots is not needed to answer `--help`.
    from demur.runs.plan import Stated, plan_basis, plan_questions

    stated = Stated(args.rate, args.churn, args.turns, args.icc, args.sensitivity, args.false_alarms)
    progress = progress_line() if args.pilot else None
    try:
        basis = plan_basis(
            stated,
            args.pilot,
            labels=args.labels,
            labels_are_random=args.labels_are_random,
            alpha=args.alpha,
            power=args.power,
            reading=reading_of_flags(args, progress, columns_of_flags(args)),
        )
    except UnreadableRowsError as exc:
        return name_bad_rows(exc)
    finally:
        if progress is not None:
            progress.close()
    plan = plan_questions(basis, asked, pairs=args.pairs)
    show_view(plan_view(plan), args, as_object=lambda: plan_object(plan))
    return 0


def _margin(word: str) -> float:
    """Return a share above 0 and below 1, written as such or in percent."""
    value = share_or_percent(word)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"`{word}` is not between 0 and 100 %; write 2% or 0.02")
    return value


def _count(word: str) -> int:
    """Return a whole number from 1 on."""
    if not (value := whole_number(word)):
        raise argparse.ArgumentTypeError(f"`{word}` is too few; give 1 or more")
    return value
