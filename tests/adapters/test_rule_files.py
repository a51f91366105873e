"""Rules are read in full or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demur.adapters.rule_files import parse_rules, read_rules
from demur.errors import DemurError, EmptyInputError, ShapeError
from demur.measure.rules import IncludeText, RuleScope

if TYPE_CHECKING:
    from pathlib import Path


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
