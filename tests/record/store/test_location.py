"""Texts on disk: found until erased, erased for good, and the anchors that a disk can refuse."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.record.logs import append
from tests.record.store.passport_logs import committed, small_log, ticking
from tests.record.store.store_laws import check_erases_texts

from demur.errors import InputError, ShapeError, StoreError
from demur.record.store.anchor_files import AnchorFile, most_signed, read_notes
from demur.record.store.location import SqliteDisclosures, log_place


def test_a_text_is_found_until_it_is_erased(tmp_path: Path) -> None:
    """The embedded store keeps and erases texts as every store does."""
    with closing(SqliteDisclosures(tmp_path / "d.db", clock=ticking())) as texts:
        check_erases_texts(texts)


def test_a_text_that_a_reader_holds_is_not_said_to_be_erased(tmp_path: Path) -> None:
    """While a reader keeps the write-ahead log, erasing fails; asked again after it, the text is gone and is said to be."""
    path = tmp_path / "d.db"
    texts = SqliteDisclosures(path, clock=ticking(), timeout_s=0.0)
    secret, other = committed("a text of somebody " * 500, 7), committed("another", 1)
    texts.put([secret, other])
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM disclosures").fetchone()
    with pytest.raises(StoreError, match="keeps them from being overwritten"):
        texts.erase([secret.digest])
    assert texts.get(secret.digest) is None
    reader.close()
    assert texts.kept_before("") == (secret.digest,)
    assert texts.erase([other.digest]) == (other.digest,)
    assert texts.erase([secret.digest]) == (secret.digest,)
    assert (texts.kept_before("9"), texts.erase([secret.digest])) == ((), ())
    assert not [each.name for each in tmp_path.iterdir() if secret.text[:40] in each.read_bytes()]
    texts.close()


def test_an_erased_text_is_in_no_file(tmp_path: Path) -> None:
    """Neither the file nor the write-ahead log holds an erased text or its salt, while the store is still open."""
    texts = SqliteDisclosures(tmp_path / "d.db", clock=ticking())
    secret = committed("a text of somebody " * 500, 7)
    texts.put([secret, committed("another", 1)])
    assert any(secret.text[:40] in path.read_bytes() for path in tmp_path.iterdir())
    texts.erase([secret.digest])
    assert not [path.name for path in tmp_path.iterdir() if secret.text[:40] in path.read_bytes()]
    assert not [path.name for path in tmp_path.iterdir() if secret.salt in path.read_bytes()]
    texts.close()


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """Where the file cannot grow, nothing of the batch is kept and the error says so."""
    texts = SqliteDisclosures(tmp_path / "d.db", clock=ticking())
    texts.db.ask("PRAGMA max_page_count = 1")
    big = committed("x" * 100_000)
    with pytest.raises(StoreError, match="cannot grow"):
        texts.put([committed("small", 1), big])
    assert texts.get(committed("small", 1).digest) is None
    texts.close()


def test_texts_that_were_never_kept_are_an_error(tmp_path: Path) -> None:
    """Asking for texts beside a log that keeps none says so."""
    with pytest.raises(StoreError, match="no texts were kept"):
        log_place(str(tmp_path)).disclosures(ticking())


def test_an_anchor_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    """A file of checkpoints that cannot be written or read is told with its place."""
    place = small_log(tmp_path)
    store = place.open(read_only=True)
    (note,) = store.checkpoints()
    with pytest.raises(StoreError, match="cannot be kept"):
        AnchorFile(tmp_path / "no" / "file.txt").add(note, store.node)
    store.close()
    with pytest.raises(InputError, match="no such file"):
        read_notes(tmp_path / "nowhere.txt")
    (tmp_path / "noise").write_bytes(b"\xff\xfe")
    with pytest.raises(ShapeError, match="no checkpoints"):
        read_notes(tmp_path / "noise")


def test_of_equal_checkpoints_the_one_with_most_signatures_counts() -> None:
    """Notes that say the same are one, with the most signatures; others stay, unreadable ones too."""
    body, line = b"log\n1\nAAAA\n", "\u2014 name AAAA\n".encode()
    one, two = body + b"\n" + line, body + b"\n" + line + line
    assert most_signed([one, two, one, b"noise"]) == (two, b"noise")


def test_a_log_on_a_medium_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    """A finished log without its write-ahead log opens read-only, as from a copy on a disc."""
    small_log(tmp_path, 2)
    store = log_place(str(tmp_path / "log.db")).open(read_only=True)
    with pytest.raises(StoreError, match="cannot be opened for this"):
        append(store, [])
    assert store.frontier().size == 2
    store.close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A store below a file is refused with its path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        log_place(str(tmp_path / "file" / "below")).open(origin="x.example/log", read_only=False)
