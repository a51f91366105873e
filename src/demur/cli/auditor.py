"""`demur auditor`: serve an auditor over HTTP."""

from __future__ import annotations

import argparse

from demur.cli.options import port_number
from demur.errors import UsageError

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur auditor safety-checker                Lucid's five claims
  demur auditor refusal-detector --port 8086  finer ones
  demur auditor mine.py:MyAuditor --port 0    your own, any free port
  curl -s localhost:8085/vocabulary           what it can state

AUDITOR is safety-checker, refusal-detector, or a class derived from
demur.auditing.ClaimsAuditor, as module:Class or file.py:Class.

Ends in good order on Ctrl-C and SIGTERM. No text is ever logged.

exit codes: 0 ended as told, 2 bad input or an address in use
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "auditor",
        help="serve an auditor",
        description="Serves an auditor over HTTP: POST /claims, GET /health, GET /vocabulary.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("auditor", metavar="AUDITOR", help="a name of ours, module:Class, or file.py:Class")
    command.add_argument(
        "--port", type=port_number, help="the port; 0 is any free one (8085, or as auditors.yaml here says)"
    )
    command.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    command.add_argument(
        "--max-bytes", type=_body_size, default=None, metavar="N", help="the longest body that is read (16777216)"
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    from demur.audit.chains import auditor_named
    from demur.audit.config import port_of_auditor

    # Before the server's packages are imported: a mistyped name is told without them.
    auditor = auditor_named(args.auditor)
    try:
        from demur.audit.server import serve_auditor

        serve_auditor(
            auditor,
            host=args.host,
            port=port_of_auditor(auditor.auditor_id) if args.port is None else args.port,
            limit=args.max_bytes,
            # Flushed, since whoever started it may be reading the line from a pipe to learn the port.
            started=lambda url: print(f"{args.auditor} listens at {url}", flush=True),
        )
    except ModuleNotFoundError as exc:
        raise UsageError(f"serving needs `{exc.name}`", hint="pip install 'demur[gateway]'") from exc
    return 0


def _body_size(given: str) -> int:
    if not given.isdecimal() or int(given) == 0:
        raise argparse.ArgumentTypeError(f"`{given}` is no number of bytes")
    return int(given)
