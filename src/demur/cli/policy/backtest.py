"""`demur policy backtest`: what a policy set would have decided on recorded contexts."""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING

from demur.cli.policy.words import ABOUT_PATHS, counted, decision_json, loaded_gate, print_json, print_wrapped
from demur.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from demur.policy.backtest import Backtest, RecordedDecision

__all__ = ["EPILOG", "backtest_arguments", "run_backtest"]

_MAX_NAMED = 5
EPILOG = f"""\
examples:
  demur policy backtest strict --records passports.jsonl
  demur policy backtest new/ --records rows.jsonl --baseline old/
  demur policy backtest strict --records - --json

a record (one a line): {{"context": …, "decision": "deny"}}, where the
context is a recorded one or {{"phase": …, "claims": {{…}}}}; or an
exported passport.

{ABOUT_PATHS}
exit codes: 0 done, 1 a decision changes and --fail-on-change is given,
2 bad input (what could be read is still counted)
"""


def backtest_arguments(step: argparse.ArgumentParser) -> None:
    """Add what only this step takes."""
    step.add_argument("--records", metavar="FILE", action="append", required=True, help="JSON lines, - for stdin")
    step.add_argument("--baseline", metavar="PATH", action="append", default=[], help="compare with this set instead")
    step.add_argument("--fail-on-change", action="store_true", help="exit 1 where any decision changes")


def run_backtest(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    from demur.policy.backtest import backtest
    from demur.policy.files import read_recorded

    gate, _ = loaded_gate(args)
    baseline = loaded_gate(args, args.baseline)[0] if args.baseline else None
    bad: list[InputError] = []

    def readable() -> Iterator[RecordedDecision]:
        # A broken line is reported at the end; the others are still counted.
        for row in chain.from_iterable(read_recorded(name, gate) for name in args.records):
            if isinstance(row, InputError):
                bad.append(row)
            else:
                yield row

    found = backtest(gate, readable(), baseline=baseline)
    for error in bad[:_MAX_NAMED]:
        print(f"demur: {error}", file=sys.stderr)
    if len(bad) > _MAX_NAMED:
        print(f"demur: … and {len(bad) - _MAX_NAMED:,} more that could not be read", file=sys.stderr)
    # An empty backtest must not look like one in which nothing changed.
    if not found.total:
        raise InputError("no recorded context to decide on", hint="see `demur policy backtest --help`")
    if args.json:
        print_json(_backtest_json(found, unread=len(bad)))
    else:
        _print_backtest(found)
    if bad:
        return 2
    return int(bool(args.fail_on_change and found.changed))


def _backtest_json(found: Backtest, *, unread: int) -> dict[str, object]:
    changes = [{"before": b.word, "after": a.word, "count": n} for (b, a), n in sorted(found.changes.items())]
    examples = [{"place": e.place, "before": e.before.word, **decision_json(e.after)} for e in found.examples]
    return {
        "records": found.total,
        "unread": unread,
        "unchanged": found.unchanged,
        "changed": found.changed,
        "without_decision": found.undecided,
        "with_errors": found.errors,
        "decisions": {effect.word: count for effect, count in sorted(found.after.items())},
        "changes": changes,
        "fired": dict(sorted(found.fired.items())),
        "examples": examples,
    }


def _print_backtest(found: Backtest) -> None:
    print(f"{counted(found.total, 'record')}: {found.changed:,} changed, {found.unchanged:,} unchanged", end="")
    print(f", {found.undecided:,} without a recorded decision" if found.undecided else "")
    if found.errors:
        print(f"{found.errors:,} with errors")
    print("now: " + ", ".join(f"{found.after[effect]:,} {effect.word}" for effect in sorted(found.after, reverse=True)))
    for (before, after), count in sorted(found.changes.items(), key=lambda item: -item[1]):
        print(f"{before.word} → {after.word}: {count:,}")
        for example in found.examples:
            if (example.before, example.after.effect) == (before, after):
                rules = ", ".join(rule.id for rule in example.after.rules) or "no rule"
                print_wrapped(f"  {example.place}: {rules}", indent="    ")
