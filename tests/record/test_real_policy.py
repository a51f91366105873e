"""From claims to a verified decision with the real gate: what was evaluated is recorded, and replays."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.record.logs import ORIGIN, passport_of, signer

from demur.model.claim import AuditorRun, AuditorStatus, Claim, ClaimType, Decision, Effect, Phase
from demur.model.passport import Check, DeclineCause, FaultKind, Passport, PhaseRecord
from demur.policy.cedar import PolicySource
from demur.policy.gate import Ask, PolicyGate, load_gate
from demur.record.commit import withhold
from demur.record.seal import open_sealed, seal
from demur.record.verify import Evidence, Trust, verify

RULES = """
@id("no-toxic") @decision("deny")
forbid(principal, action, resource) when { context.claims.toxic_content > 0.8 };
@id("no-quote") @decision("warn")
forbid(principal, action, resource) when { context.claims.pii_quote == "my name is Ada" };
"""
TRUST = Trust(ORIGIN, (signer().public,))


@pytest.fixture(scope="module")
def gate() -> PolicyGate:
    return load_gate([PolicySource("rules.cedar", RULES)])


def decided(gate: PolicyGate, score: float) -> Passport:
    """A passport of one phase, as a gateway would fill it in."""
    made = (
        Claim("toxic_content", ClaimType.SCORE_NORMALIZED, score, Phase.REQUEST, "a"),
        Claim("pii.quote", ClaimType.CATEGORY, "my name is Ada", Phase.REQUEST, "a", sensitive=True),
    )
    ask = Ask(Phase.REQUEST, made, session="s", model="small")
    run = AuditorRun("a", "1", AuditorStatus.OK, 5)
    phase = PhaseRecord(Phase.REQUEST, made, gate.decide(ask), (run,), json.dumps(gate.context_of(ask)))
    causes = (DeclineCause.GATEWAY_BLOCK,) if phase.decision.effect is Effect.DENY else ()
    return replace(passport_of(), phases=(phase,), causes=causes, policy_digest=gate.digest)


@pytest.mark.heavy
@pytest.mark.parametrize(("score", "effect"), [(0.9, Effect.DENY), (0.123456, Effect.WARN)])
def test_a_decision_of_the_gate_replays(gate: PolicyGate, score: float, effect: Effect) -> None:
    """Sealed without the user's words, opened and disclosed, the gate decides again as it did, and a lie shows."""
    passport = decided(gate, score)
    phase, kept = withhold(passport.phases[0], iter([bytes(16)]))
    assert phase.decision.effect is effect
    evidence = Evidence(replays={gate.digest: gate.replay}, disclose={item.digest: item for item in kept}.get)
    envelope = seal(replace(passport, phases=(phase,)), signer())
    assert b"Ada" not in open_sealed(envelope).payload
    found = verify([envelope], TRUST, evidence)
    assert (found.ok, found.tally(Check.REPLAY).complete) == (True, True)
    lie = replace(phase, decision=Decision(Effect.ALLOW))
    caught = verify([seal(replace(passport, phases=(lie,)), signer())], TRUST, evidence)
    assert [fault.kind for fault in caught.faults] == [FaultKind.REPLAY]
