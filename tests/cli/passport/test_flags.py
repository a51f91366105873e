"""What a call brings is honoured or refused; what a store, an export or a bundle was given beyond its records is a fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace
from tests.cli.calling import Capture
from tests.cli.passport.test_command import alter, asked, put, rows_of, run
from tests.record.store.passport_logs import ORIGIN, decided, gate_in, small_log, ticking

from demur.record.checkpoint import Checkpoint, NoteKey, issue_checkpoint
from demur.record.commit import commit
from demur.record.keys import Ed25519Signer
from demur.record.store.anchor_files import SecondSigner
from demur.record.store.location import log_place

WITNESS = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes([9]) * 32))
WITNESS_KEY = NoteKey("w.example/w", WITNESS.public).text
GHOST = "INSERT INTO records SELECT {}, payload, rest, kind, at, 'ghost', 0 FROM records WHERE idx = 2"
REPEATED = "INSERT INTO rollup SELECT hour, model, decision, causes, '', n FROM rollup"


@pytest.mark.heavy
@pytest.mark.parametrize(
    "change",
    [
        *(GHOST.format(index) for index in (-1, 2**62, 2**63 - 1)),
        "INSERT INTO nodes VALUES (0, 6, x'00')",
        "INSERT INTO nodes VALUES (0, -1, x'00')",
        "INSERT INTO nodes VALUES (9, 0, x'00')",
        "INSERT INTO retired_keys VALUES ('abc', 3)",
        "UPDATE checkpoints SET size = 3",
        REPEATED,
        "INSERT INTO rollup SELECT hour, 'ghost', decision, causes, answered, 0 FROM rollup LIMIT 1",
        "UPDATE rollup SET n = 'many'",
    ],
)
def test_what_no_record_made_is_a_fault_of_the_store(capsys: Capture, tmp_path: Path, change: str) -> None:
    """A row, node, count, key or size that the records do not make fails the check, wherever in the tables it stands."""
    place = small_log(tmp_path)
    assert run(capsys, "verify", tmp_path)[0] == 0
    alter(place, change)
    code, found = asked(capsys, "verify", tmp_path)
    assert (code, found["ok"], bool(found["faults"])) == (1, False, True)


def test_rates_are_not_made_from_damaged_counts(capsys: Capture, tmp_path: Path) -> None:
    """Counts that no writer can have made are refused, not summed."""
    place = small_log(tmp_path)
    alter(place, REPEATED)
    code, out = run(capsys, "rates", tmp_path)
    assert code == 2
    assert "hourly counts" in out


def test_a_row_outside_the_log_is_not_shown(capsys: Capture, tmp_path: Path) -> None:
    """A row at a place where no record can be is none, by its place or by the session that it names."""
    place = small_log(tmp_path)
    alter(place, GHOST.format(-1))
    for which in (("--session", "ghost"), ("--", "-1"), ("6",)):
        code, out = run(capsys, "show", tmp_path, *which)
        assert (code, "no record at" in out) == (2, True)


def bundle_of(capsys: Capture, tmp_path: Path, *, second: SecondSigner | None = None) -> tuple[Path, Path]:
    """A bundle and the owner's keys, from a log with two records."""
    put(log_place(str(tmp_path / "log")), *[decided(gate_in(tmp_path / "policy"))] * 2, second=second)
    bundle, keys = tmp_path / "bundle.json", tmp_path / "keys.json"
    assert run(capsys, "prove", tmp_path / "log", 1, "--out", bundle)[0] == 0
    assert run(capsys, "keys", tmp_path / "log", "--out", keys)[0] == 0
    return bundle, keys


def envelope_in(tmp_path: Path) -> Path:
    """The envelope of the second record of a log, alone in a file."""
    path = tmp_path / "envelope.json"
    path.write_bytes(rows_of(log_place(str(tmp_path / "log")))[1].envelope)
    return path


def test_a_bundle_must_have_the_second_signatures_asked_for(capsys: Capture, tmp_path: Path) -> None:
    """With `--witness`, a bundle without that signature fails and one with it holds."""
    for name, second, code in (("a", None, 1), ("b", SecondSigner("w.example/w", WITNESS), 0)):
        bundle, keys = bundle_of(capsys, tmp_path / name, second=second)
        assert run(capsys, "verify", bundle, "--keys", keys)[0] == 0
        assert run(capsys, "verify", bundle, "--keys", keys, "--witness", WITNESS_KEY)[0] == code


