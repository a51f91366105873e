"""`demur`: parses the command line, runs one command, turns errors into one line and an exit code.

Exit codes: 0 done, 1 a condition that the user asked to fail on holds, 2 bad input or usage, 70 a fault of ours,
3 inconclusive (where a command says so), 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from demur._version import __version__
from demur.errors import DemurError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "parser"]

EXIT_BAD_INPUT = 2
EXIT_OUR_FAULT = 70
EXIT_INTERRUPTED = 130
_EXAMPLES = """\
examples:
  demur check "I'm sorry, but I can't help with that."
  demur scan responses.jsonl --by model
  demur diff baseline.jsonl candidate.jsonl
  demur watch app.jsonl --expect 5%
"""
_COMMANDS = (
    "check",
    "scan",
    "diff",
    "plan",
    "watch",
    "label",
    "simulate",
    "auditor",
    "policy",
    "gateway",
    "passport",
    "dashboard",
    "tour",
    "export",
    "evaluate",
)


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a call, and where to look."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line, or of `only` one command: the others need not be loaded then."""
    top = _Parser(
        prog="demur",
        description="Tells you when a language model says no, whether it should have,\nand whether that changed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"demur {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name in _COMMANDS if only is None else (only,):
        import_module(f"demur.cli.{name}").add_parser(commands)
    return top


def _handle_signals() -> None:
    """Exit in an orderly way on SIGTERM and SIGHUP; servers replace these handlers by their own."""

    def exit_by_signal(number: int, _frame: object) -> NoReturn:
        # An exception runs every `with` on the stack, so that no process and no temporary folder is left behind.
        raise SystemExit(128 + number)

    # Python allows signal handlers in the main thread only.
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # Windows has no SIGHUP; under `nohup` it is ignored and must stay so.
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, exit_by_signal)


def _parse(given: list[str]) -> argparse.Namespace:
    """Return the parsed call; print the help without a command, and an unknown option with that of its command."""
    if not given:
        parser().print_help()
        raise SystemExit(EXIT_BAD_INPUT)
    # Only the module of the command at hand is imported: most of the time of a short call is imports.
    args, unknown = parser(given[0] if given[0] in _COMMANDS else None).parse_known_args(given)
    if unknown:
        print(
            f"demur {args.command}: `{unknown[0]}` is not known here; see `demur {args.command} --help`",
            file=sys.stderr,
        )
        raise SystemExit(EXIT_BAD_INPUT)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of one call."""
    # Printing must never fail: a closed output is discarded, and a narrow encoding shows what it can.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 — lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    _handle_signals()
    given = list(sys.argv[1:] if argv is None else argv)
    args = _parse(given)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except DemurError as exc:
        print(f"demur: {exc}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BrokenPipeError:
        # The reader of our output went away (`| head`): point stdout elsewhere so that closing it stays silent.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as exc:
        print(f"demur: cannot write the output: {(exc.strerror or 'it is closed').lower()}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as exc:
        # The outermost layer: a fault of ours is one line, never a traceback.
        if os.environ.get("DEMUR_DEBUG"):
            raise
        print(f"demur: a fault of our own ({type(exc).__name__}); set DEMUR_DEBUG=1 for the details", file=sys.stderr)
        return EXIT_OUR_FAULT
    return code
