"""Every fault that a log can have is caught, named and placed; one passport is shown to somebody who has none of our code."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.record.logs import ORIGIN, POLICY, Log, busy_log, decide, passport_of, phase_of, signer

from demur.errors import ShapeError, UsageError
from demur.model.claim import AuditorStatus, Decision, Effect, EnforcementGap, Phase
from demur.model.passport import (
    Check,
    Coverage,
    DeclineCause,
    Erasure,
    Fault,
    FaultKind,
    KeyRotation,
    Restart,
    StreamMode,
    Tally,
    Verification,
    Withheld,
)
from demur.record.checkpoint import NoteKey, countersign
from demur.record.commit import canonical, commit, withhold
from demur.record.seal import seal
from demur.record.tree import Frontier, grow, leaf_hash
from demur.record.verify import Evidence, Trust, Witnesses, check_bundle, prove, read_bundle, verify

TRUST = Trust(ORIGIN, (signer().public,))
REPLAYS = {POLICY: decide}


def checked(envelopes: list[bytes], *notes: bytes, trust: Trust = TRUST) -> Verification:
    return verify(envelopes, trust, Evidence(notes, REPLAYS))


def sealed(**fields: Any) -> bytes:
    """A passport that says this, and is otherwise sound."""
    return seal(structs.replace(passport_of(), **fields), signer())


def kinds(found: Verification) -> set[FaultKind]:
    return {fault.kind for fault in found.faults}


def first_bad(found: Verification) -> Fault:
    assert found.first_bad is not None
    return found.first_bad


def test_a_sound_log_is_sound() -> None:
    """With checkpoints and the policy, every check is made everywhere and holds; the root is that of the tree grown by hand."""
    log = busy_log(3)
    early = log.checkpoint()
    for session in "bab":
        log.exchange(session)
    found = checked(log.envelopes, early, log.checkpoint())
    assert (found.ok, found.records, found.first_bad) == (True, 6, None)
    frontier = Frontier()
    for envelope in log.envelopes:
        frontier, _ = grow(frontier, [leaf_hash(envelope)])
    assert frontier == log.tree.frontier
    assert found.root == frontier.root().hex()
    assert found.tally(Check.INCLUSION) == Tally(Check.INCLUSION, 6)
    assert found.tally(Check.CONSISTENCY) == Tally(Check.CONSISTENCY, 1)
    assert found.tally(Check.REPLAY) == Tally(Check.REPLAY, 12)
    exceptions = {tally.check for tally in found.tallies if not tally.complete}
    assert exceptions == {Check.COUNTERSIGNATURE}


def test_what_was_not_checked_is_said() -> None:
    """Without checkpoint and policy a log may be ok, and its tallies say how little that means."""
    log = busy_log()
    found = verify(log.envelopes, TRUST, Evidence())
    assert found.ok
    assert found.tally(Check.INCLUSION).unchecked == (("no checkpoint was given that counts", 6),)
    assert found.tally(Check.REPLAY).unchecked == ((f"no policy of digest {POLICY} was given", 12),)
    assert found.tally(Check.CONSISTENCY) == Tally(Check.CONSISTENCY)
    note = log.checkpoint()
    log.exchange("a")
    later = checked(log.envelopes, note)
    assert later.tally(Check.INCLUSION) == Tally(Check.INCLUSION, 6, 0, (("after the last checkpoint", 1),))


def test_an_empty_log_is_never_a_pass() -> None:
    """Nothing checked is nothing found, and not ok."""
    assert not checked([]).ok
    empty = checked([], Log().checkpoint())
    assert (empty.ok, empty.faults) == (False, ())


@given(st.data())
def test_any_changed_byte_is_caught(data: st.DataObject) -> None:
    """Whichever byte of whichever record is changed, that record is named, even without a checkpoint."""
    log = busy_log(3)
    index = data.draw(st.integers(0, 2))
    record = bytearray(log.envelopes[index])
    record[data.draw(st.integers(0, len(record) - 1))] ^= data.draw(st.integers(1, 255))
    spoiled = [*log.envelopes[:index], bytes(record), *log.envelopes[index + 1 :]]
    assert first_bad(checked(spoiled)).index == index
    assert FaultKind.ROOT_MISMATCH in kinds(checked(spoiled, log.checkpoint()))


@pytest.mark.parametrize("index", range(6))
def test_a_deleted_record_is_caught(index: int) -> None:
    """The root no longer fits, and where its session goes on, the gap is placed."""
    log = busy_log()
    left = [e for n, e in enumerate(log.envelopes) if n != index]
    found = checked(left, log.checkpoint())
    assert not found.ok
    assert FaultKind.TRUNCATED in kinds(found)
    if index < 4:
        first = first_bad(found)
        assert (first.kind, first.index) == (FaultKind.SEQUENCE, index + 1)
        assert "missing before it" in first.what
        assert kinds(checked(left)) == {FaultKind.SEQUENCE}


def test_swapped_records_are_caught() -> None:
    """Neighbours of different sessions swapped show in the root, and the stretch is named; inside a session the numbers show it."""
    log = busy_log()
    swaps = [(n, n + 1, FaultKind.ROOT_MISMATCH, 0, 5) for n in range(5)] + [(2, 4, FaultKind.SEQUENCE, 2, None)]
    for one, other, kind, index, until in swaps:
        swapped = list(log.envelopes)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        first = first_bad(checked(swapped, *([] if until is None else [log.checkpoint()])))
        assert (first.kind, first.index) == (kind, index)
        assert until is None or first.until == until


def test_a_replaced_record_breaks_the_link() -> None:
    """A record signed anew in another's place has the right number, and the next one does not follow it."""
    log = busy_log()
    forged = [*log.envelopes]
    forged[0] = seal(structs.replace(passport_of("a"), model_served="another"), signer())
    found = checked(forged)
    assert [(f.kind, f.index) for f in found.faults] == [(FaultKind.SEQUENCE, 2)]
    assert "does not follow" in found.faults[0].what


