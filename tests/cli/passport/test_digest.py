"""A record is found by its place, by the id that a client was given, or by the beginning of any of its digests."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cli.calling import Capture
from tests.cli.passport.test_command import asked, put, run
from tests.record.store.passport_logs import decided, gate_in, writing

from demur.cli.passport.words import open_log
from demur.record.commit import commit
from demur.record.store.location import log_place
from demur.record.tree import leaf_hash

RECORDS = 5


def committed_log(folder: Path) -> list[tuple[int, str]]:
    """Write records with commitments; return every digest by which one of them can be named, with its place."""
    place, gate = log_place(str(folder)), gate_in(folder / "policy")
    texts = [
        [commit(b"%s %d" % (name, n), bytes([n]) * 16)[0] for name in (b"asked", b"answered")] for n in range(RECORDS)
    ]
    put(place, *(replace(decided(gate), request=request, response=response) for request, response in texts))
    found = [(number, text.digest) for number, pair in enumerate(texts) for text in pair]
    with open_log(place) as store:
        return found + [(row.index, leaf_hash(row.envelope).hex()) for row in store.entries(0, None)]


def test_every_digest_leads_to_its_record(capsys: Capture, tmp_path: Path) -> None:
    """The whole digest and its beginning, in capitals or cut off with dots, show the same record as its place does."""
    found = committed_log(tmp_path)
    assert len(found) == 3 * RECORDS
    for place, digest in found:
        for name in (digest, digest[:8], digest[:12].upper(), f"{digest[:16]}…"):
            code, shown = asked(capsys, "show", tmp_path, name)
            assert (code, shown["index"]) == (0, place)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("99", "no record at `99`"),
        ("12345678", "no record at `12345678`"),
        ("0123456789abcdef", "no record at `0123456789abcdef`"),
        ("abcdef0", "neither a place nor a digest"),
        ("zzzzzzzz", "neither a place nor a digest"),
        ("f" * 65, "neither a place nor a digest"),
    ],
)
def test_what_names_no_record_is_told_apart(capsys: Capture, tmp_path: Path, name: str, what: str) -> None:
    """A place beyond the end and a digest of nothing are in no log; what is neither is said to be neither."""
    committed_log(tmp_path)
    code, out = run(capsys, "show", tmp_path, name)
    assert (code, what in out) == (2, True)


def test_a_digest_of_two_records_names_neither(capsys: Capture, tmp_path: Path) -> None:
    """Where two records answer to the beginning of a digest, both are named and more is asked for."""
    place, gate = log_place(str(tmp_path)), gate_in(tmp_path / "policy")
    same = commit(b"the same", bytes(16))[0]
    put(place, *[replace(decided(gate), request=same)] * 2)
    code, out = run(capsys, "show", tmp_path, same.digest[:16])
    assert (code, "give more of it" in out) == (2, True)


def test_the_first_records_are_found_in_a_long_log(capsys: Capture, tmp_path: Path) -> None:
    """A digest is looked for to the beginning of the log, block by block."""
    place, gate = log_place(str(tmp_path)), gate_in(tmp_path / "policy")
    first = commit(b"the first", bytes(16))[0]
    with writing(place) as writer:
        queued = [writer.submit(replace(decided(gate), request=first))]
        queued += [writer.submit(decided(gate, f"s{number}")) for number in range(1200)]
        for each in queued:
            each.receipt.result(timeout=60)
    assert asked(capsys, "show", tmp_path, first.digest[:10])[1]["index"] == 0
