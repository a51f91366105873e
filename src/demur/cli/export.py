"""`demur export`: a run in any format → a Shadow `.agentlog`, each record named by the hash of its payload."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from demur.cli.options import Once, check_outputs, name_bad_rows, progress_line
from demur.errors import UnreadableRowsError, UsageError
from demur.runs.api import write_run
from demur.runs.options import ReadOptions

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur export --agentlog run.agentlog responses.jsonl
  demur export --agentlog run.agentlog out.jsonl --requests in.jsonl
  demur diff old.agentlog run.agentlog --verify

ids are `sha256:` and the digest of the payload's canonical JSON. The
format has no place for a row's own id, so rows pair by their prompts

exit codes: 0 written, 2 bad input
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "export",
        help="write a run as a Shadow .agentlog",
        description="Writes a run as a Shadow .agentlog: prompts, answers, tool calls, stops,\ntokens and latency, as far as the run has them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("source", metavar="RUN", help="a file, a folder, a quoted glob, or - for standard input")
    command.add_argument("--agentlog", metavar="OUT", required=True, action=Once, help="the file to write")
    command.add_argument("--format", metavar="NAME", action=Once, help="the trace format (default: sniffed)")
    command.add_argument(
        "--requests", metavar="FILE", action="append", default=[], help="the input file of a batch, for its prompts"
    )
    command.add_argument("--skip-bad", action="store_true", help="leave out and count rows that cannot be read")
    # Given, the same run makes the same bytes.
    command.add_argument("--time", metavar="ISO", type=_moment, help="the time of the records (default: now)")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    # `demur diff` and Shadow know the format by this ending.
    if Path(args.agentlog).suffix.lower() != ".agentlog":
        raise UsageError(f"`{args.agentlog}` names no agentlog", hint="end it in .agentlog")
    check_outputs((args.agentlog,), [args.source, *args.requests])
    progress = progress_line()
    reading = ReadOptions(
        format=args.format, requests=tuple(args.requests), skip_bad=args.skip_bad, jobs=None, progress=progress
    )
    try:
        count = write_run(args.source, args.agentlog, ts=args.time or _stamp(datetime.now(UTC)), reading=reading)
    except UnreadableRowsError as exc:
        return name_bad_rows(exc)
    finally:
        if progress is not None:
            progress.close()
    print(f"{count:,} exchange{'' if count == 1 else 's'} written to {args.agentlog}")
    return 0


def _moment(word: str) -> str:
    try:
        return _stamp(datetime.fromisoformat(word))
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{word}` is no time; give one as 2026-04-28T10:00:00Z") from None


def _stamp(moment: datetime) -> str:
    """Return a time as the log writes it: in UTC, to the millisecond."""
    # A time without a zone is in UTC already: this machine's zone would make the file depend on where it was written.
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return known.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
