"""`demur policy test`: whether the rules do what fixtures say, at every threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.cli.policy.words import ABOUT_PATHS, counted, decision_json, loaded_gate, print_json, print_wrapped

if TYPE_CHECKING:
    import argparse


__all__ = ["EPILOG", "run_test", "test_arguments"]

EPILOG = f"""\
examples:
  demur policy test policies/           with the .yaml files beside them
  demur policy test mine.cedar --fixtures cases.yaml
  demur policy test strict              thresholds alone

a fixture (YAML):
  - name: a clear attack is denied
    phase: request                      # or response, …
    claims: {{toxic_content: 0.9}}
    decision: deny
    fired: [toxic]                      # optional: the rules' ids

Every threshold is also asked at it, 0.0001 to each side, and with the
claim absent.

{ABOUT_PATHS}
exit codes: 0 all as expected, 1 a case is not, 2 bad input
"""


def test_arguments(step: argparse.ArgumentParser) -> None:
    """Add what only this step takes."""
    step.add_argument(
        "--fixtures", metavar="FILE", action="append", default=[], help="cases in YAML; may stand more than once"
    )


def run_test(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    from demur.policy.files import read_cases, read_policy_file
    from demur.policy.fixtures import boundary_results, case_results, rules_never_met

    gate, files = loaded_gate(args)
    given = [case for name in args.fixtures for case in read_cases(read_policy_file(name))]
    results = case_results(gate, [*files.cases(), *given])
    boundaries = boundary_results(gate)
    wrong = [result for result in results if result.why]
    off = [boundary for boundary in boundaries if not boundary.passed]
    # Without any case every rule would be unmet, which says nothing.
    unmet = rules_never_met(gate, results) if results else ()
    if args.json:
        cases = [{"name": r.case.name, "why": r.why, **decision_json(r.decision)} for r in results]
        boundary_rows = [
            {
                "rule": b.rule,
                "threshold": b.threshold,
                "at": None if b.score is None else float(b.score),
                "expected": b.expected,
                "held": b.held,
                "decision": b.decision.word,
            }
            for b in boundaries
        ]
        print_json({"ok": not (wrong or off), "cases": cases, "boundaries": boundary_rows, "never_met": unmet})
        return int(bool(wrong or off))
    for result in wrong:
        print_wrapped(f"failed: {result.case.name}: {result.why}")
    for boundary in off:
        score = "absent" if boundary.score is None else boundary.score
        print_wrapped(f"failed: rule `{boundary.rule}`: {boundary.threshold} at {score}")
    for rule_id in unmet:
        print_wrapped(f"warning: no case makes the rule `{rule_id}` fire")
    print(
        f"{counted(len(results), 'case')}, {len(wrong)} failed; {counted(len(boundaries), 'boundary', 'boundaries')}, "
        f"{len(off)} failed"
    )
    return int(bool(wrong or off))
