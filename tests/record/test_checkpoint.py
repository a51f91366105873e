"""Checkpoints are C2SP signed notes: others' notes verify here, ours anywhere."""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.record.logs import ORIGIN, signer

from demur.errors import ShapeError, UsageError
from demur.record.checkpoint import (
    Checkpoint,
    NoteKey,
    NoteSignature,
    SignedCheckpoint,
    countersign,
    issue_checkpoint,
    read_checkpoint,
)
from demur.record.tree import EMPTY_ROOT

OWN = NoteKey(ORIGIN, signer(1).public)
WITNESS = NoteKey("witness.example/w", signer(2).public)
POINT = Checkpoint(ORIGIN, 7, bytes(range(32)))
NOTE = issue_checkpoint(POINT, signer(1))

# A key line and a signature over `This is an example message.` that other implementations of signed notes test with.
KNOWN_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
KNOWN_SIGNATURE = "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM="


def test_a_key_line_of_others_is_read() -> None:
    """A verifier key made elsewhere has the id that we compute, and is written back as it was."""
    key = NoteKey.from_text(KNOWN_KEY)
    assert (key.name, key.note_id.hex(), key.text) == ("example.com/foo", "530d903a", KNOWN_KEY)


def test_a_signature_of_others_holds() -> None:
    """A note signed elsewhere verifies under its key."""
    raw = b64decode(KNOWN_SIGNATURE)
    line = NoteSignature("example.com/foo", raw[:4], raw[4:])
    key = NoteKey.from_text(KNOWN_KEY)
    assert SignedCheckpoint(POINT, b"This is an example message.\n", (line,)).signers([key]) == (key,)
    assert SignedCheckpoint(POINT, b"This is an example massage.\n", (line,)).signers([key]) == ()


def test_a_checkpoint_comes_back() -> None:
    """What is issued is read as it was, and its bytes are the note's."""
    signed = read_checkpoint(NOTE)
    assert (signed.checkpoint, signed.to_bytes()) == (POINT, NOTE)
    assert signed.signers([OWN]) == (OWN,)
    text = b"gateway.example/log\n7\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n\xe2\x80\x94 gateway.example/log "
    assert NOTE.startswith(text)


def test_a_second_signer_adds_a_line() -> None:
    """Both signatures verify, and each reader passes over the key it does not know."""
    signed = read_checkpoint(countersign(NOTE, signer(2), WITNESS.name))
    assert signed.signers([OWN, WITNESS]) == (OWN, WITNESS)
    assert signed.signers([WITNESS]) == (WITNESS,)
    assert signed.signers([NoteKey(ORIGIN, signer(3).public)]) == ()


def test_one_bad_signature_of_a_known_key_spoils_the_note() -> None:
    """A forged countersignature is not passed over where its key is known."""
    bad = NoteSignature(WITNESS.name, WITNESS.note_id, bytes(64)).line.encode()
    assert read_checkpoint(NOTE + bad).signers([OWN, WITNESS]) == ()
    assert read_checkpoint(NOTE + bad).signers([OWN]) == (OWN,)


@given(st.data())
def test_any_changed_byte_shows(data: st.DataObject) -> None:
    """Whichever byte of a note is changed, it is unreadable or nobody has signed it."""
    note = bytearray(NOTE)
    note[data.draw(st.integers(0, len(note) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        signed = read_checkpoint(bytes(note))
    except ShapeError:
        return
    assert signed.signers([OWN]) == ()


def test_an_empty_log_and_extension_lines() -> None:
    """Size 0 is written as 0, and lines of later versions are covered by the signature and otherwise ignored."""
    empty = issue_checkpoint(Checkpoint(ORIGIN, 0, EMPTY_ROOT), signer())
    assert read_checkpoint(empty).checkpoint.size == 0
    head, _, tail = NOTE.partition(b"\n\n")
    extended = read_checkpoint(head + b"\nlater\n\n" + tail)
    assert (extended.checkpoint, extended.signers([OWN])) == (POINT, ())


ROOT = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (b"", "no signed note"),
        (b"\xff\n\n\xe2\x80\x94 a b\n", "not UTF-8"),
        (NOTE[:-1], "no signed note"),
        (NOTE.replace(b"log\n7", b"log\t\n7"), "no signed note"),
        (NOTE.replace(b"\n7\n", b"\n07\n"), "no checkpoint"),
        (NOTE.replace(b"\n7\n", b"\n-7\n"), "no checkpoint"),
        (NOTE.replace(ROOT.encode(), b"AAEC"), "no SHA-256"),
        (NOTE.replace(ROOT.encode(), b"AAE*"), "the root is not in base64"),
        (NOTE.replace(ROOT.encode(), ROOT.replace("8=", "9=").encode()), "not in canonical base64"),
        (NOTE.replace("\u2014 ".encode(), b"- "), "signature line"),
        (NOTE + "\u2014 x AAAA\n".encode(), "too short"),
        (NOTE + "\u2014 x AAAAAAAA\n".encode() * 64, "more than 64"),
    ],
)
def test_what_is_no_checkpoint(note: bytes, why: str) -> None:
    """A note that departs from the format is refused with the reason."""
    with pytest.raises(ShapeError, match=why):
        read_checkpoint(note)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u00a0b", "a\nb", "a\x01"])
def test_names_that_notes_cannot_hold(name: str) -> None:
    """Spaces, plus signs and control characters would break the line."""
    with pytest.raises(UsageError, match="no name for a key"):
        NoteKey(name, signer().public)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (KNOWN_KEY.replace("530d903a", "530d903b"), "its own id"),
        ("a+b", "is no Ed25519 key"),
        ("a+b+AAAA", "is no Ed25519 key"),
        ("a+b+!", "not in base64"),
    ],
)
def test_what_is_no_key_line(line: str, why: str) -> None:
    """A key line with a wrong id, kind or spelling is refused."""
    with pytest.raises(ShapeError, match=why):
        NoteKey.from_text(line)


def test_a_checkpoint_needs_a_root() -> None:
    """What is no root is not signed."""
    with pytest.raises(UsageError, match="a root of 32 bytes"):
        issue_checkpoint(Checkpoint(ORIGIN, 1, b"short"), signer())
