"""`demur policy`: check, test, explain and backtest the rules that decide."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from demur.errors import InputError, JsonError, PolicyError, ShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from demur.adapters.policies import PolicyFiles
    from demur.model.claim import Vocabulary
    from demur.model.decision import Decision
    from demur.policy.backtest import Backtest
    from demur.policy.explain import Explanation, PredicateView
    from demur.policy.gate import PolicyGate

__all__ = ["add_parser"]

_WIDTH = 80
_MOST_NAMED = 5
_ABOUT_PATHS = """\
PATH is a .cedar file, a folder of them, or a pack that ships with
Demur: observe-only, block-attacks, strict.
"""
_CHECK = f"""\
examples:
  demur policy check policies/          every .cedar file in a folder
  demur policy check strict --json      a pack, for machines
  demur policy check mine.cedar --vocabulary vocabulary.json

{_ABOUT_PATHS}
exit codes: 0 sound, 1 problems (warnings too with --strict),
2 a policy cannot be read
"""
_TEST = f"""\
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

{_ABOUT_PATHS}
exit codes: 0 all as expected, 1 a case is not, 2 bad input
"""
_EXPLAIN = f"""\
examples:
  demur policy explain strict --claims '{{"toxic_content": 0.39}}'
  demur policy explain mine.cedar --phase response \\
      --claims '{{"model_refused": true}}'
  demur policy explain mine.cedar --context recorded.json

{_ABOUT_PATHS}
exit codes: 0 explained, 2 bad input
"""
_BACKTEST = f"""\
examples:
  demur policy backtest strict --records passports.jsonl
  demur policy backtest new/ --records rows.jsonl --baseline old/
  demur policy backtest strict --records - --json

a record (one a line): {{"context": …, "decision": "deny"}}, where the
context is a recorded one or {{"phase": …, "claims": {{…}}}}; or an
exported passport.

