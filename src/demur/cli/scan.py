"""`demur scan`: runs → how often the model says no, by model, day, category or any field; verdicts to a file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from demur.cli.columns import add_column_flags, columns_of_flags
from demur.cli.options import (
    EngineName,
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
)
from demur.cli.output import show_view
from demur.errors import UnreadableRowsError, UsageError
from demur.report.json import scan_object
from demur.report.scan_view import scan_view
from demur.runs.api import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.run import Scan

__all__ = ["add_parser"]


_EXAMPLES = """\
examples:
  demur scan responses.jsonl
  demur scan logs/ --by model,day
  demur scan monday.jsonl tuesday.jsonl --json
  demur scan 'logs/*.jsonl.gz' --out verdicts.parquet
  zcat log.gz | demur scan - --html rates.html
  demur scan log.jsonl --labels labels.csv      see demur label
  demur scan s3a://logs/2026/ --engine spark --master yarn

a run is a file, a folder, a quoted glob, or - for standard input:
.jsonl, .json, .csv, .tsv, .parquet, .agentlog, .eval, gzip, zstd,
in the logs of providers, gateways and evaluation tools (--format)

exit codes: 0 scanned, 1 more responses without a verdict than
--max-unread, --max-empty or --max-failed allow, 2 bad input or
nothing to scan
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "scan",
        help="refusal rates of runs, by any field",
        description="Scans runs: how often does the model say no, with which words, and to whom?",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="a file, a folder, a glob, or -")
    command.add_argument("--by", metavar="FIELD", action="append", default=[], help="rates by fields (repeat, or a,b)")
    add_label_flags(command)
    add_judge_flags(command)
    add_reading_flags(command)
    add_column_flags(command)
    add_limit_flags(command)
    command.add_argument("--out", metavar="FILE", help="every verdict, to .parquet or .jsonl")
    command.add_argument("--json", metavar="FILE", nargs="?", const="-", help="the scan as JSON")
    command.add_argument("--markdown", metavar="FILE", nargs="?", const="-", help="the scan as Markdown")
    command.add_argument("--html", metavar="FILE", help="a page with plots")
    add_engine_flags(command)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    engine_of_flags(args)
    # Both would be the same rows, counted twice.
    if args.runs.count("-") > 1:
        raise UsageError("standard input is named twice", hint="name it once")
    check_report_flags(args)
    check_outputs(
        (args.json, args.markdown, args.html, args.out), [*args.runs, *args.requests, *filter(None, [args.labels])]
    )
    progress = progress_line()
    try:
        by, reading = fields_of_flag(args.by), reading_of_flags(args, progress, columns_of_flags(args))
        if engine_of_flags(args) is EngineName.SPARK:
            # Only here: PySpark is an extra, and takes a second to import.
            from demur.runs.spark import engine as cluster

            found = cluster.scan(*args.runs, by=by, reading=reading, master=args.master)
        else:
            found = scan(
                *args.runs,
                by=by,
                reading=reading,
                labels=args.labels,
                labels_are_random=args.labels_are_random,
                out=args.out or None,
            )
    except UnreadableRowsError as exc:
        return name_bad_rows(exc)
    finally:
        if progress is not None:
            progress.close()
    # A marker of its own: a comment with a scan must not replace the one with a diff on the same pull request.
    show_view(scan_view(found), args, as_object=lambda: scan_object(found), marker="demur-scan")
    over = list(_over_limits(found, args))
    for line in over:
        print(f"demur: {line}", file=sys.stderr)
    return 1 if over else 0


def _over_limits(found: Scan, args: argparse.Namespace) -> Iterator[str]:
    """Yield what of each run is above a limit that was set for responses without a verdict."""
    for outcome, limit in limits_of_flags(args):
        for run in found.tally.runs:
            if run.share(outcome) > limit:
                share = 100 * run.share(outcome)
                yield f"`{run.name}`: {share:.1f} % of the rows are {outcome}, more than {100 * limit:g} %"
