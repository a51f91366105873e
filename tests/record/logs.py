"""Small logs for the tests: real keys, real seals, a policy of one rule."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from demur.model.claim import AuditorRun, AuditorStatus, Claim, ClaimType, Decision, Effect, FiredRule, Phase
from demur.model.passport import Commitment, DeclineCause, LogEntry, Passport, PhaseRecord
from demur.record.checkpoint import Checkpoint, issue_checkpoint
from demur.record.keys import Ed25519Signer
from demur.record.seal import open_sealed, seal
from demur.record.store.log_store import LogStore
from demur.record.tree import Frontier, grow, leaf_hash

ORIGIN = "gateway.example/log"
POLICY = "d" * 64


def append(store: LogStore, envelopes: Sequence[bytes]) -> range:
    """Append a batch of envelopes under one lock; return their indices."""
    with store.exclusive() as locked:
        return locked.append([open_sealed(envelope) for envelope in envelopes])


def signer(number: int = 1) -> Ed25519Signer:
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


def context_of(score: str, phase: Phase = Phase.REQUEST, *, session: str = "s") -> str:
    """What a gate evaluates, as it gives it."""
    claims = {"toxic_content": {"__extn": {"arg": score, "fn": "decimal"}}}
    asked: dict[str, object] = {"action": phase.value, "claims": claims, "errors": {}, "extras": {}, "labels": []}
    return json.dumps(asked | {"principal": session, "resource": "small"}, separators=(",", ":"))


def decide(context: str) -> Decision:
    """Deny above 0.8, as the policy of digest `POLICY` does."""
    score = float(json.loads(context)["claims"]["toxic_content"]["__extn"]["arg"])
    rule = FiredRule("no-toxic", Effect.DENY, "toxic", "rules.cedar:1")
    return Decision(Effect.DENY, (rule,)) if score > 0.8 else Decision(Effect.ALLOW)


def phase_of(score: str = "0.4500", phase: Phase = Phase.REQUEST, *, session: str = "s") -> PhaseRecord:
    claim = Claim("toxic_content", ClaimType.SCORE_NORMALIZED, float(score), phase, "safety-checker")
    run = AuditorRun("safety-checker", "1.2.0", AuditorStatus.OK, 812)
    context = context_of(score, phase, session=session)
    return PhaseRecord(phase, (claim,), decide(context), (run,), context)


def passport_of(session: str = "s", seq: int = 0, *, second: int = 0, score: str = "0.4500") -> Passport:
    return Passport(
        session=session,
        seq=seq,
        at=f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z",
        model_asked="small",
        model_served="small-2026",
        config_digest="c" * 64,
        policy_digest=POLICY,
        request=Commitment("a" * 64, 512),
        response=Commitment("b" * 64, 1800),
        phases=(phase_of(score, session=session), phase_of("0.1000", Phase.RESPONSE, session=session)),
        finish_reasons=("stop",),
        upstream_status=200,
        causes=(DeclineCause.GATEWAY_BLOCK,) if float(score) > 0.8 else (),
    )


class MemoryTree:
    """A tree with all its perfect nodes in memory, for proofs where there is no store; `node` is a `NodeReader`."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.frontier = Frontier()
        self._nodes: dict[tuple[int, int], bytes] = {}
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> int:
        """Add a leaf hash; return its index."""
        self.frontier, nodes = grow(self.frontier, [leaf])
        self._nodes |= {(level, index): found for level, index, found in nodes}
        return self.frontier.size - 1

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a perfect subtree."""
        return self._nodes[level, index]


@dataclass
class Log:
    """A log in memory, written as a gateway would."""

    key: Ed25519Signer | None = field(default_factory=signer)
    envelopes: list[bytes] = field(default_factory=list)
    tree: MemoryTree = field(default_factory=MemoryTree)
    tails: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, entry: LogEntry) -> bytes:
        """Seal an entry as it stands and append it."""
        envelope = seal(entry, self.key)
        self.envelopes.append(envelope)
        self.tree.append(leaf_hash(envelope))
        if isinstance(entry, Passport):
            self.tails[entry.session] = (entry.seq, leaf_hash(envelope).hex())
        return envelope

    def exchange(self, session: str = "s", *, score: str = "0.4500") -> bytes:
        """Append the session's next passport, a second after the last record."""
        seq, previous = self.tails.get(session, (-1, None))
        entry = passport_of(session, seq + 1, second=len(self.envelopes), score=score)
        return self.add(replace(entry, previous=previous))

    def checkpoint(self) -> bytes:
        """Sign the log as it stands."""
        frontier = self.tree.frontier
        return issue_checkpoint(Checkpoint(ORIGIN, frontier.size, frontier.root()), self.key or signer())


def busy_log(records: int = 6) -> Log:
    """Two sessions in turn; every third exchange is denied."""
    log = Log()
    for number in range(records):
        log.exchange("ab"[number % 2], score="0.9000" if number % 3 == 2 else "0.4500")
    return log
