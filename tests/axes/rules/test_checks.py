"""Each rule is kept or broken where it should be, and names the exchange."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demur.axes.rules.checks import RuleOutcome, check_rule
from demur.axes.rules.files import parse_rules
from demur.axes.steps import Step, ToolCall, folded

KEPT, BROKEN, NOT = RuleOutcome.KEPT, RuleOutcome.BROKEN, RuleOutcome.NOT_APPLICABLE


def step(
    text: str = "", *calls: str, prompt: str = "", stop: str = "stop", tokens: int | None = 5, refused: bool = False
) -> Step:
    made = tuple(ToolCall(name, "{}", 0) for name in calls)
    return Step("", prompt, text, made, stop, {"stop": "end_turn"}.get(stop, stop), refused, 10, tokens)


def session(*steps: Step) -> list[Step]:
    """The steps with their places as keys, from 1 on."""
    return [replace(one, key=str(place)) for place, one in enumerate(steps, 1)]


ASKED_BACK = "must_followup: {after: {text: 'sure?'}, expect: {prompt: 'yes'}}"
AT_ONCE = "must_followup: {after: {call: a}, expect: {call: b}, within: 1}"
CASES = [
    (r"must_remain_consistent: 'ref (\d+)|case (\d+)'", (step("ref 1"), step("case 2")), BROKEN, "2"),
    (r"must_remain_consistent: 'ref (\d*)'", (step("ref 1"), step("ref ?")), KEPT, ""),
    ("must_include_text: not legal advice", (step("Not  LEGAL advice."), step("x")), KEPT, ""),
    ("must_include_text: not legal advice", (step("x"), step("y")), BROKEN, "2"),
    ("must_include_text: [I can't, sorry]", (step("I can’t"), step("Sorry")), KEPT, ""),
    ("must_include_text_each: hi", (step("hi"), step("oh hi"), step("ho")), BROKEN, "3"),
    ("must_include_text_each: hi", (step("hi"), step("oh hi")), KEPT, ""),
    ("forbidden_text: [secret]", (step("a"), step("the Secret")), BROKEN, "2"),
    ("forbidden_text: [secret]", (step("a"),), KEPT, ""),
    ("must_call_before: {first: check, then: refund}", (step("", "check"), step("", "refund")), KEPT, ""),
    ("must_call_before: {first: check, then: refund}", (step("", "check", "refund"),), KEPT, ""),
    ("must_call_before: {first: check, then: refund}", (step("", "refund", "check"),), BROKEN, "1"),
    ("must_call_before: {first: check, then: refund}", (step(""), step("", "refund"), step("", "check")), BROKEN, "2"),
    ("must_call_before: {first: check, then: refund}", (step("", "check"),), KEPT, ""),
    ("must_call_before: {first: check, then: refund}", (step(""),), KEPT, ""),
    ("must_call_once: pay", (step("", "pay"), step("")), KEPT, ""),
    ("must_call_once: pay", (step("", "pay"), step("", "x"), step("", "pay")), BROKEN, "1"),
    ("must_call_once: pay", (step(""), step("", "x")), BROKEN, "2"),
    ("no_call: [drop, wipe]", (step("", "x"), step("", "wipe")), BROKEN, "2"),
    ("no_call: drop", (step("", "x"), step("")), KEPT, ""),
    ("max_turns: 2", (step(), step()), KEPT, ""),
    ("max_turns: 2", (step(), step(), step()), BROKEN, "3"),
    ("required_stop_reason: end_turn", (step(stop="length"), step()), KEPT, ""),
    ("required_stop_reason: [stop]", (step(), step(stop="length")), BROKEN, "2"),
    ("required_stop_reason: {reasons: [stop], each: true}", (step(stop="length"), step()), BROKEN, "1"),
    ("max_total_tokens: 30", (step(), step()), KEPT, ""),
    ("max_total_tokens: 29", (step(), step()), BROKEN, "2"),
    ("max_total_tokens: 1", (step(tokens=None),), NOT, ""),
    ("must_match_json_schema: {type: object}", (step("{}"), step("", "tool"), step("no")), BROKEN, "3"),
    ("must_match_json_schema: {type: object}", (step("", "tool"),), NOT, ""),
    (ASKED_BACK, (step("Sure?"), step("ok", prompt="Yes")), KEPT, ""),
    ("must_followup: {after: {call: a}, expect: {call: b}}", (step("", "a"), step("", "x"), step("", "b")), KEPT, ""),
    (AT_ONCE, (step("", "a"), step("", "x"), step("", "b")), BROKEN, "1"),
    ("must_followup: {after: {call: a}, expect: {call: b}}", (step("", "a", "b"),), BROKEN, "1"),
    ("must_remain_consistent: 'total (\\d+)'", (step("total 5"), step("x"), step("total 5")), KEPT, ""),
    ("must_remain_consistent: 'total (\\d+)'", (step("total 5"), step("total 6")), BROKEN, "2"),
    ("must_remain_consistent: 'total (\\d+)'", (step("x"),), NOT, ""),
    ('ltl: G (called -> F text("done"))', (step("", "a"), step("done")), KEPT, ""),
    ('ltl: G (called -> F text("done"))', (step("done"), step("", "a")), BROKEN, "2"),
    ("ltl: G (refused -> last)", (step(refused=True), step()), BROKEN, "1"),
    ('ltl: F stop(tool_use) | F matches("^ok")', (step("not ok"), step("ok")), KEPT, ""),
    ("{forbidden_text: x, when: {prompt: [lease, contract]}}", (step("x", prompt="My Lease?"),), BROKEN, "1"),
    ("{forbidden_text: x, when: {prompt: [lease, contract]}}", (step("x", prompt="The weather?"),), NOT, ""),
    ("{forbidden_text: x, when: {called: pay}}", (step("x"), step("", "pay")), BROKEN, "1"),
    ("{forbidden_text: x, when: {refused: true}}", (step("x"),), NOT, ""),
]


@pytest.mark.parametrize(("rule", "steps", "outcome", "key"), CASES)
def test_a_rule_is_kept_or_broken(rule: str, steps: tuple[Step, ...], outcome: RuleOutcome, key: str) -> None:
    """What comes of each kind of rule, and which exchange is to blame."""
    inline = rule.startswith("{")
    [read] = parse_rules(f"rules: [{{name: r, {rule[1:-1]}}}]" if inline else f"rules:\n  - name: r\n    {rule}")
    found = check_rule(read, session(*steps))
    assert (found.outcome, str(found.at + 1) if outcome is BROKEN else "") == (outcome, key)
    assert bool(found.why) == (outcome is BROKEN)


def test_nothing_is_no_pass() -> None:
    """Over no exchange a rule does not apply."""
    [rule] = parse_rules("rules: [{name: r, forbidden_text: x}]")
    assert check_rule(rule, []).outcome is NOT


@pytest.mark.parametrize("text", ["I can’t", "I  can't", "i CAN'T", "Ｉ can't"])
def test_texts_are_folded(text: str) -> None:
    """Quotes, case, width and spaces never hide a text, and folding twice is folding once."""
    assert folded(text) == "i can't"
    assert folded(folded(text)) == folded(text)
