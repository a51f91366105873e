"""`demur label`: a sample of responses with known probabilities, labelled by a person in the browser or the terminal."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli.columns import add_column_flags, columns_of_flags
from demur.cli.options import (
    add_judge_flags,
    add_reading_flags,
    name_bad_rows,
    port_number,
    progress_line,
    reading_of_flags,
    whole_number,
)
from demur.errors import UnreadableRowsError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.model.labels import DrawnResponse
    from demur.runs.label_file import LabelSession

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur label baseline.jsonl candidate.jsonl --out labels.csv
  demur label log.jsonl --n 300 --terminal
  demur label a.jsonl b.jsonl --annotator ada    a second person
  demur diff baseline.jsonl candidate.jsonl --labels labels.csv
  demur scan log.jsonl --labels labels.csv

Draws pairs of two runs, or rows of one, with known probabilities: flips and
responses that the detector is unsure of more often than the rest. Each label
is written to the file at once; the same call resumes, a larger --n extends.
What the detector said, and which run it was, is not shown.

in the browser and the terminal: 1 refusal, 2 partial, 3 compliance, 0 other,
u undo; q quits the terminal

exit codes: 0 ended as told, 2 bad input or an address in use
"""
_TOKEN_BYTES = 24
_WIDTH = 72


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "label",
        help="label a sample of responses, so that people decide",
        description="Draws a sample of responses with known probabilities and lets a person label it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("runs", nargs="+", metavar="RUN", help="one run, or a baseline and a candidate")
    command.add_argument("--out", metavar="FILE", default="labels.csv", help="the labels, as CSV (labels.csv)")
    command.add_argument("--n", metavar="N", type=whole_number, default=200, help="pairs or rows to label (200)")
    command.add_argument("--seed", metavar="N", type=whole_number, default=0, help="of the draw (0)")
    command.add_argument("--annotator", metavar="NAME", default="", help="who labels; several share one file")
    command.add_argument("--key", metavar="FIELD", help="what pairs two rows: id, prompt, position, or a field")
    command.add_argument("--terminal", action="store_true", help="label here instead of in the browser")
    command.add_argument("--port", type=port_number, default=0, help="the page's port; 0 is any free one (0)")
    command.add_argument("--with-texts", action="store_true", help="write prompts and responses into the file too")
    add_judge_flags(command)
    add_reading_flags(command)
    add_column_flags(command)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    from demur.runs.label import draw_responses
    from demur.runs.label_file import LabelSession

    path = Path(args.out)
    _check(args, path)
    progress = progress_line()
    try:
        options = reading_of_flags(args, progress, columns_of_flags(args))
        drawn = draw_responses(args.runs, n=args.n, seed=args.seed, key=args.key, options=options)
    except UnreadableRowsError as exc:
        return name_bad_rows(exc)
    finally:
        if progress is not None:
            progress.close()
    session = LabelSession(drawn, path, annotator=args.annotator.strip(), with_texts=args.with_texts)
    print(_drawn_words(drawn, pairs=len(args.runs) > 1))
    if args.terminal:
        _label_here(session)
    else:
        _serve(session, args.port)
    _summarise(session, args.runs)
    return 0


def _check(args: argparse.Namespace, path: Path) -> None:
    if len(args.runs) > 2:  # noqa: PLR2004 — a baseline and a candidate
        raise UsageError(f"{len(args.runs)} runs to label", hint="name one run, or a baseline and a candidate")
    if args.n < 1:
        raise UsageError("a sample of 0", hint="--n is how many pairs or rows to label")
    if args.terminal and "-" in args.runs:
        raise UsageError("the run and the keys would both come from standard input", hint="name a file")
    if path.suffix.lower() != ".csv":
        raise UsageError(f"`{path}` is no CSV file", hint="labels are written as CSV: --out labels.csv")
    if not path.parent.is_dir():
        raise UsageError(f"`{path}` cannot be written: its folder is not there", hint="make it first")
    if any(Path(name) == path for name in args.runs):
        raise UsageError(f"`{path}` is a run", hint="name another file for the labels")


def _drawn_words(drawn: tuple[DrawnResponse, ...], *, pairs: bool) -> str:
    """Return what was drawn, stratum by stratum."""
    parts: dict[str, tuple[set[str], float]] = {}
    for each in drawn:
        parts.setdefault(each.stratum, (set(), each.probability))[0].add(each.id)
    told = ", ".join(
        f"{stratum.replace('_', ' ')} {len(units):,} of {round(len(units) / probability):,}"
        for stratum, (units, probability) in sorted(parts.items())
    )
    units = len({each.id for each in drawn})
    return f"drawn: {units:,} {'pairs' if pairs else 'rows'} ({told}), {len(drawn):,} responses to label"


def _serve(session: LabelSession, port: int) -> None:
    from demur.http.serve import run_app
    from demur.runs.label_server import label_app

    token = secrets.token_urlsafe(_TOKEN_BYTES)

    def announce(url: str) -> None:
        print(f"label at {url}/{token}/", flush=True)
        print("each label is written at once; Finish on the page, or Ctrl-C here, ends", flush=True)

    # The server ends in good order on the signal that a terminal sends too.
    app = label_app(session, token, finished=lambda: signal.raise_signal(signal.SIGTERM))
    run_app(app, host="127.0.0.1", port=port, started=announce, grace_s=1)


def _label_here(session: LabelSession) -> None:
    """Show one response after the other, and take a line for each."""
    from demur.runs.label_file import LABEL_WORDS

    keys = "  ".join(f"{key} {word}" for key, word in LABEL_WORDS.items()) + "  u undo  q quit"
    while (each := session.next()) is not None:
        print(f"\n{'─' * _WIDTH}\n{session.done + 1:,} of {session.total:,}\n")
        print(f"PROMPT\n{each.prompt or '[the log has no prompt]'}\n\nRESPONSE\n{each.response}\n")
        key = _answer(lambda key: key in LABEL_WORDS or key in ("u", "q"), keys)
        if key == "q":
            return
        if key == "u":
            session.undo()
        else:
            session.label((each.id, str(each.side)), LABEL_WORDS[key])


def _answer(known: Callable[[str], bool], keys: str) -> str:
    """Return a key that is known; the end of the input quits."""
    while True:
        print(f"{keys} > ", end="", flush=True)
        line = sys.stdin.readline()
        key = line.strip().lower()
        if not line:
            return "q"
        if known(key):
            return key


def _summarise(session: LabelSession, runs: list[str]) -> None:
    print(f"{session.done:,} of {session.total:,} responses labelled in {session.path}")
    kappa = session.kappa()
    if kappa is not None:
        print(f"agreement of annotators (Cohen's kappa): {kappa:.2f}")
    command = "diff" if len(runs) > 1 else "scan"
    print(f"next: demur {command} {' '.join(runs)} --labels {session.path}")
