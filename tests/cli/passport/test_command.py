"""`demur passport` as its users meet it: sound logs hold, every fault is named, nothing unchecked is passed over."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from tests.cli.calling import Capture, call
from tests.record.store.passport_logs import ORIGIN, decided, gate_in, small_log, ticking, writing

from demur.errors import DemurError
from demur.model.claim import AuditorRun, AuditorStatus, Decision, Effect, EnforcementGap, Phase
from demur.model.passport import DeclineCause, Passport
from demur.record.checkpoint import Checkpoint, NoteKey, issue_checkpoint
from demur.record.commit import Disclosure, commit, withhold
from demur.record.store.anchor_files import SecondSigner
from demur.record.store.key_files import KeyFolder
from demur.record.store.location import LogPlace, log_place
from demur.record.store.log_store import StoredEntry
from demur.record.tree import Frontier, grow, leaf_hash


def run(capsys: Capture, *args: object) -> tuple[int, str]:
    """Return the exit code and what was printed, errors as the command line's main shows them."""
    try:
        code = call("passport", *args)
    except DemurError as exc:
        return 2, str(exc)
    out, err = capsys.readouterr()
    assert all(len(line) <= 80 or "--json" in args or "+" in line for line in out.splitlines())
    return code, out + err


def asked(capsys: Capture, *args: object) -> tuple[int, Any]:
    """Return the exit code and the JSON object printed."""
    code, out = run(capsys, *args, "--json")
    return code, json.loads(out)


def change(file: Path, *statements: str) -> None:
    """Change a database behind its owner's back."""
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def alter(place: LogPlace, *statements: str) -> None:
    """Change the database behind the log's back."""
    change(Path(place.store), *statements)


def put(place: LogPlace, *entries: Passport, disclosures: Sequence[Disclosure] = (), **options: Any) -> None:
    """Write passports into a log, one after the other, and close it."""
    with writing(place, **options) as writer:
        for entry in entries:
            writer.submit(entry, disclosures=tuple(disclosures)).receipt.result(timeout=30)


def rows_of(place: LogPlace) -> list[StoredEntry]:
    """Every row of a log."""
    with closing(place.open(read_only=True)) as store:
        return list(store.entries(0, 2**62))


def regrown(place: LogPlace) -> None:
    """Make tree, counts and checkpoints fit whatever records are left, as someone with the file but no key would."""
    envelopes = [row.envelope for row in rows_of(place)]
    with closing(sqlite3.connect(place.store, isolation_level=None)) as db:
        db.execute("DELETE FROM nodes")
        frontier = Frontier()
        for envelope in envelopes:
            frontier, nodes = grow(frontier, [leaf_hash(envelope)])
            db.executemany("INSERT INTO nodes VALUES (?, ?, ?)", nodes)
        db.execute("UPDATE state SET frontier = ?", (frontier.to_bytes(),))


def test_a_sound_log_holds_and_says_what_was_not_checked(capsys: Capture, tmp_path: Path) -> None:
    """A sound store exits 0, with every check counted and every limit said."""
    small_log(tmp_path)
    code, out = run(capsys, "verify", tmp_path)
    assert code == 0
    for said in (
        "6 records",
        "no policy of digest",
        "taken from beside the log",
        "no record carries evidence from hardware",
    ):
        assert said in out.replace("\n    ", " ")
    assert out.endswith("holds, as far as it was checked\n")


def test_with_keys_checkpoints_and_policy_everything_is_checked(capsys: Capture, tmp_path: Path) -> None:
    """With keys, a kept checkpoint and the policy, nothing but second signers and hardware is left open."""
    place = small_log(tmp_path / "log")
    assert run(capsys, "keys", tmp_path / "log", "--out", tmp_path / "keys.json")[0] == 0
    policy = ("--policy", tmp_path / "log" / "policy", "--keys", tmp_path / "keys.json")
    code, found = asked(capsys, "verify", tmp_path / "log", *policy, "--checkpoint", place.anchors)
    assert (code, found["ok"], found["records"], found["first_bad"]) == (0, True, 6, None)
    assert found["checks"]["replay"] == {"held": 6, "failed": 0, "unchecked": []}
    assert found["checks"]["inclusion"]["held"] == 6
    assert len(found["not_checked"]) == 1


