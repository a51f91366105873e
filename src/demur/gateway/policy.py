"""The policy in force: what it decides over an audit, and whether a response may be passed on before it was read.

The effect is the policy's or what the auditors' failures demand, whichever is stronger, so that a replay of the record
comes to the same. One gate is taken for an exchange, so that both phases are decided by the same policy.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from demur.audit.claims import conclude
from demur.gateway.settings import OnFailure
from demur.io.log import LogEvent, log_event
from demur.model.audit import FailureMode, Problem, Turn
from demur.model.claim import Decision, Effect, Phase
from demur.model.passport import AuditorStatus, PhaseRecord
from demur.policy.files import PolicyFolder
from demur.policy.gate import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.gateway.settings import GatewaySettings
    from demur.model.audit import Audit
    from demur.model.claim import Vocabulary
    from demur.policy.gate import PolicyGate
    from demur.record.replay import Replay

__all__ = ["ENFORCED", "PolicyWatch", "Principal", "decide", "enforces_on", "unasked"]

# The gateway cannot redact, so what should be redacted is withheld.
ENFORCED = frozenset({Effect.DENY, Effect.REDACT})
_MAX_REPLAYS = 8


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


class PolicyWatch:
    """The policy in force, kept up with its files."""

    def __init__(self, settings: GatewaySettings, vocabulary: Vocabulary, on_stale: Callable[[bool], None]) -> None:
        """Read the files; `on_stale` is told of each change that does not load, and whether exchanges go on."""
        part = settings.policy
        self._folder = PolicyFolder(part.paths, default=part.default.value, vocabulary=vocabulary)
        self._shadow = (
            PolicyFolder(part.shadow, default=part.default.value, vocabulary=vocabulary) if part.shadow else None
        )
        self._vocabulary = vocabulary
        self._closed = settings.failure.policy_reload is OnFailure.CLOSED
        self._on_stale = on_stale
        self.stale = False
        self.replays: dict[str, Replay] = {}
        """The latest policies since the start, by digest: for whoever wants to decide again what they did."""
        self._swap()

    @property
    def shadow(self) -> PolicyGate | None:
        """The policy that is asked beside it, if there is one; a change of its files that does not load changes nothing."""
        return None if self._shadow is None else self._shadow.gate

    @property
    def denies_all(self) -> bool:
        """Whether the files are broken and the settings say that nothing passes until they are repaired."""
        return self.stale and self._closed

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found about the policy that does not keep it from deciding."""
        return self._folder.warnings

    async def follow(self, every_s: float) -> None:
        """Look at the files again and again."""
        while True:
            await asyncio.sleep(every_s)
            await self.look()

    async def look(self) -> None:
        """Take what has changed on disk, if it can be taken."""
        # Parsing a large set takes a tenth of a second: not in the way of exchanges.
        change = await asyncio.to_thread(self._folder.poll)
        if self._shadow is not None:
            await asyncio.to_thread(self._shadow.poll)
        if change is None:
            return
        # A change that does not load leaves the last good policy in force, or denies everything, by the settings.
        self.stale = not change.swapped
        if change.swapped:
            self._swap()
            log_event(LogEvent.POLICY_SWAPPED, policy=change.digest)
        else:
            self._on_stale(not self._closed)
            log_event(LogEvent.POLICY_REFUSED, policy=change.digest)

    def _swap(self) -> None:
        self.gate = self._folder.gate
        # Whether a rule could withhold a response, so that none may be passed on before it was read.
        self.holds = enforces_on(self.gate, Phase.RESPONSE, self._vocabulary)
        self.replays.pop(self.gate.digest, None)
        self.replays[self.gate.digest] = self.gate.replay
        for oldest in list(self.replays)[:-_MAX_REPLAYS]:
            del self.replays[oldest]
