"""Test ids are the same in every process: xdist gives up where two workers collect different ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLLECT = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
# Loaded by `-p`, so before any test module: the clock says another time, and the ids go to a file.
PLUGIN = """
import json, os, pathlib, time

real_time, real_time_ns = time.time, time.time_ns
shift_s = int(os.environ["SHIFT_S"])
time.time = lambda: real_time() + shift_s
time.time_ns = lambda: real_time_ns() + shift_s * 10**9

def pytest_collection_finish(session):
    pathlib.Path(os.environ["IDS_FILE"]).write_text(json.dumps([item.nodeid for item in session.items]))
"""
# Two processes that differ in all that an id must not depend on. `TZ` moves the date, which `time.time` does not.
WORKERS = (
    {"PYTHONHASHSEED": "1", "SHIFT_S": "0", "TZ": "UTC+12"},
    {"PYTHONHASHSEED": "2", "SHIFT_S": "86461", "TZ": "UTC-14"},
)
UNSTEADY = """
import datetime, gzip, os, tempfile, pytest

def case(*values):
    return pytest.mark.parametrize("value", values)

@case(gzip.compress(b"a"))
def test_clock(value): pass

@case(str(datetime.date.today()))
def test_date(value): pass

@case(*set("abcdefgh"))
def test_hashes(value): pass

@case(repr(object()))
def test_address(value): pass

@case(tempfile.gettempdir())
def test_temporary_folder(value): pass

@case(os.getpid())
def test_process(value): pass
"""


def collected_twice(tmp_path: Path, where: Path, *, config: Path) -> list[list[str]]:
    """Collect the tests below a folder in two processes at the same time, and return the ids of each."""
    (tmp_path / "other_worker.py").write_text(PLUGIN)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    inherited["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    processes = []
    for worker in WORKERS:
        place = tmp_path / worker["PYTHONHASHSEED"]
        place.mkdir()
        env = inherited | worker | {"IDS_FILE": str(place / "ids.json"), "TMPDIR": str(place), "TEMP": str(place)}
        command = [*COLLECT, "-p", "other_worker", "-c", str(config), "--rootdir", str(where.parent), str(where)]
        processes.append(
            subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603 - our own interpreter
        )
    for process in processes:
        said, _ = process.communicate()
        assert process.returncode == 0, said
    return [json.loads((tmp_path / worker["PYTHONHASHSEED"] / "ids.json").read_text()) for worker in WORKERS]


@pytest.mark.heavy
def test_every_process_collects_the_same_tests(tmp_path: Path) -> None:
    """Whatever the clock, the date, the hash seed and the temporary folder, the suite has the same ids in the same order."""
    first, second = collected_twice(tmp_path, ROOT / "tests", config=ROOT / "pyproject.toml")
    assert len(first) > 1000
    assert [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]] == []
    assert len(first) == len(second)


@pytest.mark.heavy
def test_unsteady_ids_are_noticed(tmp_path: Path) -> None:
    """An id made of something that differs between processes does differ here, so the law above can fail."""
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "pytest.ini").write_text("[pytest]\n")
    (suite / "test_unsteady.py").write_text(UNSTEADY)
    first, second = collected_twice(tmp_path, suite, config=suite / "pytest.ini")
    assert len(first) == UNSTEADY.count("def test_") - 1 + 8
    assert [one for one, other in zip(first, second, strict=True) if one == other and "test_hashes" not in one] == []
    hashes = [[each for each in ids if "test_hashes" in each] for ids in (first, second)]
    assert hashes[0] != hashes[1]