def test_a_bundle_is_held_against_kept_checkpoints(capsys: Capture, tmp_path: Path) -> None:
    """A kept checkpoint of the proof's size must have its root; one of another size is said to be unchecked."""
    bundle, keys = bundle_of(capsys, tmp_path)
    place = log_place(str(tmp_path / "log"))
    signer = place.keys().signer("")
    for size, code, unchecked in ((2, 1, False), (7, 0, True)):
        kept = tmp_path / f"{size}.txt"
        kept.write_bytes(issue_checkpoint(Checkpoint(ORIGIN, size, bytes(32)), signer))
        found_code, found = asked(capsys, "verify", bundle, "--keys", keys, "--checkpoint", kept)
        said = any("the checkpoints that you kept" in limit for limit in found["not_checked"])
        assert (found_code, said) == (code, unchecked)
    code, found = asked(capsys, "verify", bundle, "--keys", keys, "--checkpoint", place.anchors)
    assert (code, found["faults"]) == (0, [])


def test_a_bundles_decision_is_replayed(capsys: Capture, tmp_path: Path) -> None:
    """With `--policy`, the decision of a bundle's record is replayed; a policy that decided nothing here is named."""
    bundle, keys = bundle_of(capsys, tmp_path)
    code, found = asked(capsys, "verify", bundle, "--keys", keys, "--policy", tmp_path / "policy")
    assert (code, found["checks"]["replay"]["held"]) == (0, 1)
    other = tmp_path / "other.cedar"
    other.write_text('@id("other") forbid (principal, action, resource) when { context.claims.toxic_content > 0.1 };\n')
    for what in (bundle, tmp_path / "log"):
        code, found = asked(capsys, "verify", what, "--keys", keys, "--policy", other)
        assert (code, any("nothing here was decided with it" in limit for limit in found["not_checked"])) == (0, True)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "flag",
    [
        *("--witness=garbage", "--checkpoint=/nonexistent", "--policy=/nonexistent", "--vocabulary=/nonexistent"),
        *("--folder=.", "--clock-slack=nan", "--clock-slack=1e300", "--clock-slack=-1"),
    ],
)
@pytest.mark.parametrize("what", ["bundle", "envelope", "export"])
def test_a_flag_that_cannot_be_honoured_is_refused(capsys: Capture, tmp_path: Path, what: str, flag: str) -> None:
    """Whatever is verified, a flag with nothing behind it ends the call with one line, before anything is said to hold."""
    bundle, keys = bundle_of(capsys, tmp_path)
    path = bundle
    if what == "envelope":
        path = envelope_in(tmp_path)
    elif what == "export":
        path = tmp_path / "log.jsonl"
        assert run(capsys, "export", tmp_path / "log", "--out", path)[0] == 0
    assert run(capsys, "verify", path, "--keys", keys)[0] == 0
    code, out = run(capsys, "verify", path, "--keys", keys, flag)
    assert (code, "\n" in out.strip()) == (2, False)


def test_an_envelope_alone_has_nothing_to_countersign(capsys: Capture, tmp_path: Path) -> None:
    """Neither second signers nor kept checkpoints can be held against one envelope, so both are refused."""
    _, keys = bundle_of(capsys, tmp_path)
    anchors = log_place(str(tmp_path / "log")).anchors
    for flag, value in (("--witness", WITNESS_KEY), ("--checkpoint", anchors)):
        code, out = run(capsys, "verify", envelope_in(tmp_path), "--keys", keys, flag, value)
        assert (code, "no checkpoint" in out) == (2, True)


