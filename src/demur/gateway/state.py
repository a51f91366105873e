"""An exchange from its first byte to its record: what is known of it so far, and the passport that it ends in.

The finished `ExchangeState` is the one value that the record, the structured log, the metrics and the traces take; no
text of a prompt or a response is in any of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.audit.claims import decline_causes
from demur.errors import DemurError
from demur.gateway.policy import ENFORCED, Principal, decide
from demur.io.log import LogEvent, is_logged, log_event
from demur.model.passport import Commitment, EnforcementGap, Passport
from demur.record.commit import Disclosure, withhold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.gateway.keys import ClientKey
    from demur.gateway.request import AuditedRoute
    from demur.model.audit import Audit
    from demur.model.claim import Decision, Phase
    from demur.model.exchange import Request, Response
    from demur.model.passport import Coverage, PhaseRecord
    from demur.model.verdict import Verdict
    from demur.policy.gate import PolicyGate

__all__ = ["ExchangeState", "TextSeal", "issue_passport", "log_exchange", "plain_name"]

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