@pytest.mark.parametrize("kept", range(6))
def test_a_truncated_tail_is_caught(kept: int) -> None:
    """A later checkpoint tells how many records are missing at the end."""
    log = busy_log()
    found = checked(log.envelopes[:kept], log.checkpoint())
    assert kinds(found) == {FaultKind.TRUNCATED}
    assert [(f.index, f.until) for f in found.faults] == [(kept, 5)]


def test_every_record_is_counted_once() -> None:
    """Over checkpoints that hold, that do not, and that were never reached, inclusion counts each record once."""
    log, other = busy_log(2), busy_log(1)
    notes = [log.checkpoint()]
    for _ in range(2):
        log.exchange("a")
        notes.append(log.checkpoint())
    other.exchange("b", score="0.2000")
    for _ in range(3):
        other.exchange("c")
    tally = checked(other.envelopes, *notes).tally(Check.INCLUSION)
    assert tally == Tally(Check.INCLUSION, 0, 4, (("after the last checkpoint", 1),))
    assert len(checked(other.envelopes, *notes).faults) == 1
    assert checked(other.envelopes[:1], *notes).tally(Check.INCLUSION).failed == 3


def test_a_later_checkpoint_by_a_stranger_says_nothing() -> None:
    """A checkpoint beyond the last record shows no truncation where a key unknown so far has signed it."""
    log, forger = busy_log(2), busy_log(3)
    forger.key = signer(2)
    found = checked(log.envelopes, log.checkpoint(), forger.checkpoint())
    assert kinds(found) == {FaultKind.BAD_CHECKPOINT}


def test_a_forked_log_is_caught() -> None:
    """Two signed checkpoints of one size and different roots are not of one log; one kept elsewhere shows records written anew."""
    log, other = busy_log(3), busy_log(3)
    log.exchange("a")
    kept_elsewhere = log.checkpoint()
    other.exchange("a", score="0.2000")
    assert kinds(checked(log.envelopes, kept_elsewhere, other.checkpoint())) == {FaultKind.FORKED}
    other.exchange("b")
    found = checked(other.envelopes, kept_elsewhere, other.checkpoint())
    assert kinds(found) == {FaultKind.ROOT_MISMATCH, FaultKind.FORKED}
    assert found.tally(Check.CONSISTENCY).failed == 1