def exported(capsys: Capture, tmp_path: Path, name: str) -> tuple[Path, Path]:
    """An export of a small log, and the keys."""
    small_log(tmp_path / "log", 4)
    path, keys = tmp_path / name, tmp_path / "keys.json"
    assert run(capsys, "export", tmp_path / "log", "--out", path)[0] == 0
    assert run(capsys, "keys", tmp_path / "log", "--out", keys)[0] == 0
    assert run(capsys, "verify", path, "--keys", keys)[0] == 0
    return path, keys


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.replace('"index":2', '"index":77'),
        lambda line: line.replace('{"index":2', '{"decision":"allow","index":2'),
        lambda line: line.replace('"kind":"passport"', '"kind":"restart","kind":"passport"'),
    ],
)
def test_a_line_says_nothing_but_what_was_exported(
    capsys: Capture, tmp_path: Path, change: Callable[[str], str]
) -> None:
    """Another index, one more field or a field twice is named at its record."""
    path, keys = exported(capsys, tmp_path, "log.jsonl")
    lines = path.read_text().splitlines()
    lines[3] = change(lines[3])
    path.write_text("\n".join(lines) + "\n")
    code, found = asked(capsys, "verify", path, "--keys", keys)
    assert (code, found["first_bad"], len(found["faults"])) == (1, 2, 1)


def test_columns_say_nothing_but_what_was_exported(capsys: Capture, tmp_path: Path) -> None:
    """In Parquet, other indices or one more column fail the check."""
    path, keys = exported(capsys, tmp_path, "log.parquet")
    table = pq.read_table(path)
    moved = table.set_column(0, "index", pa.array([100 + n for n in range(table.num_rows)], pa.int64()))
    longer = table.append_column("verdict", pa.array(["allow"] * table.num_rows))
    for changed in (moved, longer):
        pq.write_table(changed, path)
        code, found = asked(capsys, "verify", path, "--keys", keys)
        assert (code, found["first_bad"]) == (1, 0)


def test_a_torn_checkpoint_is_said_and_no_fault(capsys: Capture, tmp_path: Path) -> None:
    """What a crash has left of a checkpoint does not fail a sound log, and is not passed over."""
    place = small_log(tmp_path)
    assert place.anchors is not None
    whole = place.anchors.read_bytes()
    place.anchors.write_bytes(whole + whole[:40])
    code, found = asked(capsys, "verify", tmp_path)
    assert (code, any("unfinished checkpoint" in limit for limit in found["not_checked"])) == (0, True)


def log_with_a_text(tmp_path: Path) -> None:
    """A signed log whose only record commits to a text that was kept."""
    commitment, kept = commit(b"a text of somebody", bytes(16))
    passport = replace(decided(gate_in(tmp_path / "policy")), request=commitment)
    put(log_place(str(tmp_path / "log")), passport, disclosures=(kept,))


def test_an_erasure_is_not_put_unsigned_into_a_signed_log(capsys: Capture, tmp_path: Path) -> None:
    """Without the log's key nothing is erased and nothing put on record."""
    log_with_a_text(tmp_path)
    (tmp_path / "empty").mkdir()
    named = (tmp_path / "log" / "log.db", "0", "--reason", "asked")
    code, out = run(capsys, "erase", *named, "--folder", tmp_path / "empty")
    assert (code, "the log is signed" in out) == (2, True)
    assert "meets" in run(capsys, "disclose", tmp_path / "log", "0")[1]
    assert run(capsys, "erase", *named)[0] == 0
    assert run(capsys, "verify", tmp_path / "log")[0] == 0


@pytest.mark.parametrize("days", ["1e9", "nan", "inf", "-1"])
def test_days_that_are_no_time_are_refused(capsys: Capture, tmp_path: Path, days: str) -> None:
    """A retention that no calendar has is refused with one line, and nothing is erased."""
    log_with_a_text(tmp_path)
    code, out = run(capsys, "erase", tmp_path / "log", f"--older-than={days}", "--reason", "retention")
    assert (code, "is no time" in out, "\n" in out) == (2, True, False)


def test_a_clock_set_back_just_after_the_key_was_made_spoils_nothing(capsys: Capture, tmp_path: Path) -> None:
    """Records a second older than the key that signs them hold within the slack of clocks, and not without."""
    looks = iter([ticking()()] + ["2026-01-31T12:00:00.000000Z"] * 9)
    put(log_place(str(tmp_path)), decided(gate_in(tmp_path / "policy")), clock=lambda: next(looks))
    assert run(capsys, "verify", tmp_path)[0] == 0
    assert run(capsys, "verify", tmp_path, "--clock-slack", "0.5")[0] == 1
