"""What does an audit come to under a policy, and what goes on record of the exchange as a whole?

Laws: the effect is the policy's or what the auditors' failures demand, whichever is stronger, so that a replay comes to the same;
what blocks is a denial, or a redaction, which the gateway cannot make and so withholds; sensitive values are committed to
before anything is sealed, and a phase that cannot be written without them is left out, with a gap in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from demur.audit.claims import conclude
from demur.errors import DemurError
from demur.model.audit import FailureMode, Problem, Turn
from demur.model.claim import Decision, Effect
from demur.model.exchange import Channel, Choice, RefusalPart, Response, TextPart, ThinkingPart, ToolCallPart
from demur.model.passport import AuditorStatus, DeclineCause, EnforcementGap, Passport, PhaseRecord
from demur.policy.gate import Ask
from demur.record.commit import withhold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.gateway.guard.values import ScanText
    from demur.model.audit import Audit
    from demur.model.claim import Phase, Vocabulary
    from demur.model.exchange import Part
    from demur.model.passport import Commitment, Coverage
    from demur.policy.gate import PolicyGate
    from demur.policy.rules import Rule
    from demur.record.commit import Disclosure

__all__ = [
    "ENFORCED",
    "Asker",
    "ExchangeFacts",
    "Weighed",
    "enforces_on",
    "issue_passport",
    "plain_name",
    "scanned_response",
    "unasked",
    "weigh",
]

_LONGEST_NAME = 256
ENFORCED = frozenset({Effect.DENY, Effect.REDACT})


def plain_name(text: str) -> str:
    """Return what others named (a model, a finish reason) as a record can hold it: bounded, and valid Unicode."""
    return text[:_LONGEST_NAME].encode("utf-8", "backslashreplace").decode()


class Asker(msgspec.Struct, frozen=True):
    """Who asks which model: what a policy sees besides the claims."""

    session: str
    model: str
    labels: tuple[str, ...] = ()


class Weighed(msgspec.Struct, frozen=True):
    """What the auditors of one phase stated and what the policy made of it; `context` is the JSON evaluated."""

    audit: Audit
    decision: Decision
    context: str

    @property
    def blocks(self) -> bool:
        """Whether the exchange may not go on."""
        return self.decision.effect in ENFORCED

    def record(self, coverage: Coverage | None = None) -> PhaseRecord:
        """Return the phase as it goes on record, sensitive values still in it."""
        audit = self.audit
        return PhaseRecord(audit.phase, audit.stated, self.decision, audit.runs, self.context, coverage=coverage)


def weigh(gate: PolicyGate, audit: Audit, *, asker: Asker) -> Weighed:
    """Return what a policy decides over an audit; a failure that is closed denies whatever the policy says."""
    ask = Ask(audit.phase, audit.claims, asker.session, asker.model, asker.labels, unsound=dict(audit.unsound))
    decision, context = gate.decide_on_record(ask)
    if audit.troubles or audit.denials:
        effect = max(decision.effect, audit.floor)
        decision = Decision(effect, decision.rules, (*decision.errors, *audit.denials))
    return Weighed(audit, decision, context)


def unasked(phase: Phase, *, closed: bool) -> Audit:
    """Return the audit of a phase in which no auditor could be asked at all: it denies, or is a gap, by the setting."""
    mode = FailureMode.CLOSED if closed else FailureMode.OPEN
    problem = Problem("unasked", "the auditors could not be asked")
    return conclude(phase, (Turn("chain", "1", AuditorStatus.ERROR, 0, mode, problems=(problem,)),))


def enforces_on(gate: PolicyGate, phase: Phase, vocabulary: Vocabulary) -> bool:
    """Return whether a rule could block in a phase: then nothing may pass before it was asked.

    A rule that reads only claims of other phases cannot fire on a claim; one that fires on their absence is found by asking.
    """
    if gate.default == "deny" or gate.decide(Ask(phase, ())).effect in ENFORCED:
        return True
    return any(_can_block(rule, phase, vocabulary) for rule in gate.rules)


def _can_block(rule: Rule, phase: Phase, vocabulary: Vocabulary) -> bool:
    if rule.effect not in ENFORCED or phase not in rule.phases:
        return False
    phases = [vocabulary.phases(name) for name in rule.reads]
    return not phases or any(not known or phase in known for known in phases)


def scanned_response(due: ScanText, known: Response | None = None) -> Response:
    """Return what a scan is about as a response: the texts are those to be scanned, all else is what is known by then."""
    head = known or Response("")
    by_index = {choice.index: choice for choice in head.choices}
    indices = sorted({*due.choices, *by_index})
    choices = tuple(
        msgspec.structs.replace(by_index.get(i) or Choice(i, ()), parts=tuple(_strand_parts(due, i))) for i in indices
    )
    return msgspec.structs.replace(head, choices=choices)


def _strand_parts(due: ScanText, choice: int) -> Iterator[Part]:
    for channel, kind in ((Channel.THINKING, ThinkingPart), (Channel.TEXT, TextPart), (Channel.REFUSAL, RefusalPart)):
        text = due.joined(choice, channel)
        if text:
            yield kind(text)
    for strand in due.strands:
        if strand.choice == choice and strand.channel is Channel.TOOL:
            yield ToolCallPart(strand.place, "", strand.text)


class ExchangeFacts(msgspec.Struct, frozen=True, gc=False):
    """What is known of an exchange once it is over, decisions aside."""

    asker: Asker
    config_digest: str
    policy_digest: str
    request: Commitment | None
    response: Commitment | None = None
    model_served: str | None = None
    upstream_status: int | None = None
    finish_reasons: tuple[str, ...] = ()
    causes: tuple[DeclineCause, ...] = ()
    gaps: tuple[EnforcementGap, ...] = ()


def issue_passport(
    facts: ExchangeFacts, phases: tuple[PhaseRecord, ...], *, salts: Iterator[bytes]
) -> tuple[Passport, tuple[Disclosure, ...]]:
    """Return the passport of an exchange and what is behind its commitments; number, link and time come with the seal."""
    written: list[PhaseRecord] = []
    disclosures: list[Disclosure] = []
    gaps = list(facts.gaps)
    for phase in phases:
        try:
            record, behind = withhold(phase, salts)
        except DemurError:
            # Whoever names a session by the very words that a claim quotes must not bring them into the log; nor can what is
            # no Unicode stand in it.
            gaps.append(EnforcementGap(phase.phase, "unrecorded"))
            continue
        written.append(record)
        disclosures += behind
    passport = Passport(
        session=facts.asker.session,
        seq=0,
        at="",
        model_asked=facts.asker.model,
        model_served=facts.model_served,
        config_digest=facts.config_digest,
        policy_digest=facts.policy_digest,
        request=facts.request,
        response=facts.response,
        phases=tuple(written),
        causes=facts.causes,
        finish_reasons=facts.finish_reasons,
        upstream_status=facts.upstream_status,
        gaps=tuple(gaps),
    )
    return passport, tuple(disclosures)