def test_a_wrong_key_is_caught() -> None:
    """A log signed with a key that the reader does not know fails record by record, checkpoints included."""
    log = Log(key=signer(2))
    for _ in range(3):
        log.exchange()
    found = checked(log.envelopes, log.checkpoint())
    assert kinds(found) == {FaultKind.UNKNOWN_KEY, FaultKind.BAD_CHECKPOINT}
    assert (found.tally(Check.SIGNATURE).failed, found.tally(Check.INCLUSION).passed) == (3, 0)


def test_a_checkpoint_of_another_log_says_nothing() -> None:
    """The right key under the wrong name does not vouch for these records, nor does what is no checkpoint."""
    log = busy_log(2)
    renamed = Trust("elsewhere.example/log", TRUST.keys)
    assert kinds(checked(log.envelopes, log.checkpoint(), trust=renamed)) == {FaultKind.BAD_CHECKPOINT}
    assert kinds(checked(log.envelopes, b"hello")) == {FaultKind.BAD_CHECKPOINT}


LIES = {
    "allowed": Decision(Effect.ALLOW),
    "another rule": Decision(Effect.DENY, ()),
    "a milder rule": Decision(
        Effect.DENY, (structs.replace(decide(phase_of("0.9000").context).rules[0], effect=Effect.LOG),)
    ),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_signed_lie_is_caught(lie: Decision) -> None:
    """A record with a valid signature whose decision is not the policy's is named."""
    log = busy_log(1)
    phase = structs.replace(phase_of("0.9000"), decision=lie)
    log.add(structs.replace(passport_of("x", second=1, score="0.9000"), phases=(phase,)))
    found = checked(log.envelopes, log.checkpoint())
    assert [(f.kind, f.index) for f in found.faults] == [(FaultKind.REPLAY, 1)]
    assert found.tally(Check.SIGNATURE).complete


def test_an_error_left_out_is_a_lie() -> None:
    """A policy that cannot be evaluated, or errors where the record has no error, contradicts the record."""

    def failing(_: str) -> Decision:
        raise UsageError("no such policy")

    def erring(_: str) -> Decision:
        return Decision(Effect.ALLOW, errors=("type error",))

    log = Log()
    log.exchange()
    for replay in (failing, erring):
        assert kinds(verify(log.envelopes, TRUST, Evidence(replays={POLICY: replay}))) == {FaultKind.REPLAY}


@pytest.mark.parametrize(("mode", "effect"), [("closed", Effect.DENY), ("warn", Effect.WARN)])
def test_a_failed_auditor_adds_to_the_decision(mode: str, effect: Effect) -> None:
    """What the failure mode demands is part of the replay: recorded it holds, left out it is a lie."""
    run = structs.replace(phase_of().auditors[0], status=AuditorStatus.TIMEOUT, failure_mode=mode)
    failed = structs.replace(phase_of(), auditors=(run,), decision=Decision(effect, errors=("timeout",)))
    for phase, good in ((failed, True), (structs.replace(failed, decision=Decision(Effect.ALLOW)), False)):
        gaps = (EnforcementGap(Phase.REQUEST, "failed_open", run.auditor),) if mode == "warn" else ()
        assert checked([sealed(phases=(phase,), causes=(DeclineCause.GATEWAY_BLOCK,), gaps=gaps)]).ok is good


def test_a_hidden_gap_is_caught() -> None:
    """An auditor that failed open, text that went unscanned and a denial not enforced are on record, each as its own gap."""
    run = structs.replace(phase_of().auditors[0], status=AuditorStatus.ERROR, failure_mode="open")
    opened = structs.replace(phase_of(), auditors=(run,))
    unscanned = structs.replace(phase_of(), coverage=Coverage(StreamMode.PASSED, 10, 20))
    words = (("failed_open", "safety-checker"), ("unscanned", None), ("unenforced", None))
    gaps = [EnforcementGap(Phase.REQUEST, what, auditor) for what, auditor in words]
    for own, phase in zip(gaps, (opened, unscanned, phase_of("0.9000")), strict=True):
        others = tuple(gap for gap in gaps if gap is not own)
        for said in ((), others, (structs.replace(own, phase=Phase.RESPONSE),)):
            assert kinds(checked([sealed(phases=(phase,), gaps=said)])) == {FaultKind.HIDDEN_GAP}
        assert checked([sealed(phases=(phase,), gaps=(own,))]).ok


@pytest.mark.parametrize("mode", [None, "warn", "open", "ignored", "closed"])
def test_a_failed_auditor_is_never_passed_over(mode: str | None) -> None:
    """Whatever mode a failed auditor is recorded with, it has denied or it is a gap; a mode that there is not is a fault."""
    run = structs.replace(phase_of().auditors[0], status=AuditorStatus.TIMEOUT, failure_mode=mode)
    phase = structs.replace(phase_of(), auditors=(run,), decision=Decision(Effect.WARN))
    gap = EnforcementGap(Phase.REQUEST, "failed_open", run.auditor)
    found = [verify([sealed(phases=(phase,), gaps=gaps)], TRUST, Evidence()) for gaps in ((), (gap,))]
    assert kinds(found[0]) == {FaultKind.HIDDEN_GAP}
    assert found[1].ok is (mode in ("warn", "open"))


@pytest.mark.parametrize(("key", "value"), [("action", "response"), ("principal", "other"), ("resource", "large")])
def test_a_context_of_something_else_is_a_lie(key: str, value: str) -> None:
    """A decision on the context of another phase, session or model is none on this exchange."""
    phase = phase_of()
    context = json.dumps(json.loads(phase.context) | {key: value})
    found = checked([sealed(phases=(structs.replace(phase, context=context),))])
    assert kinds(found) == {FaultKind.REPLAY}
    assert value in found.faults[0].what


@pytest.mark.parametrize(
    ("scores", "good"), [((0.99,), False), ((0.45004,), True), ((0.2, 0.45), True), ((0.45, 0.5), False)]
)
def test_what_auditors_stated_is_what_was_decided_on(scores: tuple[float, ...], good: bool) -> None:  # noqa: FBT001 — a case
    """The context has the highest of the scores that were stated, at four digits, or the record is a lie."""
    phase = phase_of("0.4500")
    claims = tuple(structs.replace(phase.claims[0], value=score, confidence=0.9) for score in scores)
    assert checked([sealed(phases=(structs.replace(phase, claims=claims),))]).ok is good


def test_a_claim_left_out_of_the_context_is_a_lie_where_it_matters() -> None:
    """A claim that was stated and would have changed the decision is in the context; one that changes nothing need not be."""

    def denying(context: str) -> Decision:
        hot = "toxic_content" in json.loads(context)["claims"]
        return Decision(Effect.DENY if hot else Effect.ALLOW)

    phase = phase_of("0.9000")
    context = json.dumps(json.loads(phase.context) | {"claims": {}})
    phase = structs.replace(phase, context=context, decision=Decision(Effect.ALLOW))
    unread = structs.replace(phase, claims=(structs.replace(phase.claims[0], name="other"),))
    for each, good in ((phase, False), (unread, True)):
        envelope = sealed(phases=(each,))
        found = verify([envelope], TRUST, Evidence(replays={POLICY: denying}))
        assert found.ok is good


def test_a_withheld_claim_has_no_value_in_the_context() -> None:
    """A claim that is withheld and yet has a value in the context was not decided on as it was stated."""
    commitment, _ = commit(b"0.99", bytes(16))
    phase = phase_of()
    claim = structs.replace(phase.claims[0], sensitive=True, value=None)
    phase = structs.replace(phase, claims=(claim,), withheld=(Withheld("toxic_content", commitment),))
    found = checked([sealed(phases=(phase,))])
    assert kinds(found) == {FaultKind.REPLAY}


def test_a_clock_that_runs_backwards_is_caught() -> None:
    """Within a session any step back is named, across the log one beyond the slack."""
    log = Log()
    log.add(passport_of("a", second=30))
    log.add(passport_of("b", second=26))
    assert checked(log.envelopes).ok
    log.add(structs.replace(passport_of("a", 1, second=29), previous=log.tails["a"][1]))
    log.add(passport_of("c", second=20))
    found = checked(log.envelopes)
    assert [(f.kind, f.index) for f in found.faults] == [(FaultKind.CLOCK, 2), (FaultKind.CLOCK, 3)]


def test_unsigned_records_count_only_where_allowed() -> None:
    """A log stamped unsigned is a fault, unless the reader has said otherwise, and then it is said."""
    log = Log(key=None)
    log.exchange()
    assert kinds(checked(log.envelopes)) == {FaultKind.UNSIGNED}
    allowed = checked(log.envelopes, trust=replace(TRUST, allow_unsigned=True))
    assert (allowed.ok, allowed.tally(Check.SIGNATURE).unchecked) == (True, (("stamped as unsigned", 1),))


@pytest.mark.parametrize(
    ("number", "faults"), [(2, set()), (1, {FaultKind.KEY_NOT_VALID, FaultKind.BAD_CHECKPOINT})], ids=["new", "retired"]
)
def test_a_rotation_is_followed(number: int, faults: set[FaultKind]) -> None:
    """Who trusts the first key alone can check records and checkpoints of the second; what the first signs then no longer counts."""
    log = busy_log(2)
    log.add(KeyRotation("2026-01-01T00:00:02Z", signer(2).public))
    log.key = signer(number)
    log.exchange("a")
    found = checked(log.envelopes, log.checkpoint())
    assert (found.ok, kinds(found)) == (not faults, faults)


def test_a_rotation_by_a_stranger_is_not_followed() -> None:
    """A key cannot bring itself in, neither signed by itself nor unsigned."""
    log = busy_log(2)
    for key in (signer(2), None):
        log.key = key
        log.add(KeyRotation("2026-01-01T00:00:02Z", signer(2).public))
    log.key = signer(2)
    log.exchange("a")
    found = checked(log.envelopes, trust=replace(TRUST, allow_unsigned=True))
    assert [(f.kind, f.index) for f in found.faults] == [(FaultKind.UNKNOWN_KEY, 2), (FaultKind.UNKNOWN_KEY, 4)]


def test_a_rotation_to_a_damaged_key_is_caught() -> None:
    """A key under a false id is not trusted, and the old key stays."""
    log = busy_log(1)
    log.add(KeyRotation("2026-01-01T00:00:02Z", replace(signer(2).public, key_id="0" * 32)))
    log.exchange("b")
    assert [(f.kind, f.index) for f in checked(log.envelopes).faults] == [(FaultKind.MALFORMED, 1)]


def test_restarts_and_erasures_are_entries() -> None:
    """A restart that found the log as it is holds, one that found another is caught; an erasure changes nothing."""
    log = busy_log(2)
    root = log.tree.frontier.root().hex()
    log.add(Restart("2026-01-01T00:00:03Z", 2, root, "c" * 64, POLICY, clean=True))
    log.add(Erasure("2026-01-01T00:00:04Z", ("a" * 64,), "asked for"))
    log.exchange("a")
    assert checked(log.envelopes, log.checkpoint()).ok
    log.add(Restart("2026-01-01T00:00:05Z", 5, root, "c" * 64, POLICY, clean=False))
    first = first_bad(checked(log.envelopes))
    assert (first.kind, first.index) == (FaultKind.ROOT_MISMATCH, 5)


def test_countersignatures_can_be_asked_for() -> None:
    """A checkpoint without the second signature is a fault, with it the check holds, forged it says nothing."""
    log = busy_log(2)
    witness = NoteKey("witness.example/w", signer(3).public)
    trust = replace(TRUST, witnesses=Witnesses((witness,), needed=1))
    alone, both = log.checkpoint(), countersign(log.checkpoint(), signer(3), witness.name)
    assert kinds(checked(log.envelopes, alone, trust=trust)) == {FaultKind.NOT_COUNTERSIGNED}
    assert checked(log.envelopes, both, trust=trust).tally(Check.COUNTERSIGNATURE).complete


def test_a_second_signer_is_somebody_else() -> None:
    """Neither the log's own key under another name nor one witness under two names counts for two."""
    log = busy_log(2)
    names = (NoteKey("w.example/own", signer().public), *(NoteKey(f"w.example/{n}", signer(3).public) for n in "ab"))
    note = countersign(log.checkpoint(), signer(), names[0].name)
    for name in names[1:]:
        note = countersign(note, signer(3), name.name)
    for needed, good in ((1, True), (2, False)):
        trust = replace(TRUST, witnesses=Witnesses(names, needed=needed))
        assert checked(log.envelopes, note, trust=trust).ok is good


def test_a_range_is_checked_from_a_kept_state() -> None:
    """From a frontier on, the rest verifies against later checkpoints, and earlier things are said to be unchecked."""
    log = busy_log(3)
    early, frontier = log.checkpoint(), log.tree.frontier
    older = busy_log(2).checkpoint()
    for _ in range(2):
        log.exchange("a")
    log.exchange("new")
    evidence = Evidence((older, early, log.checkpoint()), REPLAYS, start=Frontier.from_bytes(frontier.to_bytes()))
    found = verify(log.envelopes[3:], TRUST, evidence)
    assert (found.ok, found.records, found.root) == (True, 3, log.tree.frontier.root().hex())
    assert found.tally(Check.INCLUSION).complete
    unchecked = (("the session began before this range", 1),)
    assert found.tally(Check.SEQUENCE) == Tally(Check.SEQUENCE, 2, 0, unchecked)
    assert found.tally(Check.CONSISTENCY).unchecked == (("the checkpoint lies before this range", 1),)


def test_a_withheld_value_is_replayed_once_disclosed() -> None:
    """Without the disclosure nothing is claimed about the decision; with it the decision is replayed."""
    phase = phase_of("0.9000")
    claim = structs.replace(phase.claims[0], sensitive=True)
    hidden, (kept,) = withhold(structs.replace(phase, claims=(claim,)), iter([bytes(16)]))
    envelope = seal(structs.replace(passport_of(score="0.9000"), phases=(hidden,)), signer())
    closed = verify([envelope], TRUST, Evidence(replays=REPLAYS))
    assert closed.tally(Check.REPLAY).unchecked == (("a withheld value was not disclosed", 1),)
    opened = verify([envelope], TRUST, Evidence(replays=REPLAYS, disclose={kept.digest: kept}.get))
    assert opened.tally(Check.REPLAY).complete


def test_a_commitment_to_no_value_is_a_lie() -> None:
    """Where the disclosed text meets its commitment and is no JSON, the record cannot have been evaluated."""
    commitment, kept = commit(b"{", bytes(16))
    claim = structs.replace(phase_of().claims[0], sensitive=True, value=None)
    context = canonical({"claims": {"toxic_content": {"withheld": commitment.digest}}}).decode()
    phase = structs.replace(
        phase_of(), claims=(claim,), context=context, withheld=(Withheld("toxic_content", commitment),)
    )
    envelope = sealed(phases=(phase,))
    found = verify([envelope], TRUST, Evidence(replays=REPLAYS, disclose={kept.digest: kept}.get))
    assert kinds(found) == {FaultKind.REPLAY}


def test_a_broken_log_does_not_fill_the_memory() -> None:
    """Faults are counted to the end and listed to a limit."""
    found = checked([json.dumps(n).encode() for n in range(150)])
    assert (len(found.faults), found.tally(Check.SIGNATURE).failed) == (100, 150)


SCRIPT = Path(__file__).parents[2] / "examples" / "verify_passport.py"
KEY = signer().public


def bundle_of(log: Log, index: int = 4) -> bytes:
    return prove(log.envelopes[index], index, checkpoint=log.checkpoint(), node=log.tree.node, keys=[KEY])


def script(path: Path, *keys: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, path, *keys], capture_output=True, text=True, check=False)  # noqa: S603 — our own example
    return done.returncode, done.stdout + done.stderr


