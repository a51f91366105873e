"""The state of an exchange for a test, without a gateway around it."""

from __future__ import annotations

from typing import Any

from demur.gateway.request import AuditedRoute
from demur.gateway.state import ExchangeState
from demur.model.claim import Audit, Claim, Decision, Effect, Phase
from demur.model.exchange import Shape
from demur.model.passport import Commitment, Passport, PhaseRecord
from demur.policy.cedar import PolicySource
from demur.policy.gate import load_gate

GATE = load_gate((PolicySource("rules", "permit (principal, action, resource);"),))


def state_of(shape: Shape = Shape.OPENAI_CHAT, **more: Any) -> ExchangeState:
    """Return the state of an exchange; every further field as given."""
    made: dict[str, Any] = {"began_s": 0.0, "began_ns": 1, "gate": GATE, "disclosures": []}
    made |= {"client": None, "request_bytes": b"", "holds": False, "asked": Commitment("a" * 64, 5)}
    return ExchangeState(AuditedRoute(shape), **(made | more))


def phase_of(phase: Phase, decision: Decision | None = None, *claims: Claim, **more: Any) -> tuple[Audit, PhaseRecord]:
    """Return a phase in which these claims were stated and this was decided."""
    audit = Audit(phase, claims, claims, **more)
    return audit, PhaseRecord(phase, claims, decision or Decision(Effect.ALLOW), audit.runs, "{}")


def passport_of(**fields: Any) -> Passport:
    """Return a passport that says this and nothing else."""
    made: dict[str, Any] = {"session": "s", "seq": 0, "at": "", "model_asked": "m", "config_digest": "c" * 64}
    made |= {"policy_digest": "d" * 64, "request": None, "response": None, "phases": (), "model_served": None}
    return Passport(**(made | fields))
