"""`demur policy explain`: why a decision comes out as it does, and how narrowly."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from demur.cli.policy.words import ABOUT_PATHS, decision_json, loaded_gate, print_json, print_wrapped
from demur.errors import JsonError, ShapeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from demur.policy.explain import Explanation

__all__ = ["EPILOG", "explain_arguments", "run_explain"]

EPILOG = f"""\
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