{_ABOUT_PATHS}
exit codes: 0 done, 1 a decision changes and --fail-on-change is given,
2 bad input (what could be read is still counted)
"""


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
    _add_step(steps, "check", "are the rules sound: names, types, rules that never fire", _CHECK).add_argument(
        "--strict", action="store_true", help="exit 1 on warnings too"
    )
    _add_step(steps, "test", "do the rules do what fixtures say, at every threshold", _TEST).add_argument(
        "--fixtures", metavar="FILE", action="append", default=[], help="cases in YAML; may stand more than once"
    )
    _explain_arguments(_add_step(steps, "explain", "why a decision comes out as it does, and how narrowly", _EXPLAIN))
    back = _add_step(steps, "backtest", "what would have been decided on recorded contexts", _BACKTEST)
    back.add_argument("--records", metavar="FILE", action="append", required=True, help="JSON lines, - for stdin")
    back.add_argument("--baseline", metavar="PATH", action="append", default=[], help="compare with this set instead")
    back.add_argument("--fail-on-change", action="store_true", help="exit 1 where any decision changes")


def _add_step(
    steps: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str, epilog: str
) -> argparse.ArgumentParser:
    step = steps.add_parser(
        name,
        help=about,
        description=f"Asks: {about}?",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    step.add_argument("paths", nargs="+", metavar="PATH", help="a file, a folder, or a pack's name")
    step.add_argument("--default", choices=["allow", "deny"], default="allow", help="what holds where no rule fires")
    step.add_argument("--vocabulary", metavar="FILE", help="which claims there are, as JSON (the safety auditor's)")
    step.add_argument("--json", action="store_true", help="one JSON object")
    step.set_defaults(run=run)
    return step


def _explain_arguments(step: argparse.ArgumentParser) -> None:
    given = step.add_mutually_exclusive_group(required=True)
    given.add_argument("--claims", metavar="JSON|FILE", help="the claims by name")
    given.add_argument("--context", metavar="JSON|FILE", help="a context as the record holds it")
    step.add_argument("--phase", choices=["request", "response", "artifact", "execution"], default="request")
    step.add_argument("--session", default="", help="the session's id")
    step.add_argument("--model", default="", help="the model's name")
    step.add_argument("--label", action="append", default=[], help="a label of the principal; may stand more than once")


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    try:
        import cedarpy  # noqa: F401 — the extra is looked for once, here
    except ModuleNotFoundError as exc:
        raise UsageError("policies need the Cedar engine", hint="pip install 'demur[gateway]'") from exc
    # Read once: what stands behind the name may be a pipe.
    args.vocabulary = _vocabulary(args.vocabulary)
    steps = {"check": _check_policies, "test": _test, "explain": _explain, "backtest": _backtest}
    return steps[args.step](args)


def _vocabulary(name: str | None) -> Vocabulary:
    from demur.adapters.policies import read_vocabulary
    from demur.policy.vocabulary import SAFETY_VOCABULARY

    return read_vocabulary(name) if name else SAFETY_VOCABULARY


def _loaded(args: argparse.Namespace, paths: Iterable[str] | None = None) -> tuple[PolicyGate, PolicyFiles]:
    from demur.adapters.policies import read_policies
    from demur.policy.gate import load_gate

    files = read_policies(list(paths or args.paths))
    return load_gate(files.sources, default=args.default, vocabulary=args.vocabulary), files


def _check_policies(args: argparse.Namespace) -> int:
    from demur.policy.lint import ProblemKind, problems_of

    try:
        gate, _ = _loaded(args)
    except PolicyError as exc:
        if not args.json:
            raise
        place = {"source": exc.source, "line": exc.line, "column": exc.column}
        _print_json({"ok": False, "error": {"what": exc.what, "hint": exc.hint, **place}})
        return 2
    problems = problems_of(gate, args.vocabulary)
    errors = sum(problem.severity is ProblemKind.ERROR for problem in problems)
    failed = bool(errors or (args.strict and problems))
    if args.json:
        rows = [
            {"severity": p.severity, "rule": p.rule, "place": p.place, "what": p.what, "hint": p.hint} for p in problems
        ]
        _print_json({"ok": not failed, "digest": gate.digest, "rules": _rules(gate), "problems": rows})
        return int(failed)
    _print_wrapped(_summary_of_rules(gate))
    for problem in problems:
        _print_wrapped(str(problem))
    print(f"{_counted(errors, 'error')}, {_counted(len(problems) - errors, 'warning')}")
    return int(failed)


def _summary_of_rules(gate: PolicyGate) -> str:
    kinds = Counter(rule.effect for rule in gate.rules)
    parts = ", ".join(f"{kinds[effect]} {effect.word}" for effect in sorted(kinds, reverse=True))
    return f"{_counted(len(gate.rules), 'rule')} ({parts}), default {gate.default}, digest {gate.digest[:12]}"


def _rules(gate: PolicyGate) -> list[dict[str, object]]:
    return [
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


def _test(args: argparse.Namespace) -> int:
    from demur.adapters.policies import read_cases, read_policy_file
    from demur.policy.fixtures import boundary_results, case_results, rules_never_met

    gate, files = _loaded(args)
    given = [case for name in args.fixtures for case in read_cases(read_policy_file(name))]
    results = case_results(gate, [*files.cases(), *given])
    boundaries = boundary_results(gate)
    wrong = [result for result in results if result.why]
    off = [boundary for boundary in boundaries if not boundary.passed]
    unmet = rules_never_met(gate, results) if results else ()
    if args.json:
        cases = [{"name": r.case.name, "why": r.why, **_decided(r.decision)} for r in results]
        _print_json(
            {"ok": not (wrong or off), "cases": cases, "boundaries": _boundary_rows(boundaries), "never_met": unmet}
        )
        return int(bool(wrong or off))
    for result in wrong:
        _print_wrapped(f"failed: {result.case.name}: {result.why}")
    for boundary in off:
        _print_wrapped(f"failed: rule `{boundary.rule}`: {boundary.threshold} at {_shown_score(boundary.score)}")
    for rule_id in unmet:
        _print_wrapped(f"warning: no case makes the rule `{rule_id}` fire")
    print(
        f"{_counted(len(results), 'case')}, {len(wrong)} failed; {_counted(len(boundaries), 'boundary', 'boundaries')}, "
        f"{len(off)} failed"
    )
    return int(bool(wrong or off))


def _boundary_rows(boundaries: Iterable[Any]) -> list[dict[str, object]]:
    return [
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


def _explain(args: argparse.Namespace) -> int:
    from demur.adapters.policies import ask_of
    from demur.policy.explain import explain, rounded_scores

    gate, _ = _loaded(args)
    if args.context:
        given = _json_object(args.context, option="--context")
    else:
        claims = _json_object(args.claims, option="--claims")
        given = {"claims": claims, "phase": args.phase, "session": args.session, "model": args.model}
        given["labels"] = args.label
    recorded = "action" in given
    asked = None if recorded else ask_of(given)
    context = given if asked is None else gate.context_of(asked)
    rounded = {} if asked is None else rounded_scores(asked.claims, context)
    explained = explain(gate, context)
    _name_unread(gate, context)
    if args.json:
        _print_json({**_explained(explained, context), "rounded": rounded})
    else:
        _show_explanation(explained)
        for name, (said, read) in rounded.items():
            _print_wrapped(f"note: {name} is {said}, which was rounded to four digits and decided on as {read}")
    return 0


def _name_unread(gate: PolicyGate, context: Mapping[str, object]) -> None:
    """Say which claims no rule reads: a mistyped one would pass for a harmless one."""
    from demur.model.claim import Phase
    from demur.policy.rules import nearest

    read = {name for phase in Phase for names in gate.reads(phase).values() for name in names}
    claims = context.get("claims")
    for name in sorted(set(claims if isinstance(claims, dict) else ()) - read):
        near = nearest(name, read)
        hint = f"; did you mean `{near}`?" if near else ""
        print(f"demur: no rule reads the claim `{name}`{hint}", file=sys.stderr)


def _json_object(given: str, *, option: str) -> dict[str, Any]:
    """Return a JSON object that is given as it is, or as a file's name."""
    from demur.adapters.files import read_text

    text = given if given.lstrip().startswith("{") else sys.stdin.read() if given == "-" else read_text(given)
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as exc:
        place = None if text is given else given
        raise JsonError(f"`{option}` is not JSON", source=place, hint='names stand in quotes: {"name": 0.9}') from exc
    if not isinstance(loaded, dict):
        raise ShapeError(f"`{option}` is no JSON object", hint='such as {"toxic_content": 0.9}')
    return loaded


