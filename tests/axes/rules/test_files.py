"""Rules are read in full or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from demur.axes.rules.checks import RuleOutcome, check_rule
from demur.axes.rules.files import parse_rules, read_rules
from demur.axes.rules.rule import IncludeText, RuleScope
from demur.axes.steps import Step, ToolCall
from demur.errors import DemurError, EmptyInputError, ShapeError


def test_a_file_of_rules(tmp_path: Path) -> None:
    """Names, scope and conditions are kept."""
    file = tmp_path / "rules.yaml"
    file.write_text(
        "rules:\n  - name: disclaimer\n    must_include_text_each: not legal advice\n    scope: exchange\n"
        "    when: {prompt: lease}\n",
        encoding="utf-8",
    )
    [rule] = read_rules(str(file))
    assert (rule.name, rule.scope, rule.when.prompt) == ("disclaimer", RuleScope.EXCHANGE, ("lease",))
    assert rule.check == IncludeText(("not legal advice",), each=True)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "nothing in it"),
        ("rules: []", "no rule in it"),
        ("rules: [{name: a}]", "one kind is needed, there is none"),
        ("rules: [{name: a, no_call: x, max_turns: 2}]", "there is `no_call` and `max_turns`"),
        ("rules: [{name: a, no_cal: x}]", "rule `a`: unknown field `no_cal`; did you mean `no_call`"),
        ("rules: [{no_call: x}]", "rule 1: `name` is missing"),
        ("rules: [{name: a, max_turns: two}]", "rule `a`: `max_turns`: expected a whole number"),
        ("rules: [{name: a, max_turns: 2, scope: turn}]", "rule `a`: `scope`: `turn` is not known here"),
        ("rules: [{name: a, must_call_before: {first: x}}]", "`must_call_before`: `then` is missing"),
        ("[{name: a, no_call: x}]", "rules: expected keys with values"),
        ("rules: [{name: a, max_turns: 0}]", "rule `a`: `0` is no limit"),
        ("rules: [{name: a, forbidden_text: ''}]", "an empty text"),
        ("rules: [{name: a, no_call: x}, {name: a, no_call: y}]", "two rules are called `a`"),
        ("rules: [{name: a, ltl: 'G ('}]", "rule `a`: `G \\(` is no temporal formula"),
        ("rules: [{name: a, ltl: 'F matches(\"(\")'}]", "rule `a`: missing \\)"),
        ("rules: [{name: a, must_remain_consistent: '('}]", "rule `a`: missing \\)"),
        ("rules: [{name: a, must_match_json_schema: {format: x}}]", "rule `a`: `schema`: unknown field `format`"),
        ("rules: [{name: a, must_followup: {after: {x: y}, expect: {call: b}}}]", "rule `a`: one of `call`"),
        ("rules: [{name: a, must_followup: {after: {call: y}, expect: {call: b}, within: 101}}]", "`within` is 101"),
        (
            "rules: [{name: a, no_call: x, when: {promt: y}}]",
            "rule `a`: `when`: unknown field `promt`; did you mean `prompt`",
        ),
        ("rules: [{", "not YAML"),
        ("rules: [{name: a, forbidden_text: no}]", "`forbidden_text`: expected a text or a list; quote yes, no"),
        ("rules: [{name: no, no_call: x}]", "rule 1: `name`: expected a text; quote yes, no"),
        ("rules: [{name: ' ', no_call: x}]", "a rule without a name"),
        ("rules: [{name: a, no_call: x, when: {prompt: ['']}}]", "rule `a`: an empty text"),
        ("rules: [{name: a, must_followup: {after: {text: ''}, expect: {call: b}}}]", "rule `a`: an empty text"),
        ("rules: [{name: a, no_call: x, no_call: y}]", "`no_call` stands twice"),
        ("rules: [{name: a, no_call: x}]\nrules: [{name: b, no_call: y}]", "line 2: `rules` stands twice"),
        ("rules: [{name: a, must_match_json_schema: &x {items: *x}}]", "an alias stands within itself"),
        (f"rules: {'[' * 80}{']' * 80}", "nested too deeply"),
        ("rules: !!python/object:os.system x", "not YAML"),
    ],
)
def test_what_is_wrong_is_said(text: str, what: str) -> None:
    """A rule that cannot be read is an error that names it, never a rule that passes."""
    with pytest.raises((ShapeError, EmptyInputError), match=what):
        parse_rules(text)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    """The file stands before what is wrong in it."""
    file = tmp_path / "rules.yaml"
    file.write_text("rules: []", encoding="utf-8")
    for name in (str(file), str(tmp_path / "none.yaml")):
        with pytest.raises(DemurError, match=name):
            read_rules(name)


def test_aliases_are_not_unfolded_without_end() -> None:
    """A few lines that stand for a million values are an error, not a wait; those that stand for a few are read."""
    lines = ["rules:", "  - name: a", "    must_match_json_schema:", "      allOf:", "        - &s0 {type: string}"]
    lines += [f"        - &s{i} {{anyOf: [*s{i - 1}, *s{i - 1}]}}" for i in range(1, 40)]
    with pytest.raises(ShapeError, match="more than 20,000 values"):
        parse_rules("\n".join(lines))
    assert len(parse_rules("\n".join(lines[:9]))) == 1


def test_a_rule_may_be_merged_into_another() -> None:
    """What `<<` brings in may be said anew, once."""
    rules = parse_rules("rules:\n  - &a {name: a, no_call: x}\n  - {<<: *a, name: b}\n")
    assert [rule.name for rule in rules] == ["a", "b"]


def test_many_tools_are_one_rule() -> None:
    """A list of a thousand tools is no deeper than one of ten."""
    [rule] = parse_rules(f"rules: [{{name: a, no_call: [{', '.join(f't{i}' for i in range(2000))}]}}]")
    step = Step("q", "", "", (ToolCall("t1999", "{}", 0),), "stop", "stop", refused=False)
    assert check_rule(rule, [step]).outcome is RuleOutcome.BROKEN
