"""Builds a chain from its settings: auditors in the process and over HTTP, asked and checked alike.

A claim goes on record under the name that the chain gives its auditor, whatever that calls itself.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import structs

from demur.audit.breaker import Breaker
from demur.audit.builtin import builtin_auditor
from demur.audit.chain import Chain, Link
from demur.audit.claims import ClaimChecker, ClaimRow, is_claim_name, read_specs
from demur.audit.config import ChainSettings, load_class, read_chain
from demur.audit.remote import RemoteAuditor
from demur.audit.sdk import BoundAuditor, ClaimsAuditor
from demur.errors import DemurError, UsageError
from demur.model.claim import Phase, Problem, Stated, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.audit.config import AuditorSettings
    from demur.audit.inputs import AuditorInput
    from demur.audit.remote import RemoteClaim

__all__ = ["auditor_named", "build_chain", "learn_vocabularies", "open_chain"]


def open_chain(source: str | ChainSettings, *, clock: Callable[[], float] | None = None) -> Chain:
    """Return the chain of an `auditors.yaml`, or of settings that were read before."""
    return build_chain(read_chain(source) if isinstance(source, str) else source, clock=clock)


def build_chain(settings: ChainSettings, *, clock: Callable[[], float] | None = None) -> Chain:
    """Return the chain of some settings; raise `DemurError` where an auditor cannot be made."""
    stages = [[_link(auditor) for auditor in stage] for stage in settings.stages]
    chain = Chain(stages, budget_s=settings.budget_s, clock=clock or time.perf_counter)
    # Two auditors that declare one claim as two types are refused here, not at the first exchange.
    _ = chain.vocabulary
    return chain


async def learn_vocabularies(chain: Chain) -> tuple[Problem, ...]:
    """Ask the remote auditors for their vocabularies, hold them to these, and return what went wrong."""
    problems = []
    for link in chain.links:
        if isinstance(link.port, _RemotePort):
            problem = await link.port.learn(link.settings.timeout_s)
            problems += [problem] if problem else []
    return tuple(problems)


def auditor_named(spec: str, **config: object) -> ClaimsAuditor:
    """Return the auditor that `module:Class`, `file.py:Class` or a name of ours stands for."""
    if ":" not in spec:
        return builtin_auditor(spec)
    kind = load_class(spec)
    if not issubclass(kind, ClaimsAuditor):
        raise UsageError(f"`{spec}` is no auditor", hint="derive the class from demur.auditing.ClaimsAuditor")
    try:
        return kind(**config)  # type: ignore[arg-type]  # the user's own class says what it takes
    except TypeError as exc:
        raise UsageError(f"`{spec}` cannot be made: {exc}", hint="check its `config`") from exc


def _link(settings: AuditorSettings) -> Link:
    breaker = Breaker(settings.breaker) if settings.breaker else None
    if settings.url is not None:
        _load_client()
        port = _RemotePort(settings, RemoteAuditor(settings.url, settings.sent, auditor_id=settings.auditor_id))
        return Link(settings, port, tuple(p for p in Phase if settings.asked_in(p)), breaker=breaker)
    auditor = auditor_named(settings.python or "", **settings.config)
    # The chain's file holds an auditor to these claims, whatever its class declares.
    if settings.vocabulary is not None:
        auditor.vocabulary = settings.vocabulary
    bound = BoundAuditor(auditor, settings.name)
    blocking = bound.blocking if settings.blocking is None else settings.blocking
    phases = tuple(p for p in bound.phases if settings.asked_in(p, bound.phases))
    if not phases:
        raise UsageError(f"auditor `{settings.name}`: it states nothing in these phases", hint="check its `phases`")
    return Link(settings, bound, phases, blocking, breaker)


def _load_client() -> None:
    """Load the HTTP client before the first call, whose time is limited."""
    try:
        import_module("demur.http.pool")
    except ModuleNotFoundError as exc:
        raise UsageError("remote auditors need `httptools`", hint="pip install 'demur[gateway]'") from exc


class _RemotePort:
    """An auditor over HTTP, as the chain asks for it."""

    def __init__(self, settings: AuditorSettings, remote: RemoteAuditor) -> None:
        self.version = settings.version
        self._name = settings.name
        self._declared = settings.vocabulary is not None
        self._remote = remote
        phases = [phase for phase in Phase if settings.asked_in(phase)]
        given = settings.vocabulary or {}
        self._checker = ClaimChecker(
            self._name, [spec for phase in phases for spec in read_specs(given, phase=phase, auditor=self._name)]
        )

    @property
    def vocabulary(self) -> Vocabulary:
        return self._checker.vocabulary

    def is_sync(self, _phase: Phase) -> bool:
        return False

    def ask(self, _given: AuditorInput) -> Stated:
        return Stated(problems=(Problem("auditor_error", "it cannot be asked without waiting"),))

    async def ask_async(self, given: AuditorInput) -> Stated:
        answer = await self._remote.ask(given)
        # What came over HTTP goes through the same check as what a class in the process returned.
        stated = self._checker.check(given.phase, (_unchecked(claim) for claim in answer.claims))
        problems = (*answer.problems, *stated.problems)
        # A claim that the auditor could not state is unsound, not absent: rules that read it fire.
        told = dict.fromkeys(filter(is_claim_name, answer.unsound), "not sound, the auditor itself says")
        unsound = {**told, **dict(stated.unsound)}
        return structs.replace(
            stated, problems=problems, version=answer.version, reached=answer.reached, unsound=tuple(unsound.items())
        )

    async def learn(self, timeout_s: float) -> Problem | None:
        """Take the vocabulary that the auditor itself declares, unless the chain's file declares one."""
        if self._declared:
            return None
        try:
            words = await asyncio.wait_for(self._remote.words(), timeout_s)
        except TimeoutError:
            words = Problem("timeout", "it did not tell its vocabulary in time")
        if isinstance(words, Problem):
            return replace(words, what=f"auditor `{self._name}`: {words.what}")
        try:
            specs = [spec for p, rows in words.items() for spec in read_specs(rows, phase=p, auditor=self._name)]
            Vocabulary(tuple(specs))
        except DemurError as exc:
            return Problem("bad_answer", f"auditor `{self._name}`: {exc.what}")
        self._checker = ClaimChecker(self._name, specs)
        return None

    async def close(self) -> None:
        await self._remote.close()


def _unchecked(claim: RemoteClaim) -> ClaimRow:
    said = (claim.metadata or {}).get("sensitive")
    sensitive = said if isinstance(said, bool) else None
    return ClaimRow(
        claim.name, claim.value, claim.type, 1.0 if claim.confidence is None else claim.confidence, sensitive
    )