def flipped(envelope: str) -> str:
    raw = bytearray(b64decode(envelope))
    raw[200] ^= 1
    return b64encode(raw).decode()


STRANGER = signer(2).public
SPOILERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "flipped bit": lambda form: {"envelope": flipped(form["envelope"])},
    "other index": lambda _: {"index": 3},
    "index beyond": lambda _: {"index": 6},
    "short proof": lambda form: {"proof": form["proof"][:-1]},
    "other size": lambda form: {"checkpoint": form["checkpoint"].replace("\n6\n", "\n7\n")},
    "respaced": lambda form: {"envelope": b64encode(b64decode(form["envelope"]) + b" ").decode()},
    "other key": lambda _: {"keys": [{"key_id": STRANGER.key_id, "ed25519": STRANGER.ed25519}]},
}


def spoiled(how: str) -> bytes:
    form = json.loads(bundle_of(busy_log()))
    return json.dumps(form | SPOILERS[how](form)).encode()


def test_a_bundle_verifies_here() -> None:
    """A record under a signed checkpoint is accepted by who trusts its key, and by nobody else."""
    bundle = read_bundle(bundle_of(busy_log()))
    assert check_bundle(bundle, [KEY], origin=ORIGIN) is None
    faults = (
        check_bundle(bundle, [STRANGER], origin=ORIGIN),
        check_bundle(bundle, [KEY], origin="elsewhere.example/log"),
    )
    assert [fault and fault.kind for fault in faults] == [FaultKind.UNKNOWN_KEY, FaultKind.BAD_CHECKPOINT]