def test_a_changed_byte_is_named(capsys: Capture, tmp_path: Path) -> None:
    """One changed byte in a record fails the check and names the record."""
    place = small_log(tmp_path)
    smell = "payload = CAST(replace(CAST(payload AS TEXT), 'small', 'smell') AS BLOB)"
    alter(place, "UPDATE records SET " + smell + " WHERE idx = 3")  # noqa: S608 — a text of ours
    code, found = asked(capsys, "verify", tmp_path)
    assert (code, found["first_bad"]) == (1, 3)
    assert "bad_signature" in found["kinds"]
    code, out = run(capsys, "verify", tmp_path)
    assert "does not hold; first: record 3" in out


def test_every_changed_byte_of_the_file_is_a_failure_or_harmless(capsys: Capture, tmp_path: Path) -> None:
    """Wherever in the database's pages of records a byte flips, the check fails or the log reads as it was."""
    place = small_log(tmp_path)
    path = tmp_path / "log.db"
    whole, before = path.read_bytes(), rows_of(place)
    first = whole.index(b"in-toto")
    for at in range(first, first + 4000, 397):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        code, out = run(capsys, "verify", tmp_path)
        assert code == 1 or rows_of(place) == before, f"byte {at}: {out}"
    path.write_bytes(whole)
    assert run(capsys, "verify", tmp_path)[0] == 0


def test_a_database_that_is_none_is_bad_input(capsys: Capture, tmp_path: Path) -> None:
    """A file of noise, a missing file and a later version are told in one line, not as a fault of ours."""
    place = small_log(tmp_path)
    assert "there is no store" in run(capsys, "verify", tmp_path / "nowhere", "--allow-unsigned")[1]
    alter(place, "PRAGMA user_version = 99")
    assert "later Demur" in run(capsys, "verify", tmp_path)[1]
    (tmp_path / "log.db").write_bytes(b"noise" * 4000)
    code, out = run(capsys, "verify", tmp_path)
    assert (code, "damaged or no store of ours" in out) == (2, True)


