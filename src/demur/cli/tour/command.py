"""`demur tour`: everything that Demur does, on this machine, in a minute."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from demur.cli.options import whole_number
from demur.cli.passport.words import print_object
from demur.cli.tour.processes import Processes
from demur.cli.tour.screen import TourScreen
from demur.cli.tour.script import made_folder
from demur.errors import UsageError

if TYPE_CHECKING:
    from demur.cli.tour.script import TourFolder

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur tour                     into demur-tour/, or demur-tour-2/, …
  demur tour --out first-look    into a folder of your own, new or empty
  demur tour --stay              and look around in the dashboard afterwards
  demur tour --json              what came of it, for machines

A simulated model and a gateway are started on free ports of this machine, asked
by OpenAI's own client, and ended again. Nothing leaves the machine, no key is
needed, and only the folder is written to. docs/tour.md explains every step.

exit codes: 0 everything came out as it should, 1 something did not, 2 it could
not be done, 130 interrupted
"""
_NEEDED = ("openai", "cedarpy", "cryptography", "httptools", "uvicorn", "yaml")
_PORTS = 65_536


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "tour",
        help="all of it on this machine in a minute",
        description="Shows what Demur does: a model that refuses, a gateway that decides and records,\na diff with its gate, and a record that does not survive one flipped bit.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("--out", metavar="DIR", help="a new or empty folder for everything (demur-tour)")
    command.add_argument("--stay", action="store_true", help="leave gateway and dashboard up until Ctrl-C")
    command.add_argument("--port", metavar="N", type=whole_number, default=0, help="the gateway's port (any free one)")
    command.add_argument("--json", action="store_true", help="print one JSON object in place of the tour")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    if args.port >= _PORTS:
        raise UsageError(f"`{args.port}` is no port", hint="give one below 65536, or none for any free one")
    screen = TourScreen(quiet=args.json)
    try:
        _load_extras(screen)
        folder = made_folder(args.out)
        try:
            return _walk_through(screen, folder, args)
        except (KeyboardInterrupt, SystemExit):
            screen.done()
            print(f"demur: stopped; nothing runs on, and `{folder.root}` stays as far as it came", file=sys.stderr)
            raise
    finally:
        screen.done()


def _load_extras(screen: TourScreen) -> None:
    """Load what the extra brings, or raise, before anything is made."""
    screen.loading("loading OpenAI's client")
    missing = next((name for name in _NEEDED if find_spec(name) is None), None)
    if missing is None:
        try:
            import_module("demur.cli.tour.talk")
        except ModuleNotFoundError as exc:
            missing = exc.name
    if missing is not None:
        raise UsageError(f"the tour needs `{missing}`", hint="pip install 'demur[tour]'")


def _walk_through(screen: TourScreen, folder: TourFolder, args: argparse.Namespace) -> int:
    from demur.cli.tour import steps
    from demur.cli.tour.result import TourResult, dashboard_words, goodbye

    began = time.monotonic()
    with Processes(screen.waiting) as processes:
        stage = steps.Stage(screen, folder, processes)
        screen.note(f"Demur in a minute. All of it runs on this machine; all that it makes goes into {folder.root}/.")
        simulator, gateway = steps.start(stage, port=args.port)
        said = steps.talk(stage, gateway)
        compared = steps.compare_runs(stage, gateway)
        checked = steps.check_passports(stage, gateway, said)
        result = TourResult(folder, said, compared, checked, seconds=time.monotonic() - began)
        goodbye(screen, result)
        if args.stay:
            gateway = steps.start_gateway(stage, simulator, port=args.port)
            result = replace(result, gateway=gateway.url, dashboard=gateway.dashboard)
            dashboard_words(screen, result)
        if args.json:
            print_object(result.as_object())
        if args.stay:
            _stay(processes)
        return 0 if result.ok else 1


def _stay(processes: Processes) -> None:
    """Wait for somebody to say that it is enough; that is a good end."""
    sys.stdout.flush()
    with suppress(KeyboardInterrupt, SystemExit):
        processes.wait()
