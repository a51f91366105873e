"""`demur policy`: check, test, explain and backtest the rules that decide.

Each step adds its arguments, loads the rules once, and shows one result; the engine is an extra, looked for once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from demur.errors import InputError, JsonError, PolicyError, ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from demur.model.claim import Decision
    from demur.policy.cases import Backtest, RecordedDecision
    from demur.policy.explain import Explanation
    from demur.policy.files import PolicyFiles
    from demur.policy.gate import PolicyGate

__all__ = ["add_parser"]

_WIDTH = 80  # fixed, so that output in logs and in tests is the same everywhere
ABOUT_PATHS = """\
PATH is a .cedar file, a folder of them, or a pack that ships with
Demur: observe-only, block-attacks, strict.
"""


def loaded_gate(args: argparse.Namespace, paths: Iterable[str] | None = None) -> tuple[PolicyGate, PolicyFiles]:
    """Return the gate that a call names, and the files behind it."""
    from demur.policy.files import read_policies
    from demur.policy.gate import load_gate

    files = read_policies(list(paths or args.paths))
    return load_gate(files.sources, default=args.default, vocabulary=args.vocabulary), files


def decision_json(decision: Decision) -> dict[str, object]:
    """Return a decision as JSON writes it."""
    fired = [{"id": r.id, "decision": r.effect.word, "reason": r.reason, "place": r.place} for r in decision.rules]
    return {"decision": decision.effect.word, "fired": fired, "errors": list(decision.errors)}


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    """Return a number and its noun."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def print_wrapped(text: str, indent: str = "  ") -> None:
    """Print a text in lines that fit a terminal."""
    lines = wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    lead = text[: len(text) - len(text.lstrip())]
    print("\n".join(lines) if not lead else "\n".join([lead + lines[0].lstrip(), *lines[1:]]))


def print_json(value: object) -> None:
    """Print one JSON object."""
    print(json.dumps(value, ensure_ascii=False, default=str))


_CHECK_EXAMPLES = f"""\
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


_TEST_EXAMPLES = f"""\
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
    from demur.policy.cases import boundary_results, case_results, rules_never_met
    from demur.policy.files import read_cases, read_policy_file

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


_EXPLAIN_EXAMPLES = f"""\
examples:
  demur policy explain strict --claims '{{"toxic_content": 0.39}}'
  demur policy explain mine.cedar --phase response \\
      --claims '{{"model_refused": true}}'
  demur policy explain mine.cedar --context recorded.json

{ABOUT_PATHS}
exit codes: 0 explained, 2 bad input
"""


def explain_arguments(step: argparse.ArgumentParser) -> None:
    """Add what only this step takes."""
    given = step.add_mutually_exclusive_group(required=True)
    given.add_argument("--claims", metavar="JSON|FILE", help="the claims by name")
    given.add_argument("--context", metavar="JSON|FILE", help="a context as the record holds it")
    step.add_argument("--phase", choices=["request", "response", "artifact", "execution"], default="request")
    step.add_argument("--session", default="", help="the session's id")
    step.add_argument("--model", default="", help="the model's name")
    step.add_argument("--label", action="append", default=[], help="a label of the principal; may stand more than once")