@pytest.mark.parametrize(
    ("statements", "first_bad"),
    [
        (("DELETE FROM records WHERE idx = 2",), 2),
        (("UPDATE records SET idx = 99 WHERE idx = 1", "UPDATE records SET idx = 1 WHERE idx = 3",
          "UPDATE records SET idx = 3 WHERE idx = 99"), 1),
        (("UPDATE records SET session = 'c' WHERE idx = 4",), 4),
        (("UPDATE rollup SET n = n + 1",), None),
        (("UPDATE nodes SET hash = zeroblob(32) WHERE level = 1 AND idx = 0",), None),
        (("UPDATE state SET frontier = (SELECT frontier FROM state) || zeroblob(32)",), None),
    ],
    ids=["deleted", "swapped", "relabelled", "counts", "node", "frontier"],
)  # fmt: skip
def test_a_store_that_differs_from_its_records_fails(
    capsys: Capture, tmp_path: Path, statements: tuple[str, ...], first_bad: int | None
) -> None:
    """Deleted, swapped and relabelled records are named; wrong counts, nodes and frontiers fail the check."""
    place = small_log(tmp_path)
    alter(place, *statements)
    code, found = asked(capsys, "verify", tmp_path)
    assert (code, found["ok"], found["first_bad"]) == (1, False, first_bad)
    assert found["faults"]


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM records WHERE idx = 2", "UPDATE records SET idx = idx - 1 WHERE idx > 2"),
        ("DELETE FROM records WHERE idx >= 4",),
    ],
    ids=["deleted", "truncated"],
)
def test_hiding_a_deletion_in_the_tree_does_not_help(
    capsys: Capture, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    """A record deleted or a tail cut, with the tree grown anew to fit, contradicts the signed checkpoints."""
    place = small_log(tmp_path)
    alter(place, *statements)
    regrown(place)
    code, found = asked(capsys, "verify", tmp_path)
    assert code == 1
    assert {"truncated", "root_mismatch"} & set(found["kinds"])


def test_a_tail_cut_together_with_its_checkpoints_is_seen_from_elsewhere(capsys: Capture, tmp_path: Path) -> None:
    """Without any checkpoint a cut tail goes unseen, and says so; a checkpoint kept elsewhere shows it."""
    place = small_log(tmp_path / "log")
    assert place.anchors is not None
    kept = tmp_path / "kept.txt"
    place.anchors.rename(kept)
    alter(place, "DELETE FROM records WHERE idx >= 4", "DELETE FROM checkpoints", "DELETE FROM rollup")
    regrown(place)
    code, found = asked(capsys, "verify", tmp_path / "log")
    assert "no checkpoint was given that counts" in str(found["checks"]["inclusion"])
    code, found = asked(capsys, "verify", tmp_path / "log", "--checkpoint", kept)
    assert (code, "truncated" in found["kinds"]) == (1, True)


def test_a_forked_log_is_seen(capsys: Capture, tmp_path: Path) -> None:
    """Two signed checkpoints that no one log can have are a fork, whichever of them the records fit."""
    place = small_log(tmp_path / "log")
    signer = place.keys().signer("2026-01-31T12:00:00Z")
    other, _ = grow(Frontier(), [leaf_hash(bytes([number])) for number in range(4)])
    kept = tmp_path / "kept.txt"
    kept.write_bytes(issue_checkpoint(Checkpoint(ORIGIN, other.size, other.root()), signer))
    code, found = asked(capsys, "verify", tmp_path / "log", "--checkpoint", kept)
    assert (code, "forked" in found["kinds"]) == (1, True)


def test_a_wrong_key_is_refused(capsys: Capture, tmp_path: Path) -> None:
    """Records signed by a key that the reader does not trust do not count."""
    small_log(tmp_path / "log")
    KeyFolder(tmp_path / "other").signer("2026-01-01T00:00:00Z")
    code, found = asked(capsys, "verify", tmp_path / "log", "--keys", tmp_path / "other" / "keys.json")
    assert (code, found["first_bad"], found["kinds"]) == (1, 0, ["bad_checkpoint", "unknown_key"])


def test_a_signed_lie_is_caught_by_replay(capsys: Capture, tmp_path: Path) -> None:
    """A decision that the policy would not have made fails the replay, however well it is signed."""
    place = log_place(str(tmp_path))
    gate = gate_in(tmp_path / "policy")
    true = decided(gate, score=0.9)
    allowed = replace(true.phases[0], decision=Decision(Effect.ALLOW))
    put(place, decided(gate), replace(true, phases=(allowed,), causes=(), upstream_status=200))
    assert run(capsys, "verify", tmp_path)[0] == 0
    code, found = asked(capsys, "verify", tmp_path, "--policy", tmp_path / "policy")
    assert (code, found["first_bad"], found["kinds"]) == (1, 1, ["replay"])


def test_a_clock_that_goes_backwards_is_shown(capsys: Capture, tmp_path: Path) -> None:
    """A clock set back by a minute stays on record and fails the check."""
    place = small_log(tmp_path, 2)
    put(place, decided(gate_in(tmp_path / "policy"), "a"), clock=ticking(start="2026-01-31T11:59:00.000000Z"))
    code, found = asked(capsys, "verify", tmp_path)
    assert (code, found["first_bad"]) == (1, 2)
    assert "clock" in found["kinds"]


def test_unsigned_records_need_forgiveness(capsys: Capture, tmp_path: Path) -> None:
    """`signing: none` is stamped on each record, fails by default, and passes only where it is forgiven, saying so."""
    put(log_place(str(tmp_path)), decided(gate_in(tmp_path / "policy")), signed=False)
    assert "no keys to check with" in run(capsys, "verify", tmp_path)[1]
    code, out = run(capsys, "verify", tmp_path, "--allow-unsigned")
    assert (code, "stamped as unsigned" in out) == (0, True)
    assert "by nobody: signing none" in run(capsys, "show", tmp_path, 0)[1]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_an_export_is_verified_without_the_store(capsys: Capture, tmp_path: Path, ending: str) -> None:
    """An export of a whole log, or of a stretch, holds by itself, and fails where a line or its readable part changed."""
    small_log(tmp_path / "log", 9)
    keys = ("--keys", tmp_path / "log" / "keys.json")
    out = tmp_path / f"export.{ending}"
    code, told = asked(capsys, "export", tmp_path / "log", "--out", out)
    assert (code, told["records"]) == (0, 9)
    code, found = asked(capsys, "verify", out, *keys)
    assert (code, found["records"], found["checks"]["inclusion"]["held"]) == (0, 9, 9)
    assert run(capsys, "export", tmp_path / "log", "--out", out, "--start", 3)[0] == 0
    code, found = asked(capsys, "verify", out, *keys)
    assert (code, found["records"], found["checks"]["inclusion"]["held"]) == (0, 6, 6)
    assert "whose keys?" in run(capsys, "verify", out)[1]


@pytest.mark.parametrize(
    ("edit", "first_bad"),
    [
        (lambda lines: lines[:3] + lines[4:], None),
        (lambda lines: [*lines[:3], lines[3].replace('"model_asked":"small"', '"model_asked":"other"'), *lines[4:]], 2),
        (lambda lines: [*lines[:3], "{}", *lines[4:]], 2),
        (lambda lines: lines[:-1], None),
    ],
    ids=["deleted", "readable part", "garbled", "cut"],
)
def test_a_changed_export_fails(
    capsys: Capture, tmp_path: Path, edit: Callable[[list[str]], list[str]], first_bad: int | None
) -> None:
    """A deleted, rewritten, garbled or missing line of an export fails the check."""
    small_log(tmp_path / "log")
    out = tmp_path / "export.jsonl"
    run(capsys, "export", tmp_path / "log", "--out", out)
    out.write_text("\n".join(edit(out.read_text().splitlines())) + "\n")
    code, found = asked(capsys, "verify", out, "--keys", tmp_path / "log" / "keys.json")
    assert (code, found["ok"]) == (1, False)
    assert first_bad is None or found["first_bad"] == first_bad


def test_a_bundle_proves_one_passport(capsys: Capture, tmp_path: Path) -> None:
    """A bundle holds for whoever has the keys, fails under other keys, and is shown without the store."""
    small_log(tmp_path / "log")
    bundle = tmp_path / "bundle.json"
    assert run(capsys, "prove", tmp_path / "log", 2, "--out", bundle)[0] == 0
    code, out = run(capsys, "verify", bundle, "--keys", tmp_path / "log" / "keys.json")
    assert (code, "signature, checkpoint, inclusion hold" in out) == (0, True)
    KeyFolder(tmp_path / "other").signer("2026-01-01T00:00:00Z")
    code, found = asked(capsys, "verify", bundle, "--keys", tmp_path / "other" / "keys.json")
    assert (code, found["first_bad"]) == (1, 2)
    assert "gateway_block" in run(capsys, "show", bundle)[1]


def test_one_envelope_alone_is_checked_for_what_it_can_show(capsys: Capture, tmp_path: Path) -> None:
    """A bare envelope's signature is checked, and it is said that no log was seen to hold it."""
    envelope = rows_of(small_log(tmp_path / "log"))[4].envelope
    path = tmp_path / "one.json"
    path.write_bytes(envelope)
    keys = ("--keys", tmp_path / "log" / "keys.json")
    code, found = asked(capsys, "verify", path, *keys)
    assert (code, found["checks"]["signature"]["held"], "inclusion" in found["checks"]) == (0, 1, False)
    assert "whether any log holds it" in str(found["not_checked"])
    path.write_bytes(envelope.replace(b'"sig":"', b'"sig":"AAAA'))
    assert run(capsys, "verify", path, *keys)[0] == 1


def test_show_tells_what_was_decided_and_that_no_hardware_vouched(capsys: Capture, tmp_path: Path) -> None:
    """A record is shown by place or session, with the rule that fired and the empty slot for hardware."""
    small_log(tmp_path)
    code, out = run(capsys, "show", tmp_path, 2)
    assert code == 0
    assert "hot (deny)" in out
    assert "no evidence: the slot is empty" in out
    code, found = asked(capsys, "show", tmp_path, "--session", "a", "--seq", "1")
    assert (found["index"], found["statement"]["predicate"]["seq"]) == (2, 1)
    assert "which record?" in run(capsys, "show", tmp_path)[1]
    assert "the log has 6 records" in run(capsys, "show", tmp_path, 77)[1]


def test_rates_keep_the_three_noes_apart(capsys: Capture, tmp_path: Path) -> None:
    """Denied by the gateway, filtered by the provider and refused by the model are counted apart, each of its own n."""
    place = log_place(str(tmp_path))
    gate = gate_in(tmp_path / "policy")
    plain = decided(gate, model="m")
    causes = [(), (DeclineCause.PROVIDER_FILTER,), (DeclineCause.TEXT_REFUSAL,), (DeclineCause.PROVIDER_ERROR,)]
    put(place, *(replace(plain, causes=cause) for cause in causes), decided(gate, score=0.9, model="n"))
    code, found = asked(capsys, "rates", tmp_path)
    assert (code, found["exchanges"], found["unanswered"]) == (0, 5, 2)
    names = ("gateway_denied", "provider_filtered", "model_refused")
    counts = {name: (found[name]["count"], found[name]["n"]) for name in names}
    assert counts == {"gateway_denied": (1, 5), "provider_filtered": (1, 3), "model_refused": (1, 3)}
    # Made by scipy.stats.binomtest(1, 3).proportion_ci(method="wilson").
    assert found["model_refused"]["interval"]["low"] == pytest.approx(0.061492, abs=1e-6)
    assert [group["model"] for group in found["groups"]] == ["m", "n"]
    assert found["groups"][1]["model_refused"]["value"] is None
    code, out = run(capsys, "rates", tmp_path, "--by", "day,decision")
    assert "2026-01-31 allow" in out
    assert "nothing to group by" in run(capsys, "rates", tmp_path, "--by", "colour")[1]
    assert "no passports" in run(capsys, "rates", tmp_path, "--since", "2027")[1]
    for word in ("yesterday", "2026-13-45", "2026-11-16T99"):
        assert "is no date" in run(capsys, "rates", tmp_path, "--since", word)[1]


def with_texts(folder: Path) -> LogPlace:
    """A log of one exchange whose texts are kept beside it."""
    place = log_place(str(folder))
    gate = gate_in(folder / "policy")
    request, asked_text = commit(b"what was asked \xe2\x80\x94 in private", bytes(16))
    response, answer = commit(b"what was answered", bytes([1]) * 16)
    put(place, replace(decided(gate), request=request, response=response), disclosures=(asked_text, answer))
    return place


def test_texts_are_disclosed_and_erased_and_the_log_stays(capsys: Capture, tmp_path: Path) -> None:
    """Disclosed texts meet their commitments; erased ones are in no file any more, and the log verifies as before."""
    with_texts(tmp_path)
    code, out = run(capsys, "disclose", tmp_path, 0)
    assert (code, "what was asked — in private" in out) == (0, True)
    code, told = asked(capsys, "erase", tmp_path, 0, "--reason", "asked by the user")
    assert (code, len(told["erased"]), told["record"]) == (0, 2, 1)
    assert not [path for path in tmp_path.iterdir() if path.is_file() and b"what was a" in path.read_bytes()]
    code, out = run(capsys, "disclose", tmp_path, 0)
    assert out.count("erased or never kept") == 2
    assert run(capsys, "verify", tmp_path)[0] == 0
    assert "2 texts: asked by the user" in run(capsys, "show", tmp_path, 1)[1]
    assert "nothing to erase" in run(capsys, "erase", tmp_path, 0, "--reason", "again")[1]


def test_retention_erases_what_is_older(capsys: Capture, tmp_path: Path) -> None:
    """Texts kept for longer than the retention are erased, younger ones stay."""
    with_texts(tmp_path)
    assert "nothing to erase" in run(capsys, "erase", tmp_path, "--older-than", "36500", "--reason", "retention")[1]
    code, told = asked(capsys, "erase", tmp_path, "--older-than", "0", "--reason", "retention")
    assert (code, len(told["erased"])) == (0, 2)


def test_a_text_that_was_changed_is_not_shown(capsys: Capture, tmp_path: Path) -> None:
    """A kept text that does not meet its commitment is named and withheld, with exit code 1."""
    with_texts(tmp_path)
    change(tmp_path / "disclosures.db", "UPDATE disclosures SET text = 'something else'")
    code, out = run(capsys, "disclose", tmp_path, 0, "--what", "request")
    assert (code, "does not meet" in out, "something else" in out) == (1, True, False)


def test_rotation_is_on_record_and_both_keys_count_in_their_time(capsys: Capture, tmp_path: Path) -> None:
    """After a rotation the new key signs, the old list alone follows it, and the private key is its owner's."""
    place = small_log(tmp_path / "log", clock=ticking(start="2026-01-31T12:00:00.000000Z"))
    old = tmp_path / "old.json"
    run(capsys, "keys", tmp_path / "log", "--out", old)
    code, told = asked(capsys, "rotate", tmp_path / "log")
    assert (code, told["record"]) == (0, 6)
    put(place, decided(gate_in(tmp_path / "log" / "policy")), clock=ticking(start="2099-01-01T00:00:00.000000Z"))
    for keys in (old, tmp_path / "log" / "keys.json"):
        code, found = asked(capsys, "verify", tmp_path / "log", "--keys", keys)
        assert (code, found["records"], found["faults"]) == (0, 9, [])
    assert stat.S_IMODE((tmp_path / "log" / "signing.pem").stat().st_mode) == 0o600
    code, out = run(capsys, "keys", tmp_path / "log")
    assert told["new"] in out
    assert told["old"] in out


def test_a_second_signer_is_asked_for_and_found(capsys: Capture, tmp_path: Path) -> None:
    """Checkpoints countersigned by a second key satisfy --witness; those of a log without one do not."""
    second = KeyFolder(tmp_path / "second").signer("2026-01-01T00:00:00Z")
    witness = NoteKey("witness.example", second.public).text
    place, gate = log_place(str(tmp_path / "log")), gate_in(tmp_path / "policy")
    put(place, decided(gate), second=SecondSigner("witness.example", second))
    code, found = asked(capsys, "verify", tmp_path / "log", "--witness", witness)
    assert (code, found["checks"]["countersignature"]["held"]) == (0, 1)
    small_log(tmp_path / "alone")
    code, found = asked(capsys, "verify", tmp_path / "alone", "--witness", witness)
    assert (code, found["kinds"]) == (1, ["not_countersigned"])


def test_records_of_every_kind_are_shown(capsys: Capture, tmp_path: Path) -> None:
    """Rotations, erasures, restarts and gaps are told in words."""
    place = with_texts(tmp_path)
    run(capsys, "erase", tmp_path, "--session", "s", "--all", "--reason", "closed account")
    run(capsys, "rotate", tmp_path)
    gate = gate_in(tmp_path / "policy")
    gap = EnforcementGap(Phase.RESPONSE, "failed_open", "slow")
    failed = AuditorRun("slow", "2", AuditorStatus.TIMEOUT, 9000, "open")
    base = decided(gate, score=0.9)
    response = replace(base.phases[0], phase=Phase.RESPONSE, claims=(), auditors=(failed,))
    later = ticking(start="2099-01-01T00:00:00.000000Z")
    put(place, replace(base, phases=(*base.phases, response), gaps=(gap,)), clock=later)
    shown = [run(capsys, "show", tmp_path, index)[1] for index in range(5)]
    said = {1: "2 texts: closed account", 2: "new key", 3: "3 records, left in order", 4: "failed_open (slow)"}
    assert [index for index, words in said.items() if words not in shown[index]] == []
    assert "1 text" not in shown[1]
    assert "slow 2: timeout, 9,000 µs, applied open" in shown[4]
    assert asked(capsys, "verify", tmp_path)[0] == 0


def test_what_cannot_be_done_is_said_in_one_line(capsys: Capture, tmp_path: Path) -> None:
    """Wrong places, ranges, formats and files are refused with what to do instead."""
    place = small_log(tmp_path / "log", 2)
    log = tmp_path / "log"
    (tmp_path / "noise.json").write_text("{}")
    (tmp_path / "noise.jsonl").write_text("{}\n")
    (tmp_path / "noise.parquet").write_text("noise")
    keys = ("--keys", log / "keys.json")
    expected = {
        "no bundle": ("verify", tmp_path / "noise.json", *keys),
        "no export": ("verify", tmp_path / "noise.jsonl", *keys),
        "cannot be read as Parquet": ("verify", tmp_path / "noise.parquet", *keys),
        "no such file": ("verify", log, "--keys", tmp_path / "nowhere"),
        "expected name+id+key": ("verify", log, "--witness", "somebody+1+AAAA"),
        "names no format": ("export", log, "--out", tmp_path / "x.csv"),
        "no records from 5 to 2": ("export", log, "--start", 5),
        "cannot be written": ("export", log, "--out", tmp_path / "no" / "x.jsonl"),
        "commits to no `request`": ("disclose", log, 0, "--what", "request"),
        "erase what?": ("erase", log, "--reason", "none"),
        "no key to rotate": ("rotate", tmp_path / "empty"),
        "no key was made here": ("keys", tmp_path / "empty"),
    }
    for message, words in expected.items():
        code, out = run(capsys, *words)
        assert (code, message in out) == (2, True), out
    for name in ("prove", "keys"):
        record = (0,) if name == "prove" else ()
        assert "cannot be written" in run(capsys, name, log, *record, "--out", tmp_path / "no" / "x")[1]
    alter(place, "DELETE FROM checkpoints")
    assert "no checkpoint covers record 1 yet" in run(capsys, "prove", log, 1)[1]


def test_what_is_written_to_standard_output_can_be_read(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """Without --out a bundle, the keys and an export go to standard output, whole."""
    small_log(tmp_path, 3)
    for step, record in (("prove", ["1"]), ("keys", []), ("export", [])):
        assert call("passport", step, tmp_path, *record, "--json") == 0
        printed = capsysbinary.readouterr().out
        lines = printed.splitlines() if step == "export" else [printed]
        assert len([json.loads(line) for line in lines]) == (4 if step == "export" else 1)


def test_a_changed_parquet_export_fails(capsys: Capture, tmp_path: Path) -> None:
    """A column that says something else than its envelope fails the check and names the record."""
    small_log(tmp_path / "log")
    out = tmp_path / "export.parquet"
    run(capsys, "export", tmp_path / "log", "--out", out)
    table = pq.read_table(out)
    models = table.column("model_asked").to_pylist()
    other = table.set_column(table.schema.get_field_index("model_asked"), "model_asked", pa.array([*models[:4], "other", models[5]]))  # fmt: skip
    pq.write_table(other.replace_schema_metadata(table.schema.metadata), out)
    code, found = asked(capsys, "verify", out, "--keys", tmp_path / "log" / "keys.json")
    assert (code, found["first_bad"]) == (1, 4)
    out.write_bytes(out.read_bytes()[:-2000])
    assert run(capsys, "verify", out, "--keys", tmp_path / "log" / "keys.json")[0] == 2


def test_a_damaged_record_can_still_be_exported_and_is_named_there(capsys: Capture, tmp_path: Path) -> None:
    """An envelope that cannot be opened leaves the log as it is, and the export fails where the log does."""
    place = small_log(tmp_path / "log")
    alter(place, "UPDATE records SET rest = CAST('noise' AS BLOB) WHERE idx = 1")
    for ending in ("jsonl", "parquet"):
        out = tmp_path / f"export.{ending}"
        assert run(capsys, "export", tmp_path / "log", "--out", out)[0] == 0
        code, found = asked(capsys, "verify", out, "--keys", tmp_path / "log" / "keys.json")
        assert (code, found["first_bad"]) == (1, 1)
    assert asked(capsys, "verify", tmp_path / "log")[1]["first_bad"] == 1


def test_withheld_claims_are_replayed_where_their_texts_are_kept(capsys: Capture, tmp_path: Path) -> None:
    """A decision on a sensitive claim is replayed with the kept text, and is said to be unchecked once it is erased."""
    place = log_place(str(tmp_path))
    gate = gate_in(tmp_path / "policy")
    plain = decided(gate, score=0.9)
    secret = tuple(replace(claim, sensitive=True) for claim in plain.phases[0].claims)
    phase, texts = withhold(replace(plain.phases[0], claims=secret), iter([bytes(16)]))
    put(place, replace(plain, phases=(phase,)), disclosures=texts)
    policy = ("--policy", tmp_path / "policy")
    assert asked(capsys, "verify", tmp_path, *policy)[1]["checks"]["replay"]["held"] == 1
    assert run(capsys, "erase", tmp_path, "--digest", texts[0].digest, "--reason", "asked")[0] == 0
    code, found = asked(capsys, "verify", tmp_path, *policy)
    assert (code, found["checks"]["replay"]["unchecked"][0]["count"]) == (0, 1)
