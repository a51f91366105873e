"""`demur dashboard`: the pages over a log of passports, served alone."""

from __future__ import annotations

import argparse
import os
import secrets
from typing import TYPE_CHECKING

from demur.cli.options import port_number
from demur.errors import UsageError

if TYPE_CHECKING:
    from demur.record.replay import Replay

__all__ = ["add_parser", "login_token"]

_EXAMPLES = """\
examples:
  demur dashboard --store passports/
  demur dashboard --store passports/ --port 0 --policy policies/
  demur dashboard --store postgresql://… --folder passports/ --texts
  TOKEN=… demur dashboard --store passports/ --token-env TOKEN

The token is made anew at every start and printed with the address, unless
--token-env names a variable that holds one. The log is opened to be read;
a gateway may write to it meanwhile. Texts are shown only with --texts, and
only where the gateway kept them.

Ends in good order on Ctrl-C and SIGTERM.

exit codes: 0 ended as told, 2 bad input or an address in use
"""

_TOKEN_BYTES = 24
_MIN_TOKEN_CHARS = 16
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "dashboard",
        help="look at what was recorded, in a browser",
        description="Serves pages over a log of passports: rates over time, sessions, single\nexchanges, comparisons, policies and health.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = command.add_argument
    add("--store", metavar="STORE", required=True, help="the folder that a gateway writes to, or a database")
    add("--folder", metavar="DIR", help="where keys and checkpoints are, if not in STORE")
    add("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    add("--port", type=port_number, default=8090, help="the port; 0 is any free one (8090)")
    add("--token-env", metavar="NAME", help="the environment variable that holds the token")
    add("--no-token", action="store_true", help="ask for no token; on loopback alone")
    add("--texts", action="store_true", help="show the texts that the gateway kept")
    add("--policy", metavar="PATH", action="append", default=[], help="a policy set to replay decisions with")
    add("--default", choices=["allow", "deny"], default="allow", help="what held where no rule fired (allow)")
    add("--vocabulary", metavar="FILE", help="which claims there were, as JSON")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    # Whoever reaches the port could read the log.
    if args.no_token and args.host not in _LOOPBACK:
        hint = "listen at 127.0.0.1, or leave --no-token out"
        raise UsageError(f"without a token, not at `{args.host}`", hint=hint)
    token = None if args.no_token else login_token(args.token_env)

    def announce(url: str) -> None:
        # What follows the # never leaves the browser; the login page takes it from there.
        print(f"dashboard at {url}/-/" + ("" if token is None else f"login#{token}"), flush=True)

    try:
        from demur.dashboard.app import DashboardSettings, serve_dashboard
        from demur.record.store.location import log_place

        place = log_place(args.store, args.folder)
        # A store that cannot be read is told now, not by the first page.
        place.open(read_only=True).close()
        replays: dict[str, Replay] = {}
        if args.policy:
            # Only here: the policy engine is slow to load, and most dashboards replay nothing.
            from demur.policy.files import read_policies, read_vocabulary
            from demur.policy.gate import load_gate
            from demur.policy.values import SAFETY_VOCABULARY

            vocabulary = read_vocabulary(args.vocabulary) if args.vocabulary else SAFETY_VOCABULARY
            # Every --policy is a set of its own: a log may hold decisions of several, told apart by their digests.
            for name in args.policy:
                gate = load_gate(read_policies([name]).sources, default=args.default, vocabulary=vocabulary)
                replays[gate.digest] = gate.replay
        settings = DashboardSettings(token, texts=args.texts, replays=replays)
        serve_dashboard(place, settings, host=args.host, port=args.port, started=announce)
    except ModuleNotFoundError as exc:
        raise UsageError(f"the dashboard needs `{exc.name}`", hint="pip install 'demur[gateway]'") from exc
    return 0


def login_token(variable: str | None) -> str:
    """Return the token that a variable holds, or a new one where none is named."""
    if not variable:
        return secrets.token_urlsafe(_TOKEN_BYTES)
    token = os.environ.get(variable, "").strip()
    if len(token) < _MIN_TOKEN_CHARS:
        raise UsageError(f"`{variable}` holds no token", hint=f"set it to at least {_MIN_TOKEN_CHARS} characters")
    return token
