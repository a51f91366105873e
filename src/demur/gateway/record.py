"""What is known of an exchange while it goes on, and how does it get on record, into the figures, the log and the traces?

Laws: every audited exchange is filed once, however it ended; a denial is durable before its client hears of it; a store that does
not take a record is told to whoever files it, who decides by the settings; no text is in any of it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from demur.audit.builtin import decline_causes
from demur.errors import DemurError, StoreError
from demur.gateway.passporting import Asker, ExchangeFacts, issue_passport, plain_name, weigh
from demur.gateway.telemetry import ObservedExchange
from demur.io.log import LogEvent, is_logged, log_event
from demur.model.passport import Commitment, EnforcementGap
from demur.record.commit import Disclosure, commit

if TYPE_CHECKING:
    from demur.gateway.keys import ClientKey
    from demur.gateway.passporting import Weighed
    from demur.gateway.routes import AuditedRoute
    from demur.gateway.worker import GatewayParts
    from demur.model.claim import Decision, Phase
    from demur.model.exchange import Request, Response
    from demur.model.passport import Coverage
    from demur.model.verdict import Verdict
    from demur.policy.gate import PolicyGate

__all__ = ["Dossier", "Filed", "TextSeal", "file_exchange", "open_dossier", "tell_everybody"]


class Filed(msgspec.Struct, frozen=True):
    """What became of filing an exchange."""

    facts: ExchangeFacts
    kept: bool


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
class Dossier:
    """One exchange, as far as it has come."""

    route: AuditedRoute
    gate: PolicyGate
    holds: bool
    """Whether a rule of this gate could withhold an answer."""
    client: ClientKey | None
    request_bytes: bytes
    asked: Commitment
    disclosures: list[Disclosure]
    began_s: float
    began_ns: int
    traceparent: str | None = None
    asker: Asker = Asker("unread", "")  # noqa: RUF009 — a frozen value
    request: Request | None = None
    weighed: list[tuple[Weighed, Coverage | None]] = field(default_factory=list)
    response: Response | None = None
    answered: Commitment | None = None
    upstream_status: int | None = None
    status: int | None = None
    verdict: Verdict | None = None
    gaps: list[EnforcementGap] = field(default_factory=list)
    blocked: bool = False
    streamed: bool = False
    fault: str | None = None

    @property
    def passport(self) -> str:
        """The id by which the client can ask for its record: the commitment to what it sent."""
        return self.asked.digest

    @property
    def decisions(self) -> list[Decision]:
        """What was decided so far."""
        return [weighed.decision for weighed, _ in self.weighed]

    def gap(self, phase: Phase, what: str) -> None:
        """Put a gap on record."""
        self.gaps.append(EnforcementGap(phase, what))

    def decided(self, weighed: Weighed, coverage: Coverage | None = None) -> None:
        """Put a phase on record."""
        self.weighed.append((weighed, coverage))
        self.gaps += weighed.audit.gaps

    def answer_text(self, body: bytes, salt: bytes, *, keep: bool) -> None:
        """Commit to a whole answer."""
        self.answered, disclosure = commit(body, salt)
        if keep:
            self.disclosures.append(disclosure)


def open_dossier(
    parts: GatewayParts, route: AuditedRoute, body: bytes, *, client: ClientKey | None, traceparent: str | None = None
) -> Dossier:
    """Return the dossier of an exchange that begins with this body."""
    asked, behind = commit(body, next(parts.salts))
    kept = [behind] if parts.disclosures is not None else []
    gate, holds = parts.policy.gate, parts.policy.holds
    began = (time.perf_counter(), time.time_ns())
    return Dossier(route, gate, holds, client, body, asked, kept, *began, traceparent=traceparent)


async def file_exchange(parts: GatewayParts, dossier: Dossier, *, durable: bool) -> Filed:
    """Put an exchange on record; return whether the store took it, and what is known of it by then."""
    causes = decline_causes(dossier.verdict, blocked=dossier.blocked)
    response = dossier.response
    facts = ExchangeFacts(
        dossier.asker,
        parts.config_digest,
        dossier.gate.digest,
        dossier.asked,
        dossier.answered,
        model_served=plain_name(response.model) if response and response.model else None,
        upstream_status=dossier.upstream_status,
        finish_reasons=tuple(plain_name(choice.finish_raw or "") for choice in response.choices) if response else (),
        causes=causes,
        gaps=tuple(dossier.gaps),
    )
    phases = tuple(weighed.record(coverage) for weighed, coverage in dossier.weighed)
    passport, behind = issue_passport(facts, phases, salts=parts.salts)
    # A phase that could not be written is a gap that shows only now.
    filed = Filed(facts=replace(facts, gaps=passport.gaps) if passport.gaps else facts, kept=True)
    kept = (*dossier.disclosures, *behind) if parts.disclosures is not None else ()
    try:
        submission = parts.writer.submit(passport, disclosures=kept, durable=durable)
        if submission.must_wait:
            async with asyncio.timeout(parts.settings.timeouts.record_s):
                await submission.acknowledged()
    except (TimeoutError, DemurError) as exc:
        # What the store refuses, and what cannot be sealed, is lost to the log alike; a store that hangs may still take the record.
        in_store = isinstance(exc, TimeoutError | StoreError)
        parts.store_hangs |= isinstance(exc, TimeoutError)
        log_event(LogEvent.RECORD_FAILED, part="store" if in_store else None, error=exc)
        return replace(filed, kept=False)
    return filed


def tell_everybody(parts: GatewayParts, dossier: Dossier, facts: ExchangeFacts) -> None:
    """Tell the figures, the log and the traces how an exchange ended."""
    metrics, label = parts.metrics, dossier.route.label
    for weighed, _ in dossier.weighed:
        metrics.decided(weighed.audit.phase, weighed.decision)
        metrics.audited(weighed.audit)
        if parts.policy.shadow is not None:
            beside = weigh(parts.policy.shadow, weighed.audit, asker=dossier.asker)
            metrics.shadowed(weighed.audit.phase, weighed.decision, beside.decision)
    metrics.gaps(facts.gaps)
    if dossier.verdict is not None:
        metrics.judged(label, dossier.verdict, facts.causes)
    elif facts.causes:
        for cause in facts.causes:
            metrics.board.add("demur_declines_total", cause)
    event = LogEvent.DENIED if dossier.blocked else LogEvent.EXCHANGE
    if is_logged(event):
        _log_exchange(event, dossier, facts)
    if parts.telemetry is not None:
        parts.telemetry.tell(_seen_by_traces(dossier, facts))


def _log_exchange(event: LogEvent, dossier: Dossier, facts: ExchangeFacts) -> None:
    took_s = time.perf_counter() - dossier.began_s
    effect = max((one.effect for one in dossier.decisions), default=None)
    log_event(
        event,
        shape=dossier.route.label,
        status=dossier.status,
        upstream_status=dossier.upstream_status,
        took_ms=round(took_s * 1000, 3),
        request_bytes=len(dossier.request_bytes),
        response_bytes=dossier.answered.size_bytes if dossier.answered else None,
        streamed=dossier.streamed or None,
        effect=None if effect is None else effect.word,
        outcome=dossier.verdict.outcome if dossier.verdict else None,
        cause=facts.causes[0] if facts.causes else None,
        rules=[rule.id for one in dossier.decisions for rule in one.rules] or None,
        client=dossier.client.name if dossier.client else None,
        session=dossier.asker.session,
        trace=dossier.passport,
    )


def _seen_by_traces(dossier: Dossier, facts: ExchangeFacts) -> ObservedExchange:
    return ObservedExchange(
        provider={"anthropic": "anthropic", "azure": "azure.ai.openai"}.get(dossier.route.shape, "openai"),
        model_asked=facts.asker.model,
        began_ns=dossier.began_ns,
        ended_ns=time.time_ns(),
        model_served=facts.model_served,
        session=facts.asker.session,
        status=dossier.status,
        finish_reasons=facts.finish_reasons,
        claims=tuple(claim for weighed, _ in dossier.weighed for claim in weighed.audit.stated),
        decisions={weighed.audit.phase: weighed.decision for weighed, _ in dossier.weighed},
        verdict=dossier.verdict,
        causes=facts.causes,
        gaps=facts.gaps,
        fault=dossier.fault,
        traceparent=dossier.traceparent,
    )
