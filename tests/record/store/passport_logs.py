"""Real logs in temporary folders: a writer, a key, a policy of one rule, and passports that it decided on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from demur.model.claim import AuditorRun, AuditorStatus, Claim, ClaimType, Effect, Phase
from demur.model.passport import DeclineCause, Passport, PhaseRecord, Verification
from demur.policy.files import read_policies
from demur.policy.gate import Ask, PolicyGate, load_gate
from demur.policy.values import SAFETY_VOCABULARY
from demur.record.commit import Disclosure, commit
from demur.record.interface import Database, SealedEntry
from demur.record.seal import open_sealed
from demur.record.store.anchor_files import AnchorFile, SecondSigner, read_notes
from demur.record.store.location import LogPlace, log_place
from demur.record.store.writer import Durability, LogWriter, WriterSettings
from demur.record.verify import Evidence, Trust, verify

ORIGIN = "gateway.example/log"
RULE = '@id("hot") forbid (principal, action, resource) when { context.claims.toxic_content > 0.8 };\n'
SYNC = WriterSettings(Durability.SYNC, interval_s=0.0, checkpoint_s=3600.0)


def ticking(step_s: float = 1.0, *, start: str = "2026-01-31T12:00:00.000000Z") -> Callable[[], str]:
    """A clock that moves by the same step at every look."""
    now = datetime.fromisoformat(start)

    def look() -> str:
        nonlocal now
        now += timedelta(seconds=step_s)
        return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    return look


def gate_in(folder: Path) -> PolicyGate:
    """The gate of the one rule, its text in the folder for `--policy`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "hot.cedar"
    path.write_text(RULE)
    return load_gate(read_policies([str(path)]).sources, vocabulary=SAFETY_VOCABULARY)


def decided(gate: PolicyGate, session: str = "s", *, score: float = 0.1, model: str = "small") -> Passport:
    """A passport of an exchange with that toxic score, decided by the gate."""
    claim = Claim("toxic_content", ClaimType.SCORE_NORMALIZED, score, Phase.REQUEST, "safety")
    ask = Ask(Phase.REQUEST, (claim,), session=session, model=model)
    decision = gate.decide(ask)
    run = AuditorRun("safety", "1.0", AuditorStatus.OK, 120)
    phase = PhaseRecord(Phase.REQUEST, (claim,), decision, (run,), json.dumps(gate.context_of(ask)))
    denied = decision.effect is Effect.DENY
    return Passport(
        session=session,
        seq=0,
        at="",
        model_asked=model,
        model_served=None if denied else model,
        config_digest="c" * 64,
        policy_digest=gate.digest,
        request=None,
        response=None,
        phases=(phase,),
        causes=(DeclineCause.GATEWAY_BLOCK,) if denied else (),
        upstream_status=None if denied else 200,
    )


def committed(text: str, number: int = 0) -> Disclosure:
    """What is behind the commitment to a text."""
    return commit(text.encode(), bytes([number]) * 16)[1]


@contextmanager
def writing(
    place: LogPlace,
    *,
    settings: WriterSettings = SYNC,
    clock: Callable[[], str] | None = None,
    second: SecondSigner | None = None,
    signed: bool = True,
) -> Iterator[LogWriter]:
    """A started writer, closed afterwards."""
    store = place.open(origin=ORIGIN, read_only=False)
    clock = clock or ticking()
    texts = place.disclosures(clock, create=True)
    anchor = None if place.anchors is None else AnchorFile(place.anchors, second=second)
    keys = place.keys() if signed else None
    writer = LogWriter(store, keys, settings=settings, disclosures=texts, anchor=anchor, clock=clock)
    try:
        writer.start("c" * 64, "d" * 64)
        yield writer
        writer.close()
    finally:
        texts.close()
        store.close()


def opened_at(place: LogPlace, index: int) -> SealedEntry:
    """One entry of a log, opened; -1 is the last."""
    with closing(place.open(read_only=True)) as store:
        at = index % store.frontier().size
        return open_sealed(next(store.read(at, at + 1)))


def verified(place: LogPlace, *, with_anchors: bool = False) -> Verification:
    """What a check of a whole log by its first key and its checkpoints finds."""
    with closing(place.open(read_only=True)) as store:
        notes = (*store.checkpoints(), *(read_notes(place.anchors) if with_anchors and place.anchors else ()))
        entries = store.read(0, store.frontier().size)
        return verify(entries, Trust(ORIGIN, place.keys().public()[:1]), Evidence(notes))


def fill_disk(db: Database) -> None:
    """Let the store's file grow no more."""
    db.ask("PRAGMA wal_checkpoint(TRUNCATE)")
    db.ask("PRAGMA max_page_count = 1")


def free_disk(db: Database) -> None:
    """Let it grow again."""
    db.ask("PRAGMA max_page_count = 1000000")


def small_log(
    folder: Path, records: int = 6, *, clock: Callable[[], str] | None = None, database: str = ""
) -> LogPlace:
    """A log of two sessions in turn, every third exchange denied, closed in order."""
    place = log_place(database or str(folder), str(folder))
    gate = gate_in(folder / "policy")
    with writing(place, clock=clock) as writer:
        for number in range(records):
            score = 0.9 if number % 3 == 2 else 0.1
            writer.submit(decided(gate, "ab"[number % 2], score=score)).receipt.result(timeout=30)
    return place
