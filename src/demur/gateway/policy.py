"""The policy in force: what it decides over an audit, and whether a response may be passed on before it was read.

The effect is the policy's or what the auditors' failures demand, whichever is stronger, so that a replay of the record
comes to the same. One gate is taken for an exchange, so that both phases are decided by the same policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from demur.audit.claims import conclude
from demur.model.audit import FailureMode, Problem, Turn
from demur.model.claim import Decision, Effect, Phase
from demur.model.passport import AuditorStatus, PhaseRecord
from demur.policy.gate import Ask

if TYPE_CHECKING:
    from demur.model.audit import Audit
    from demur.model.claim import Vocabulary
    from demur.policy.gate import PolicyGate

__all__ = ["ENFORCED", "Principal", "decide", "enforces_on", "unasked"]

# The gateway cannot redact, so what should be redacted is withheld.
ENFORCED = frozenset({Effect.DENY, Effect.REDACT})


class Principal(msgspec.Struct, frozen=True):
    """Who asks which model: what a policy sees besides the claims."""

    session: str
    model: str
    labels: tuple[str, ...] = ()


def decide(gate: PolicyGate, audit: Audit, principal: Principal) -> PhaseRecord:
    """Return what a policy decides over an audit, as it goes on record, sensitive values still in it."""
    unsound = dict(audit.unsound)
    ask = Ask(audit.phase, audit.claims, principal.session, principal.model, principal.labels, unsound=unsound)
    decision, context = gate.decide_on_record(ask)
    if audit.troubles or audit.denials:
        # A failure that is closed denies whatever the policy says.
        effect = max(decision.effect, audit.floor)
        decision = Decision(effect, decision.rules, (*decision.errors, *audit.denials))
    return PhaseRecord(audit.phase, audit.stated, decision, audit.runs, context)


def unasked(phase: Phase, *, closed: bool) -> Audit:
    """Return the audit of a phase in which no auditor could be asked at all: it denies, or is a gap, by the setting."""
    mode = FailureMode.CLOSED if closed else FailureMode.OPEN
    problem = Problem("unasked", "the auditors could not be asked")
    return conclude(phase, (Turn("chain", "1", AuditorStatus.ERROR, 0, mode, problems=(problem,)),))


def enforces_on(gate: PolicyGate, phase: Phase, vocabulary: Vocabulary) -> bool:
    """Return whether a rule could block in a phase: then nothing may pass before it was asked."""
    # A rule that fires on the absence of claims is found by asking without any.
    if gate.default == "deny" or gate.decide(Ask(phase, ())).effect in ENFORCED:
        return True
    for rule in gate.rules:
        if rule.effect in ENFORCED and phase in rule.phases:
            # One that reads only claims of other phases cannot fire on a claim of this one.
            phases = [vocabulary.phases(name) for name in rule.reads]
            if not phases or any(not known or phase in known for known in phases):
                return True
    return False
