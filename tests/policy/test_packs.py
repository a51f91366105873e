"""The packs that ship: sound, and doing what their names say."""

from __future__ import annotations

import pytest

from demur.errors import PolicyError, UsageError
from demur.model.claim import ClaimSpec, ClaimType, ClaimValue, Effect, Phase, Vocabulary
from demur.policy.cases import boundary_results
from demur.policy.files import POLICY_PACKS, builtin_policies
from demur.policy.gate import Ask, PolicyGate, load_gate
from demur.policy.lint import problems_of
from demur.policy.values import SAFETY_VOCABULARY

ATTACK: dict[str, ClaimValue] = {
    "toxic_content": 0.9,
    "safety_flagged": True,
    "adversarial_score": 0.99,
    "adversarial_flagged": True,
}
BENIGN: dict[str, ClaimValue] = {
    "toxic_content": 0.0,
    "safety_flagged": False,
    "adversarial_score": 0.01,
    "adversarial_flagged": False,
}
HARM: dict[str, ClaimValue] = BENIGN | {"harm_score": 0.8, "harm_categories": ("weapons",)}
REFUSAL: dict[str, ClaimValue] = {
    "model_refused": True,
    "refusal_outcome": "refused",
    "refusal_reason": "safety",
    "refusal_score": 0.98,
}


def pack(name: str) -> PolicyGate:
    return load_gate([builtin_policies(name)], vocabulary=SAFETY_VOCABULARY)


@pytest.mark.parametrize("name", POLICY_PACKS)
def test_a_pack_has_no_problem(name: str) -> None:
    """A pack is valid against the built-in vocabulary, without warnings, and right at every threshold."""
    gate = pack(name)
    assert problems_of(gate, SAFETY_VOCABULARY) == ()
    assert all(result.passed for result in boundary_results(gate))
    assert all(rule.reason and not rule.id.startswith("policy") for rule in gate.rules)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("observe-only", "warn allow log warn allow"),
        ("block-attacks", "deny allow allow warn allow"),
        ("strict", "deny allow deny review deny"),
    ],
)
def test_what_a_pack_does(name: str, words: str) -> None:
    """An attack, a benign and a harmful prompt, a refusal, and a request that no auditor saw."""
    gate = pack(name)
    requests: tuple[dict[str, ClaimValue], ...] = (ATTACK, BENIGN, HARM)
    asks = [*(Ask(Phase.REQUEST, claims) for claims in requests), Ask(Phase.RESPONSE, REFUSAL), Ask(Phase.REQUEST)]
    assert [gate.decide(ask).effect.word for ask in asks] == words.split()


def test_observing_never_blocks() -> None:
    """No rule of the observing pack is stronger than a warning."""
    assert max(rule.effect for rule in pack("observe-only").rules) is Effect.WARN


def test_an_unknown_pack_is_refused() -> None:
    """A name that is no pack is refused with the nearest one."""
    with pytest.raises(PolicyError, match="did you mean `strict`"):
        builtin_policies("stritc")


def test_a_vocabulary_has_one_type_for_one_flat_name() -> None:
    """Two claims that a policy could not tell apart must agree; lookup takes dotted and flat names."""
    one = ClaimSpec("a.b", ClaimType.BOOLEAN, Phase.REQUEST, "x")
    two = ClaimSpec("a_b", ClaimType.BOOLEAN, Phase.RESPONSE, "y", sensitive=True)
    vocabulary = Vocabulary((one, two))
    assert vocabulary.find("a.b") is vocabulary.find("a_b") is one
    assert vocabulary.names == ("a_b",)
    assert vocabulary.phases("a.b") == {Phase.REQUEST, Phase.RESPONSE}
    assert vocabulary.sensitive("a_b")
    assert vocabulary.find("c") is None
    with pytest.raises(UsageError, match="declared as boolean by `x` and as category by `z`"):
        Vocabulary((one, ClaimSpec("a_b", ClaimType.CATEGORY, Phase.REQUEST, "z")))
