"""Opens a worker of the gateway: auditors, policy, log, keys and providers, as the settings say.

Everything that can be wrong in the settings is found here, before anything listens.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.audit.builtin import BUILTIN_AUDITORS
from demur.audit.chains import learn_vocabularies, open_chain
from demur.audit.config import AuditorSettings, ChainSettings
from demur.errors import UsageError
from demur.gateway.keys import read_client_keys
from demur.gateway.metrics import GatewayMetrics
from demur.gateway.request import SessionNamer, session_secret
from demur.gateway.settings import OnFailure
from demur.gateway.upstream import Provider
from demur.gateway.worker import PolicyWatch, Worker, draw_salts
from demur.http.pool import HttpPool, upstream_tls
from demur.http.upstream import UpstreamLimits, UpstreamTimeouts, origin_of
from demur.io.settings import secret_of
from demur.model.claim import Vocabulary
from demur.model.passport import Durability, SigningMode
from demur.policy.values import SAFETY_VOCABULARY
from demur.record.keys import Ed25519Signer
from demur.record.store.anchor_files import AnchorFile
from demur.record.store.key_files import read_private_key
from demur.record.store.location import LogPlace, log_place
from demur.record.store.sealing import utc_now
from demur.record.store.writer import LogWriter, WriterSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.audit.chain import Chain
    from demur.gateway.settings import GatewaySettings, RoutePart, UpstreamPart
    from demur.record.interface import DisclosureStore
    from demur.record.store.log_store import LogStore
    from demur.record.store.sealing import SignerSource

__all__ = ["default_chain", "open_worker"]

_CONNECTIONS_HELD_BYTES = 256 * 1024


async def open_worker(settings: GatewaySettings, *, metrics_folder: str, forwards: bool = True) -> Worker:
    """Return a worker that is not yet started; raise `DemurError` where the settings cannot be met.

    Without `forwards` it asks no provider: another proxy does, and has its exchanges decided and recorded here.
    """
    chain = open_chain(settings.auditors.file or default_chain())
    await learn_vocabularies(chain)
    keys = read_client_keys(settings.keys.file) if settings.keys.file else None
    names = tuple(link.name for link in chain.links)
    metrics = GatewayMetrics(metrics_folder, auditors=names, clients=keys.names if keys else ())
    policy = PolicyWatch(
        settings, _policy_vocabulary(chain), lambda opened: metrics.count_failure("policy_reload", opened=opened)
    )
    named: tuple[UpstreamPart | RoutePart, ...] = (settings.upstream, *settings.routes) if forwards else ()
    providers = {part: _provider(part, settings) for part in named}
    place = log_place(settings.store.url, settings.store.folder or None)
    secret = session_secret(place.folder)
    if place.folder is not None:
        place.folder.mkdir(parents=True, exist_ok=True)
    store = _open_log(place, settings.store.origin)
    disclosures = place.disclosures(utc_now, create=True) if settings.disclosure.on else None
    trace_exchange = None
    if settings.metrics.otel:
        # Loaded only where it is turned on: OpenTelemetry is an extra.
        from demur.gateway.telemetry import open_telemetry

        trace_exchange = open_telemetry().trace_exchange
    loop = asyncio.get_running_loop()

    def count(written: int, lost: int) -> None:
        metrics.count_records(written, lost)
        if written:
            worker.store_hangs = False

    def on_batch(written: int, lost: int) -> None:
        # Metrics are written by one thread, so that no two add to the same number at once.
        loop.call_soon_threadsafe(count, written, lost)

    writer = _open_writer(settings, place, store, disclosures=disclosures, on_batch=on_batch)
    # A database's password is not part of the digest: a digest of little can be guessed at.
    digested = replace(settings, store=replace(settings.store, url=place.shown))
    worker = Worker(
        settings,
        sha256(msgspec.json.encode(digested, order="sorted")).hexdigest(),
        chain,
        policy,
        store,
        writer,
        disclosures,
        metrics,
        providers,
        keys,
        SessionNamer(settings.sessions.headers, secret),
        draw_salts(),
        trace_exchange,
    )
    return worker


def _open_log(place: LogPlace, origin: str) -> LogStore:
    """Return the log under its name, or a new one where neither has any; of two workers that name it at once, one does."""
    if origin:
        return place.open(origin=origin, read_only=False)
    try:
        return place.open(read_only=False)
    except UsageError:
        with suppress(UsageError):
            return place.open(origin=f"demur.gateway/{os.urandom(8).hex()}", read_only=False)
        return place.open(read_only=False)


def _policy_vocabulary(chain: Chain) -> Vocabulary:
    """Return what policies may read: where an auditor has not told its claims, those of our own are taken for stated."""
    known = chain.vocabulary
    if all(link.port.vocabulary.specs for link in chain.links):
        return known
    try:
        return Vocabulary((*known.specs, *SAFETY_VOCABULARY.specs))
    except UsageError:
        # One of ours is declared there as another type: what the chain declares holds.
        return known


def default_chain() -> ChainSettings:
    """Return the chain where no file describes one: the auditors that come with Demur."""
    return ChainSettings((tuple(AuditorSettings(name, python=name) for name in BUILTIN_AUDITORS),))


def _provider(part: UpstreamPart | RoutePart, settings: GatewaySettings) -> Provider:
    times, limits = settings.timeouts, settings.limits
    pool = HttpPool(
        part.url,
        timeouts=UpstreamTimeouts(times.connect_s, times.read_s, times.total_s, times.idle_s),
        limits=UpstreamLimits(limits.header_bytes, _CONNECTIONS_HELD_BYTES, limits.idle_connections),
        tls=upstream_tls(ca_file=part.ca_file or None, verify=part.verify) if part.url.startswith("https") else None,
    )
    return Provider(part, pool, secret_of(part.api_key_env), origin_of(part.url).prefix)


def _open_writer(
    settings: GatewaySettings,
    place: LogPlace,
    store: LogStore,
    *,
    disclosures: DisclosureStore | None,
    on_batch: Callable[[int, int], None],
) -> LogWriter:
    keys: SignerSource | None = None
    if settings.signing.mode is not SigningMode.NONE:
        keys = _OperatorsKey(Path(settings.signing.key_file)) if settings.signing.key_file else place.keys()
    # Who wants no response without its record has every response wait for it.
    closed = settings.failure.store is OnFailure.CLOSED
    durability = Durability.SYNC if closed else settings.store.durability
    return LogWriter(
        store,
        keys,
        settings=WriterSettings(durability),
        disclosures=disclosures,
        anchor=AnchorFile(place.anchors) if place.anchors is not None else None,
        on_batch=on_batch,
    )


class _OperatorsKey:
    """A signer whose key the operator keeps elsewhere; whoever rotates it puts the new one in its place."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def signer(self, now: str) -> Ed25519Signer:  # noqa: ARG002 — the file says nothing of its window
        return Ed25519Signer(read_private_key(self._path))

    def renew(self, retired_id: str, now: str) -> Ed25519Signer:  # noqa: ARG002 — as `signer`
        return self.signer(now)