@pytest.mark.heavy
@pytest.mark.parametrize("index", range(6))
def test_a_good_bundle_verifies_anywhere(tmp_path: Path, index: int) -> None:
    """The example accepts what we prove, with only a common library, and prints the record."""
    path = tmp_path / "bundle.json"
    path.write_bytes(bundle_of(busy_log(), index))
    code, said = script(path, KEY.ed25519)
    assert (code, f"verified: record {index} of 6" in said, '"session":' in said) == (0, True, True)


def test_without_a_key_of_your_own_you_are_told(tmp_path: Path) -> None:
    """The bundle's own keys do not vouch for it: the example says which to compare."""
    path = tmp_path / "bundle.json"
    path.write_bytes(bundle_of(busy_log()))
    assert f"compare the keys: {KEY.ed25519}" in script(path)[1]
    assert script(path, signer(2).public.ed25519)[0] == 1


@pytest.mark.heavy
@pytest.mark.parametrize("how", SPOILERS)
def test_a_spoiled_bundle_is_refused_everywhere(tmp_path: Path, how: str) -> None:
    """Whatever is changed in a bundle, the example refuses it, and so do we, who take no key from the bundle itself."""
    path = tmp_path / "bundle.json"
    path.write_bytes(spoiled(how))
    code, said = script(path)
    assert (code, said.startswith("NOT VERIFIED")) == (1, True)
    try:
        fault = check_bundle(read_bundle(spoiled(how)), [KEY], origin=ORIGIN)
    except ShapeError:
        return
    assert (fault is None) == (how == "other key")


def test_nothing_false_is_proved() -> None:
    """A record of another log, or one after the checkpoint, gets no bundle."""
    log = busy_log()
    note = log.checkpoint()
    log.exchange("a")
    with pytest.raises(UsageError, match="leaf 6 is not in a tree of 6"):
        prove(log.envelopes[6], 6, checkpoint=note, node=log.tree.node, keys=[KEY])
    with pytest.raises(UsageError, match="not under this checkpoint"):
        prove(log.envelopes[5], 4, checkpoint=note, node=log.tree.node, keys=[KEY])


def test_what_is_no_bundle() -> None:
    """Anything else is refused by name, and a later format is not read as this one."""
    for data in (b"", b"[]", b"\xff", b'{"format":"urn:demur:bundle:v1"}'):
        with pytest.raises(ShapeError, match="no bundle"):
            read_bundle(data)
    with pytest.raises(ShapeError, match="bundle:v2"):
        read_bundle(bundle_of(busy_log()).replace(b"bundle:v1", b"bundle:v2"))
