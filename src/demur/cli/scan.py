"""`demur scan`: runs → how often the model says no, by model, day, category or any field; verdicts to a file."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.cli.options import (
    EngineName,
    add_engine_flags,
    add_judge_flags,
    add_reading_flags,
    check_outputs,
    check_report_name,
    engine_of_flags,
    fields_of_flag,
    name_bad_rows,
    progress_line,
    reading_of_flags,
    write_report,
)
from demur.cli.output import has_colour
from demur.errors import UnreadableRowsError, UsageError
from demur.report.html import html
from demur.report.json import scan_object
from demur.report.markdown import markdown
from demur.report.scan_view import scan_view
from demur.report.terminal import terminal_lines
from demur.runs.api import scan
from demur.runs.outputs import verdict_file

if TYPE_CHECKING:
    from demur.model.run import Scan
    from demur.runs.options import ReadOptions

__all__ = ["add_parser"]

_MAX_COLUMNS = 80
_EXAMPLES = """\
examples:
  demur scan responses.jsonl
  demur scan logs/ --by model,day
  demur scan monday.jsonl tuesday.jsonl --json
  demur scan 'logs/*.jsonl.gz' --out verdicts.parquet
  zcat log.gz | demur scan - --html rates.html
  demur scan s3a://logs/2026/ --engine spark --master yarn

a run is a file, a folder, a quoted glob, or - for standard input:
.jsonl, .json, .csv, .tsv, .parquet, .agentlog, .eval, gzip, zstd,
in the logs of providers, gateways and evaluation tools (--format)

exit codes: 0 scanned, 2 bad input or nothing to scan
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
    add_judge_flags(command)
    add_reading_flags(command)
    command.add_argument("--out", metavar="FILE", help="every verdict, to .parquet or .jsonl")
    command.add_argument("--json", metavar="FILE", nargs="?", const="-", help="the scan as JSON")
    command.add_argument("--markdown", metavar="FILE", nargs="?", const="-", help="the scan as Markdown")
    command.add_argument("--html", metavar="FILE", help="a page with plots")
    add_engine_flags(command)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    _check_call(args)
    progress = progress_line()
    try:
        found = _scan_by_engine(args, reading_of_flags(args, progress))
    except UnreadableRowsError as exc:
        return name_bad_rows(exc)
    finally:
        if progress is not None:
            progress.close()
    _show_scan(found, args)
    return 0


def _scan_by_engine(args: argparse.Namespace, reading: ReadOptions) -> Scan:
    """Return the scan by the engine that is asked for."""
    by = fields_of_flag(args.by)
    if engine_of_flags(args) is EngineName.SPARK:
        from demur import cluster

        return cluster.scan(*args.runs, by=by, reading=reading, master=args.master)
    return scan(*args.runs, by=by, reading=reading, out=args.out or None)


def _check_call(args: argparse.Namespace) -> None:
    engine_of_flags(args)
    if args.runs.count("-") > 1:
        raise UsageError("standard input stands twice", hint="name it once")
    if args.out:
        verdict_file(Path(args.out))
    check_report_name(args.json, "--json")
    check_report_name(args.markdown, "--markdown")
    if [args.json, args.markdown].count("-") > 1:
        raise UsageError("two reports to standard output", hint="name a file for one of them")
    check_outputs((args.json, args.markdown, args.html, args.out), [*args.runs, *args.requests])


def _show_scan(found: Scan, args: argparse.Namespace) -> None:
    view = scan_view(found)
    if "-" not in (args.json, args.markdown):
        width = min(shutil.get_terminal_size((_MAX_COLUMNS, 24)).columns, _MAX_COLUMNS)
        print("\n".join(terminal_lines(view, width=width, colour=has_colour())))
    if args.json:
        write_report(args.json, msgspec.json.encode(scan_object(found)).decode())
    if args.markdown:
        write_report(args.markdown, markdown(view, marker="demur-scan"))
    if args.html:
        write_report(args.html, html(view))
