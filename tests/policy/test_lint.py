"""What is found in a policy set before it decides anything."""

from __future__ import annotations

import cedarpy
import pytest

from demur.model.claim import ClaimSpec, ClaimType, Phase, Vocabulary
from demur.policy.cedar import PolicySource
from demur.policy.gate import load_gate
from demur.policy.lint import problems_of, schema_of
from demur.policy.values import SAFETY_VOCABULARY

ANY = "(principal, action, resource)"
TWICE = f"forbid {ANY} when {{ context.claims.safety_flagged }};" * 2
REQUEST_ONLY = '(principal, action == Action::"request", resource)'


def found(text: str, default: str = "allow") -> list[tuple[str, str]]:
    """What is found in a policy, or in a forbid under this condition."""
    text = text if text.endswith(";") else f"forbid {ANY} when {{ {text} }};"
    gate = load_gate([PolicySource("p.cedar", text)], default=default, vocabulary=SAFETY_VOCABULARY)  # type: ignore[arg-type]  # the test's own settings
    return [(p.severity.value, str(p)) for p in problems_of(gate, SAFETY_VOCABULARY)]


@pytest.mark.parametrize(
    "text",
    [
        "context.claims.toxic_content > 0.8",
        'context.claims.model_refused && context.claims.language != "en"',
        'context.claims.harm_categories.containsAny(["weapons"])',
        f"forbid {ANY} unless {{ context.claims has toxic_content }};",
        "context.claims.toxic_content > 0.8 || context.claims.toxic_content < 0.1",
        "!(context.claims.toxic_content > 1)",
        'forbid (principal in Label::"beta", action, resource is Model) when { context.claims.safety_flagged };',
        'forbid (principal, action == Action::"response", resource) when { context.claims.safety_flagged };',
    ],
)
def test_a_sound_rule_has_no_problem(text: str) -> None:
    """What may be meant is not complained about."""
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "severity", "said"),
    [
        ("context.claims.toxic_contnt > 0.8", "error", "did you mean `toxic_content`?"),
        ("context.claims has toxic_contnt", "error", "did you mean `toxic_content`?"),
        ("context.claims.qqq > 0.8", "error", "declare it in the vocabulary"),
        ('context.claims.model_refused == "yes"', "error", "not compatible"),
        ("context.claims.language > 0.5", "error", "expected decimal but saw String"),
        ("context.claims.language", "error", "expected Bool but saw String"),
        ('forbid (principal, action == Action::"requst", resource);', "error", "did you mean `request`?"),
        ('forbid (principal == User::"a", action, resource);', "error", "nothing here is a `User`"),
        ("context.claims.toxic_content > 1", "warning", "leaves nothing of 0 to 1"),
        (
            f"forbid {ANY} when {{ context.claims.harm_score > 0.5 }} when {{ 0.5 >= context.claims.harm_score }};",
            "warning",
            "`harm_score > 0.5 and harm_score <= 0.5` leaves nothing",
        ),
        ("context.claims.harm_score == 0.5 && context.claims.harm_score < 0.5", "warning", "leaves nothing"),
        ("context.claims.safety_flagged && false", "warning", "its condition is false"),
        (f"forbid {REQUEST_ONLY} when {{ context.claims.model_refused }};", "warning", "after the request"),
        (f"forbid {ANY};", "warning", "denies everything in request, response"),
        (f"permit {ANY};", "warning", "changes nothing: the default allows"),
        ('context.claims.refusal_phrase like "*a*"', "warning", "carries text"),
        ('context.tenant == "a"', "warning", "`context.tenant`, which is no claim"),
        (TWICE, "warning", "`policy1`: says again what `policy0` says"),
    ],
)
def test_what_cannot_be_meant_is_said(text: str, severity: str, said: str) -> None:
    """Each problem is found, weighed and placed."""
    problems = found(text)
    assert [kind for kind, line in problems if said in line] == [severity], problems
    assert all(line.startswith("p.cedar:1: ") for _, line in problems)


def test_a_set_that_denies_everything_by_default_is_told() -> None:
    """The default of deny without a permit lets nothing through."""
    problems = found(f'@decision("warn") forbid {ANY} when {{ context.claims.safety_flagged }};', "deny")
    assert problems == [("warning", "warning: everything is denied; add a permit, or set the default to allow")]


def test_the_schema_knows_every_claim() -> None:
    """Cedar accepts the schema of a vocabulary with every type, dotted names flattened."""
    specs = tuple(ClaimSpec(f"a.{kind}", kind, Phase.REQUEST, "t") for kind in ClaimType)
    schema = schema_of(Vocabulary(specs))
    cedarpy.Schema.from_str(schema)
    assert '"a_category_list"?: Set<String>' in schema