def _explained(explained: Explanation, context: Mapping[str, object]) -> dict[str, object]:
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
    return {**_decided(explained.decision), "rules": rules, "near_misses": near, "context": context}


def _decided(decision: Decision) -> dict[str, object]:
    fired = [{"id": r.id, "decision": r.effect.word, "reason": r.reason, "place": r.place} for r in decision.rules]
    return {"decision": decision.effect.word, "fired": fired, "errors": list(decision.errors)}


def _show_explanation(explained: Explanation) -> None:
    print(explained.decision.effect.word)
    for error in explained.decision.errors:
        _print_wrapped(f"error: {error}")
    listed = {view.id for view in explained.rules}
    for rule in explained.decision.rules:
        if rule.id not in listed:
            _print_wrapped(f"fired   {rule.effect.word:6} {rule.id}: {rule.reason}")
    for view in sorted(explained.rules, key=lambda view: not view.fired):
        reason = f": {view.reason}" if view.reason else ""
        _print_wrapped(f"{'fired' if view.fired else 'silent':7} {view.effect.word:6} {view.id}{reason} ({view.place})")
        for predicate in view.predicates:
            _print_wrapped(_predicate_line(predicate), indent="        ")
    for miss in explained.near:
        _print_wrapped(
            f"near miss: {miss.rule} turns on {miss.threshold}, {miss.gap} away from {miss.value}: {miss.effect.word}"
        )


def _predicate_line(view: PredicateView) -> str:
    values = ", ".join(f"{name} is {value if value is not None else 'absent'}" for name, value in view.values)
    return f"        {'yes' if view.held else 'no':3}  {view.text}  ({values})"


def _backtest(args: argparse.Namespace) -> int:
    from demur.adapters.policies import read_recorded
    from demur.policy.backtest import backtest

    gate, _ = _loaded(args)
    baseline = _loaded(args, args.baseline)[0] if args.baseline else None
    bad: list[InputError] = []
    found = backtest(
        gate, _sound_rows((row for name in args.records for row in read_recorded(name, gate)), bad), baseline=baseline
    )
    for error in bad[:_MOST_NAMED]:
        print(f"demur: {error}", file=sys.stderr)
    if len(bad) > _MOST_NAMED:
        print(f"demur: … and {len(bad) - _MOST_NAMED:,} more that could not be read", file=sys.stderr)
    if not found.total:
        raise InputError("no recorded context to decide on", hint="see `demur policy backtest --help`")
    if args.json:
        _print_json(_tested(found, unread=len(bad)))
    else:
        _show_backtest(found)
    if bad:
        return 2
    return int(bool(args.fail_on_change and found.changed))


def _sound_rows(rows: Iterable[Any], bad: list[InputError]) -> Iterable[Any]:
    """Yield the records, and keep aside the errors that stand in place of some."""
    for row in rows:
        if isinstance(row, InputError):
            bad.append(row)
        else:
            yield row


def _tested(found: Backtest, *, unread: int) -> dict[str, object]:
    changes = [{"before": b.word, "after": a.word, "count": n} for (b, a), n in sorted(found.changes.items())]
    examples = [{"place": e.place, "before": e.before.word, **_decided(e.after)} for e in found.examples]
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


def _show_backtest(found: Backtest) -> None:
    print(f"{_counted(found.total, 'record')}: {found.changed:,} changed, {found.unchanged:,} unchanged", end="")
    print(f", {found.undecided:,} without a recorded decision" if found.undecided else "")
    if found.errors:
        print(f"{found.errors:,} with errors")
    print("now: " + ", ".join(f"{found.after[effect]:,} {effect.word}" for effect in sorted(found.after, reverse=True)))
    for (before, after), count in sorted(found.changes.items(), key=lambda item: -item[1]):
        print(f"{before.word} → {after.word}: {count:,}")
        for example in found.examples:
            if (example.before, example.after.effect) == (before, after):
                rules = ", ".join(rule.id for rule in example.after.rules) or "no rule"
                _print_wrapped(f"  {example.place}: {rules}", indent="    ")


def _counted(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def _shown_score(score: object) -> str:
    return "absent" if score is None else str(score)


def _print_wrapped(text: str, indent: str = "  ") -> None:
    lines = wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    lead = text[: len(text) - len(text.lstrip())]
    print("\n".join(lines) if not lead else "\n".join([lead + lines[0].lstrip(), *lines[1:]]))


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, default=str))
