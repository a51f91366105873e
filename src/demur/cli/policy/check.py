"""`demur policy check`: whether the rules are valid."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from demur.cli.policy.words import ABOUT_PATHS, counted, loaded_gate, print_json, print_wrapped
from demur.errors import PolicyError

if TYPE_CHECKING:
    import argparse


__all__ = ["EPILOG", "check_arguments", "run_check"]

EPILOG = f"""\
examples:
  demur policy check policies/          every .cedar file in a folder
  demur policy check strict --json      a pack, for machines
  demur policy check mine.cedar --vocabulary vocabulary.json

{ABOUT_PATHS}
exit codes: 0 sound, 1 problems (warnings too with --strict),
2 a policy cannot be read
"""


def check_arguments(step: argparse.ArgumentParser) -> None:
    """Add what only this step takes."""
    step.add_argument("--strict", action="store_true", help="exit 1 on warnings too")


def run_check(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    from demur.policy.lint import ProblemKind, problems_of

    try:
        gate, _ = loaded_gate(args)
    except PolicyError as exc:
        # With --json even a policy that cannot be read is one JSON object, for editors and CI.
        if not args.json:
            raise
        place = {"source": exc.source, "line": exc.line, "column": exc.column}
        print_json({"ok": False, "error": {"what": exc.what, "hint": exc.hint, **place}})
        return 2
    problems = problems_of(gate, args.vocabulary)
    errors = sum(problem.severity is ProblemKind.ERROR for problem in problems)
    failed = bool(errors or (args.strict and problems))
    if args.json:
        rows = [
            {"severity": p.severity, "rule": p.rule, "place": p.place, "what": p.what, "hint": p.hint} for p in problems
        ]
        rules = [
            {
                "id": rule.id,
                "decision": rule.effect.word,
                "place": rule.place,
                "reason": rule.reason,
                "reads": sorted(rule.reads),
                "phases": sorted(rule.phases),
            }
            for rule in gate.rules
        ]
        print_json({"ok": not failed, "digest": gate.digest, "rules": rules, "problems": rows})
        return int(failed)
    kinds = Counter(rule.effect for rule in gate.rules)
    parts = ", ".join(f"{kinds[effect]} {effect.word}" for effect in sorted(kinds, reverse=True))
    print_wrapped(f"{counted(len(gate.rules), 'rule')} ({parts}), default {gate.default}, digest {gate.digest[:12]}")
    for problem in problems:
        print_wrapped(str(problem))
    print(f"{counted(errors, 'error')}, {counted(len(problems) - errors, 'warning')}")
    return int(failed)
