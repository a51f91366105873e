"""What does a record cost beyond its signature? Prints µs of CPU, the ratio to bare Ed25519 in the same run, and bytes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from demur.model.claim import AuditorRun, AuditorStatus, Claim, ClaimType, Decision, Effect, Phase
from demur.model.exchange import Channel
from demur.model.passport import Commitment, Coverage, Passport, PhaseRecord, StreamMode
from demur.record.checkpoint import Checkpoint, issue_checkpoint
from demur.record.keys import Ed25519Signer
from demur.record.seal import open_sealed, pre_authentication, seal
from demur.record.tree import Frontier, consistency_proof, grow, inclusion_proof, leaf_hash
from demur.record.verify import Evidence, Trust, verify

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 2000
LEAVES = 100_000
SESSION = "5f2c9f0e-6c1e-4a8e-9a5e-3f1d2b7c8a90"
NAMES = ("toxic_content", "prompt_injection", "refusal_score", "pii_detected")
MAX_ISSUE_US, MAX_BYTES, MIN_RECORDS_A_SECOND = 600, 2500, 1000


def phase_of(phase: Phase, names: tuple[str, ...], auditors: int) -> PhaseRecord:
    """Return a phase with these scores, spread over so many auditors."""
    runs = tuple(
        AuditorRun(f"safety-checker-{n}"[: 14 + 2 * n], "1.2.0", AuditorStatus.OK, 812) for n in range(auditors)
    )
    claims = [
        Claim(name, ClaimType.SCORE_NORMALIZED, 0.4512, phase, runs[n % auditors].auditor)
        for n, name in enumerate(names)
    ]
    stated = {name: {"__extn": {"fn": "decimal", "arg": "0.4512"}} for name in names}
    asked: dict[str, object] = {
        "principal": SESSION,
        "action": phase.value,
        "resource": "gpt-4o-mini",
        "labels": [],
        "errors": {},
    }
    context = asked | {"claims": stated, "extras": {}}
    seen = Coverage(StreamMode.WINDOWED, 1800, 1800, (Channel.TEXT,)) if phase is Phase.RESPONSE else None
    return PhaseRecord(phase, tuple(claims), Decision(Effect.ALLOW), runs, json.dumps(context), coverage=seen)


def passport_of(claims: int, auditors: int) -> Passport:
    """Return an ordinary passport: both phases, digests and a link, nothing fired."""
    return Passport(
        session=SESSION,
        seq=3,
        at="2026-01-01T00:00:00.123456Z",
        model_asked="gpt-4o-mini",
        model_served="gpt-4o-mini-2024-07-18",
        config_digest="c" * 64,
        policy_digest="d" * 64,
        request=Commitment("a" * 64, 512),
        response=Commitment("b" * 64, 1800),
        phases=tuple(phase_of(phase, NAMES[:claims], auditors) for phase in (Phase.REQUEST, Phase.RESPONSE)),
        finish_reasons=("stop",),
        upstream_status=200,
        previous="e" * 64,
    )


def cpu_us(call: Callable[[], object], runs: int, *, repeat: int = 5) -> float:
    """Return the best of some timings of one call, in µs of this process's CPU."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time_ns()
        for _ in range(runs):
            call()
        best = min(best, (time.process_time_ns() - start) / runs / 1000)
    return best


def log_of(signer: Ed25519Signer) -> tuple[list[bytes], bytes]:
    """Return a sound log of one session and its checkpoint."""
    envelopes: list[bytes] = []
    frontier, previous = Frontier(), None
    for seq in range(RECORDS):
        envelopes.append(seal(replace(passport_of(2, 1), seq=seq, previous=previous), signer))
        leaf = leaf_hash(envelopes[-1])
        frontier, _ = grow(frontier, [leaf])
        previous = leaf.hex()
    return envelopes, issue_checkpoint(Checkpoint("bench.example/log", RECORDS, frontier.root()), signer)


def seals(private: Ed25519PrivateKey, signer: Ed25519Signer) -> None:
    """Print issuing: time over bare signing, and size."""
    for claims, auditors in ((2, 1), (4, 2)):
        passport = passport_of(claims, auditors)
        envelope = seal(passport, signer)
        signed = pre_authentication(open_sealed(envelope).payload)
        floor, cost = (
            cpu_us(call, 500) for call in (lambda s=signed: private.sign(s), lambda p=passport: seal(p, signer))
        )
        print(
            f"issue, 2 phases of {claims} claims, {auditors} auditor(s): {cost:.0f} µs (bare sign {floor:.0f}, "
            f"ratio {cost / floor:.2f}, bound {MAX_ISSUE_US}), {len(envelope)} bytes"
            + (f" (bound {MAX_BYTES})" if claims == 2 else "")
        )


def verification(private: Ed25519PrivateKey, signer: Ed25519Signer) -> None:
    """Print checking a log: all checks but the policy's own work, over bare verifying."""
    envelopes, note = log_of(signer)
    signed = pre_authentication(open_sealed(envelopes[0]).payload)
    public, signature = private.public_key(), private.sign(signed)
    floor = cpu_us(lambda: public.verify(signature, signed), 500)
    trust = Trust("bench.example/log", (signer.public,))
    evidence = Evidence((note,), {"d" * 64: lambda _: Decision(Effect.ALLOW)})
    if not verify(envelopes, trust, evidence).ok:
        raise SystemExit("the log that was made here does not verify")
    cost = cpu_us(lambda: verify(envelopes, trust, evidence), 1, repeat=3) / RECORDS
    print(
        f"verify: {cost:.0f} µs a record, {1e6 / cost:.0f} records/s (bare verify {floor:.0f} µs, "
        f"ratio {cost / floor:.2f}, bound {MIN_RECORDS_A_SECOND}/s)"
    )


def trees() -> None:
    """Print growing and proving, over one hash of an inner node."""
    leaves = [leaf_hash(n.to_bytes(4, "big")) for n in range(LEAVES)]
    floor = cpu_us(lambda: leaf_hash(bytes(64)), 5000)
    start = time.process_time_ns()
    _, made = grow(Frontier(), leaves)
    append = (time.process_time_ns() - start) / LEAVES / 1000
    nodes = {(level, index): found for level, index, found in made}
    inclusion = cpu_us(lambda: inclusion_proof(12_345, LEAVES, lambda *at: nodes[at]), 200)
    consistency = cpu_us(lambda: consistency_proof(54_321, LEAVES, lambda *at: nodes[at]), 200)
    print(
        f"tree of {LEAVES}: append {append:.1f} µs (ratio to one hash {append / floor:.1f}), "
        f"inclusion proof {inclusion:.0f} µs, consistency proof {consistency:.0f} µs"
    )


def main() -> None:
    """Print one line a subject."""
    private = Ed25519PrivateKey.from_private_bytes(bytes(32))
    signer = Ed25519Signer(private)
    seals(private, signer)
    verification(private, signer)
    trees()


if __name__ == "__main__":
    main()
