"""Which policy holds now, and may an answer be passed on before it was read?

Laws: a change that does not load leaves the last good policy in force, or denies everything, by the settings, and either is
said; a gate is taken once for an exchange, so that both phases are decided by the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from demur.gateway.passporting import enforces_on
from demur.gateway.settings import OnFailure
from demur.io.log import LogEvent, log_event
from demur.model.claim import Phase
from demur.policy.files import PolicyFolder

if TYPE_CHECKING:
    from demur.gateway.metrics import GatewayMetrics
    from demur.gateway.settings import GatewaySettings
    from demur.model.claim import Vocabulary
    from demur.policy.gate import PolicyGate
    from demur.record.replay import Replay

__all__ = ["PolicyWatch"]

_REMEMBERED = 8


class PolicyWatch:
    """The policy in force, kept up with its files."""

    def __init__(self, settings: GatewaySettings, vocabulary: Vocabulary, metrics: GatewayMetrics) -> None:
        part = settings.policy
        self._folder = PolicyFolder(part.paths, default=part.default.value, vocabulary=vocabulary)
        self._shadow = (
            PolicyFolder(part.shadow, default=part.default.value, vocabulary=vocabulary) if part.shadow else None
        )
        self._vocabulary = vocabulary
        self._closed = settings.failure.policy_reload is OnFailure.CLOSED
        self._metrics = metrics
        self.stale = False
        self.replays: dict[str, Replay] = {}
        """The policies in force since the start, the latest ones, by digest: for whoever wants to decide again what they did."""
        self._take()

    @property
    def gate(self) -> PolicyGate:
        """The policy in force."""
        return self._gate

    @property
    def shadow(self) -> PolicyGate | None:
        """The policy that is asked beside it, if there is one; a change of its files that does not load changes nothing."""
        return None if self._shadow is None else self._shadow.gate

    @property
    def holds(self) -> bool:
        """Whether a rule could withhold an answer, so that none may be passed on before it was read."""
        return self._holds

    @property
    def denies_all(self) -> bool:
        """Whether the files are broken and the settings say that nothing passes until they are mended."""
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
        self.stale = not change.swapped
        if change.swapped:
            self._take()
            log_event(LogEvent.POLICY_SWAPPED, policy=change.digest)
        else:
            self._metrics.failed("policy_reload", opened=not self._closed)
            log_event(LogEvent.POLICY_REFUSED, policy=change.digest)

    def _take(self) -> None:
        self._gate = self._folder.gate
        self._holds = enforces_on(self._gate, Phase.RESPONSE, self._vocabulary)
        self.replays.pop(self._gate.digest, None)
        self.replays[self._gate.digest] = self._gate.replay
        for oldest in list(self.replays)[:-_REMEMBERED]:
            del self.replays[oldest]
