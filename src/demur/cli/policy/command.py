"""`demur policy`: check, test, explain and backtest the rules that decide; one file per step."""

from __future__ import annotations

import argparse

from demur.cli.policy import backtest as policy_backtest
from demur.cli.policy import check as policy_check
from demur.cli.policy import explain as policy_explain
from demur.cli.policy import test as policy_test
from demur.cli.policy.backtest import backtest_arguments, run_backtest
from demur.cli.policy.check import check_arguments, run_check
from demur.cli.policy.explain import explain_arguments, run_explain
from demur.cli.policy.test import run_test, test_arguments
from demur.errors import UsageError

__all__ = ["add_parser"]

_STEPS = {
    "check": (check_arguments, "are the rules sound: names, types, rules that never fire", policy_check.EPILOG),
    "test": (test_arguments, "do the rules do what fixtures say, at every threshold", policy_test.EPILOG),
    "explain": (explain_arguments, "why a decision comes out as it does, and how narrowly", policy_explain.EPILOG),
    "backtest": (backtest_arguments, "what would have been decided on recorded contexts", policy_backtest.EPILOG),
}
_RUNS = {"check": run_check, "test": run_test, "explain": run_explain, "backtest": run_backtest}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "policy",
        help="check, test, explain or backtest policies",
        description="Checks, tests, explains and backtests the Cedar rules that decide over claims.",
        epilog="examples:\n  demur policy check policies/\n  demur policy test policies/ --fixtures cases.yaml\n"
        "  demur policy explain strict --claims '{\"toxic_content\": 0.39}'\n"
        "  demur policy backtest strict --records passports.jsonl",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    steps = command.add_subparsers(dest="step", metavar="STEP", required=True)
    for name, (add_arguments, about, epilog) in _STEPS.items():
        step = steps.add_parser(
            name,
            help=about,
            description=f"Asks: {about}?",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        step.add_argument("paths", nargs="+", metavar="PATH", help="a file, a folder, or a pack's name")
        step.add_argument(
            "--default", choices=["allow", "deny"], default="allow", help="what holds where no rule fires"
        )
        step.add_argument("--vocabulary", metavar="FILE", help="which claims there are, as JSON (the safety auditor's)")
        step.add_argument("--json", action="store_true", help="one JSON object")
        step.set_defaults(run=run)
        add_arguments(step)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    try:
        import cedarpy  # noqa: F401 — the extra is looked for once, here
    except ModuleNotFoundError as exc:
        raise UsageError("policies need the Cedar engine", hint="pip install 'demur[gateway]'") from exc
    # Read once: the name may be that of a pipe.
    from demur.policy.files import read_vocabulary
    from demur.policy.vocabulary import SAFETY_VOCABULARY

    args.vocabulary = read_vocabulary(args.vocabulary) if args.vocabulary else SAFETY_VOCABULARY
    return _RUNS[args.step](args)
