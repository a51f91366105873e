"""A file shared by processes: what one has acknowledged, no other can take away."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.record.store.passport_logs import ORIGIN, decided, gate_in, writing

from demur.errors import StoreError
from demur.record.store.location import log_place

if TYPE_CHECKING:
    from pathlib import Path

_LOOK = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM records').fetchone()[0])"


def records_seen_elsewhere(path: str) -> int:
    """Open, read and close the log in a process of its own, as the last to leave would."""
    done = subprocess.run([sys.executable, "-c", _LOOK, path], capture_output=True, text=True, check=True)  # noqa: S603 — ours
    return int(done.stdout)


def test_opening_a_log_twice_keeps_its_locks(tmp_path: Path) -> None:
    """After a second store was opened in a process, another process that comes and goes leaves the write-ahead log alone."""
    place = log_place(str(tmp_path))
    gate = gate_in(tmp_path / "policy")
    with writing(place) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        second = place.open(origin=ORIGIN, read_only=False)
        assert records_seen_elsewhere(place.store) == 1
        for _ in range(3):
            writer.submit(decided(gate)).receipt.result(timeout=30)
        assert records_seen_elsewhere(place.store) == 4
        second.close()


def test_a_new_file_is_its_owners_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    """A log is made for its owner alone; one that its owner has opened to others stays so."""
    place = log_place(str(tmp_path))
    place.open(origin=ORIGIN, read_only=False).close()
    path = tmp_path / "log.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    place.open(origin=ORIGIN, read_only=False).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("read_only", [True, False])
def test_the_database_of_another_program_is_refused(tmp_path: Path, version: int, read_only: bool) -> None:  # noqa: FBT001 — a case
    """Whatever version it says to be of, a database with other tables is no log, and nothing is put into it."""
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE notes (text)")
    db.execute(f"PRAGMA user_version = {version}")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="no log of passports"):
        log_place(str(path)).open(origin=ORIGIN, read_only=read_only)
    db = sqlite3.connect(path)
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("notes",)]
    db.close()