def run_explain(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    from demur.model.claim import Phase
    from demur.policy.explain import explain, rounded_scores
    from demur.policy.files import ask_of
    from demur.policy.rules import nearest

    gate, _ = loaded_gate(args)
    if args.context:
        given = _json_object(args.context, option="--context")
    else:
        claims = _json_object(args.claims, option="--claims")
        given = {"claims": claims, "phase": args.phase, "session": args.session, "model": args.model}
        given["labels"] = args.label
    # A recorded context is evaluated as it is; anything else goes the way of a live request.
    recorded = "action" in given
    ask = None if recorded else ask_of(given)
    context = given if ask is None else gate.context_of(ask)
    rounded = {} if ask is None else rounded_scores(ask.claims, context)
    explained = explain(gate, context)
    read = {name for phase in Phase for names in gate.reads(phase).values() for name in names}
    stated = context.get("claims")
    # A mistyped name would otherwise look like a claim that changes nothing.
    for name in sorted(set(stated if isinstance(stated, dict) else ()) - read):
        near = nearest(name, read)
        hint = f"; did you mean `{near}`?" if near else ""
        print(f"demur: no rule reads the claim `{name}`{hint}", file=sys.stderr)
    if args.json:
        print_json({**_explanation_json(explained, context), "rounded": rounded})
    else:
        _print_explanation(explained)
        for name, (exact, used) in rounded.items():
            print_wrapped(f"note: {name} is {exact}, which was rounded to four digits and decided on as {used}")
    return 0


def _json_object(given: str, *, option: str) -> dict[str, Any]:
    """Return a JSON object that is given literally, or as a file's name."""
    from demur.io.files import read_text

    text = given if given.lstrip().startswith("{") else sys.stdin.read() if given == "-" else read_text(given)
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as exc:
        place = None if text is given else given
        raise JsonError(f"`{option}` is not JSON", source=place, hint='names stand in quotes: {"name": 0.9}') from exc
    if not isinstance(loaded, dict):
        raise ShapeError(f"`{option}` is no JSON object", hint='such as {"toxic_content": 0.9}')
    return loaded


def _explanation_json(explained: Explanation, context: Mapping[str, object]) -> dict[str, object]:
    rules = [
        {
            "id": view.id,
            "decision": view.effect.word,
            "place": view.place,
            "reason": view.reason,
            "fired": view.fired,
            "predicates": [{"text": p.text, "held": p.held, "values": dict(p.values)} for p in view.predicates],
        }
        for view in explained.rules
    ]
    near = [
        {
            "rule": m.rule,
            "threshold": m.threshold,
            "value": float(m.value),
            "gap": float(m.gap),
            "decision": m.effect.word,
        }
        for m in explained.near
    ]
    return {**decision_json(explained.decision), "rules": rules, "near_misses": near, "context": context}


def _print_explanation(explained: Explanation) -> None:
    print(explained.decision.effect.word)
    for error in explained.decision.errors:
        print_wrapped(f"error: {error}")
    listed = {view.id for view in explained.rules}
    for rule in explained.decision.rules:
        if rule.id not in listed:
            print_wrapped(f"fired   {rule.effect.word:6} {rule.id}: {rule.reason}")
    for view in sorted(explained.rules, key=lambda view: not view.fired):
        reason = f": {view.reason}" if view.reason else ""
        print_wrapped(f"{'fired' if view.fired else 'silent':7} {view.effect.word:6} {view.id}{reason} ({view.place})")
        for predicate in view.predicates:
            values = ", ".join(
                f"{name} is {value if value is not None else 'absent'}" for name, value in predicate.values
            )
            line = f"        {'yes' if predicate.held else 'no':3}  {predicate.text}  ({values})"
            print_wrapped(line, indent="        ")
    for miss in explained.near:
        print_wrapped(
            f"near miss: {miss.rule} turns on {miss.threshold}, {miss.gap} away from {miss.value}: {miss.effect.word}"
        )


_MAX_NAMED = 5
_BACKTEST_EXAMPLES = f"""\
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
    from demur.policy.cases import backtest
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


_STEPS = {
    "check": (check_arguments, "are the rules sound: names, types, rules that never fire", _CHECK_EXAMPLES),
    "test": (test_arguments, "do the rules do what fixtures say, at every threshold", _TEST_EXAMPLES),
    "explain": (explain_arguments, "why a decision comes out as it does, and how narrowly", _EXPLAIN_EXAMPLES),
    "backtest": (backtest_arguments, "what would have been decided on recorded contexts", _BACKTEST_EXAMPLES),
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
    from demur.policy.values import SAFETY_VOCABULARY

    args.vocabulary = read_vocabulary(args.vocabulary) if args.vocabulary else SAFETY_VOCABULARY
    return _RUNS[args.step](args)
