"""The file of checkpoints: what a full disk or a crash leaves of a note never spoils those after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.record.store.passport_logs import SYNC, decided, gate_in, small_log, writing

from demur.errors import ShapeError, StoreError
from demur.record.checkpoint import read_checkpoint
from demur.record.store.anchor_files import AnchorFile, is_torn, read_notes
from demur.record.store.location import log_place


@contextmanager
def files_up_to(size_bytes: int) -> Iterator[None]:
    """No file can grow beyond this, as on a disk that is full."""
    resource = pytest.importorskip("resource", reason="this system has no limits on the size of files")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_note_that_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """Where only a part of a note could be written, nothing of it stays, and the next one stands whole."""
    place = small_log(tmp_path, 2)
    assert place.anchors is not None
    before = place.anchors.read_bytes()
    store = place.open(read_only=True)
    anchors = AnchorFile(place.anchors)
    (note,) = read_notes(place.anchors)
    with files_up_to(len(before) + 40), pytest.raises(StoreError, match="cannot be kept"):
        anchors.add(note, store.node)
    assert place.anchors.read_bytes() == before
    anchors.add(note, store.node)
    assert read_notes(place.anchors) == (note, note)
    store.close()


@pytest.mark.heavy
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_torn_note_is_cut_off_wherever_it_was_torn(tmp_path: Path, earlier: int) -> None:
    """Whatever beginning of a note a crash leaves, the file reads as before it and grows on after it, and it is said."""
    place = small_log(tmp_path, 2)
    assert place.anchors is not None
    (note,) = read_notes(place.anchors)
    store = place.open(read_only=True)
    path = tmp_path / "torn.txt"
    for kept in range(1, len(note)):
        path.write_bytes(note * earlier + note[:kept])
        assert is_torn(path)
        if earlier:
            assert read_notes(path) == (note,)
        anchors = AnchorFile(path)
        assert anchors.torn_bytes == kept
        anchors.add(note, store.node)
        assert read_notes(path) == (note,) * (earlier + 1)
    store.close()


def test_what_is_no_beginning_of_a_note_stays(tmp_path: Path) -> None:
    """Lines that are of no note are damage: they are not cut off, and the file is refused."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"dear reader,\nthis is a letter\nof three lines\n")
    anchors = AnchorFile(path)
    assert (anchors.torn_bytes, is_torn(path)) == (0, False)
    assert path.read_bytes().startswith(b"dear reader")
    path.write_bytes(b"one line")
    with pytest.raises(ShapeError, match="no checkpoints"):
        read_notes(path)


def test_a_writer_signs_on_after_a_crash_in_the_file(tmp_path: Path) -> None:
    """A writer that finds a torn note starts, and every checkpoint that it adds can be read."""
    place = small_log(tmp_path, 2)
    assert place.anchors is not None
    whole = place.anchors.read_bytes()
    place.anchors.write_bytes(whole + whole[:50])
    gate = gate_in(tmp_path / "policy")
    with writing(log_place(str(tmp_path)), settings=SYNC) as writer:
        writer.submit(decided(gate, "c")).receipt.result(timeout=30)
    assert [read_checkpoint(note).checkpoint.size for note in read_notes(place.anchors)] == [2, 4]
