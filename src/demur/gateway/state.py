"""An exchange from its first byte to its record: what is known of it so far, and the passport that it ends in.

The finished `ExchangeState` is the one value that the record, the structured log, the metrics and the traces take; no
text of a prompt or a response is in any of them.

The policy in force: what it decides over an audit, and whether a response may be passed on before it was read.

The effect is the policy's or what the auditors' failures demand, whichever is stronger, so that a replay of the record
comes to the same. One gate is taken for an exchange, so that both phases are decided by the same policy.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from demur.audit.claims import conclude, decline_causes
from demur.errors import DemurError
from demur.io.log import LogEvent, is_logged, log_event
from demur.model.claim import AuditorStatus, Decision, Effect, EnforcementGap, FailureMode, Phase, Problem, Turn
from demur.model.passport import Commitment, Passport, PhaseRecord
from demur.policy.gate import Ask
from demur.record.commit import Disclosure, withhold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.gateway.keys import ClientKey
    from demur.gateway.metrics import GatewayMetrics
    from demur.gateway.request import AuditedRoute
    from demur.model.claim import Audit, Phase, Vocabulary
    from demur.model.exchange import Request, Response
    from demur.model.passport import Coverage
    from demur.model.verdict import Verdict
    from demur.policy.gate import PolicyGate

__all__ = [
    "ENFORCED",
    "ExchangeState",
    "Principal",
    "TextSeal",
    "count_exchange",
    "decide",
    "enforces_on",
    "issue_passport",
    "log_exchange",
    "plain_name",
    "unasked",
]

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


_MAX_NAME_CHARS = 256


def plain_name(text: str) -> str:
    """Return what others named (a model, a finish reason) as a record can hold it: bounded, and valid Unicode."""
    # Half a surrogate pair has no UTF-8, in which records are signed.
    return text[:_MAX_NAME_CHARS].encode("utf-8", "backslashreplace").decode()


class TextSeal:
    """Commits to a text that comes in pieces; keeps them only where they are to be disclosed one day."""

    __slots__ = ("_hash", "_kept", "_salt", "size_bytes")

    def __init__(self, salt: bytes, *, keep: bool) -> None:
        self._salt = salt
        self._hash = sha256(self._salt)
        self._kept: list[bytes] | None = [] if keep else None
        self.size_bytes = 0

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._hash.update(piece)
        self.size_bytes += len(piece)
        if self._kept is not None:
            self._kept.append(piece)

    def close(self) -> tuple[Commitment, Disclosure | None]:
        """Return what goes on record, and what is behind it."""
        digest = self._hash.hexdigest()
        kept = None if self._kept is None else Disclosure(digest, self._salt, b"".join(self._kept))
        return Commitment(digest, self.size_bytes), kept


@dataclass(slots=True)
class ExchangeState:
    """One exchange, as far as it has come; `passport` is its record, once it has ended."""

    route: AuditedRoute
    gate: PolicyGate
    holds: bool
    """Whether a rule of this gate could withhold a response."""
    client: ClientKey | None
    request_bytes: bytes
    asked: Commitment
    disclosures: list[Disclosure]
    began_s: float
    began_ns: int
    traceparent: str | None = None
    principal: Principal = Principal("unread", "")  # noqa: RUF009 — a frozen value
    request: Request | None = None
    phases: list[tuple[Audit, PhaseRecord]] = field(default_factory=list)
    response: Response | None = None
    answered: Commitment | None = None
    upstream_status: int | None = None
    status: int | None = None
    verdict: Verdict | None = None
    gaps: list[EnforcementGap] = field(default_factory=list)
    blocked: bool = False
    streamed: bool = False
    fault: str | None = None
    passport: Passport | None = None

    @property
    def id(self) -> str:
        """The id by which the client can ask for its record: the commitment to what it sent."""
        return self.asked.digest

    @property
    def decisions(self) -> list[Decision]:
        """What was decided so far."""
        return [record.decision for _, record in self.phases]

    def add_gap(self, phase: Phase, what: str) -> None:
        """Put a gap on record."""
        self.gaps.append(EnforcementGap(phase, what))

    def seal_response(self, seal: TextSeal) -> None:
        """Commit to the response that a seal has taken in."""
        self.answered, behind = seal.close()
        self.disclosures += [behind] if behind else []

    def decide(self, audit: Audit) -> PhaseRecord:
        """Return what the policy makes of an audit."""
        return decide(self.gate, audit, self.principal)

    def add_phase(self, audit: Audit, record: PhaseRecord, coverage: Coverage | None = None) -> bool:
        """Put a decided phase on record; return whether the exchange may not go on."""
        self.phases.append((audit, record if coverage is None else replace(record, coverage=coverage)))
        self.gaps += audit.gaps
        return record.decision.effect in ENFORCED


def issue_passport(
    state: ExchangeState, *, config_digest: str, salts: Iterator[bytes]
) -> tuple[Passport, tuple[Disclosure, ...]]:
    """Return the passport of an exchange and what is behind its commitments; number, link and time come with the seal."""
    written: list[PhaseRecord] = []
    disclosures: list[Disclosure] = []
    gaps = list(state.gaps)
    for _, phase in state.phases:
        try:
            record, behind = withhold(phase, salts)
        except DemurError:
            # A client that names its session by the very words that a claim quotes must not bring them into the log; nor
            # can the log hold what is not valid Unicode. The phase is left out, with a gap in its place.
            gaps.append(EnforcementGap(phase.phase, "unrecorded"))
            continue
        written.append(record)
        disclosures += behind
    response = state.response
    passport = Passport(
        session=state.principal.session,
        seq=0,
        at="",
        model_asked=state.principal.model,
        model_served=plain_name(response.model) if response and response.model else None,
        config_digest=config_digest,
        policy_digest=state.gate.digest,
        request=state.asked,
        response=state.answered,
        phases=tuple(written),
        causes=decline_causes(state.verdict, blocked=state.blocked),
        finish_reasons=tuple(plain_name(choice.finish_raw or "") for choice in response.choices) if response else (),
        upstream_status=state.upstream_status,
        gaps=tuple(gaps),
    )
    return passport, tuple(disclosures)


def log_exchange(state: ExchangeState) -> None:
    """Write a finished exchange to the structured log."""
    event = LogEvent.DENIED if state.blocked else LogEvent.EXCHANGE
    if not is_logged(event):
        return
    took_s = time.perf_counter() - state.began_s
    decisions = state.decisions
    effect = max((one.effect for one in decisions), default=None)
    causes = state.passport.causes if state.passport else ()
    log_event(
        event,
        shape=state.route.label,
        status=state.status,
        upstream_status=state.upstream_status,
        took_ms=round(took_s * 1000, 3),
        request_bytes=len(state.request_bytes),
        response_bytes=state.answered.size_bytes if state.answered else None,
        streamed=state.streamed or None,
        effect=None if effect is None else effect.word,
        outcome=state.verdict.outcome if state.verdict else None,
        cause=causes[0] if causes else None,
        rules=[rule.id for one in decisions for rule in one.rules] or None,
        client=state.client.name if state.client else None,
        session=state.principal.session,
        trace=state.id,
    )


def count_exchange(metrics: GatewayMetrics, state: ExchangeState) -> None:
    """Count a finished exchange: decisions, auditors, verdict, and what its passport says."""
    add = metrics.board.add
    for audit, record in state.phases:
        add("demur_decisions_total", audit.phase, record.decision.effect.word, "live")
        for run in audit.runs:
            add("demur_auditor_turns_total", run.auditor, run.status)
        if audit.must_deny:
            metrics.count_failure("auditors", opened=False)
        elif audit.gaps:
            metrics.count_failure("auditors", opened=True)
    if state.verdict is not None:
        add("demur_verdicts_total", state.route.label, state.verdict.outcome)
    if state.passport is not None:
        for cause in state.passport.causes:
            add("demur_declines_total", cause)
        for gap in state.passport.gaps:
            metrics.count_gap(gap.phase, gap.what)
