"""Every line of a growing log is given once, whole, whatever its writer does to the file."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runs.run_files import json_lines, questions

from demur.errors import InputError, UsageError
from demur.io.files import InputLimits
from demur.measure.session_sums import SessionSums
from demur.measure.watching import Band, WatchState, watch_rows
from demur.runs.options import ReadOptions
from demur.runs.watch import Kept, Mark, baseline_sums, follow_lines, key_of_session, read_kept, write_kept

LIMITS = InputLimits(line_bytes=20, document_bytes=1000)


def followed(
    path: Path, *steps: Callable[[], object], mark: Mark | None = None, finished: bool = False
) -> tuple[list[tuple[int, bytes | str]], Mark]:
    """Return the lines given while the writer takes its steps, one a wait, and the last mark."""
    waiting = iter(steps)

    def wait() -> bool:
        step = next(waiting, None)
        if step is not None:
            step()
        return step is not None

    given: list[tuple[int, bytes | str]] = []
    mark = mark or Mark()
    for block, behind in follow_lines(str(path), mark, LIMITS, wait=wait, finished=finished):
        mark = behind
        if isinstance(block.lines, InputError):
            given.append((block.first, "too long"))
        else:
            given.extend(enumerate(block.lines.split(b"\n"), block.first))
    return given, mark


def log(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    return path


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as out:
            out.write(data)

    return step


def test_a_line_is_given_when_it_ends(tmp_path: Path) -> None:
    """A half-written line waits for its other half, over any number of looks."""
    path = log(tmp_path, b"one\ntw")
    given, _ = followed(path, append(path, b"o"), append(path, b"\nthree\n"))
    assert given == [(1, b"one"), (2, b"two"), (3, b"three")]


def test_a_finished_log_may_lack_its_last_end(tmp_path: Path) -> None:
    """The last line of a log that is read once counts without its end."""
    path = log(tmp_path, b"\xef\xbb\xbfone\ntwo")
    assert followed(path, finished=True)[0] == [(1, b"one"), (2, b"two")]


def test_a_mark_goes_on(tmp_path: Path) -> None:
    """Reading on from a mark gives what came since, with its line numbers."""
    path = log(tmp_path, b"\xef\xbb\xbfone\ntwo\n")
    _, mark = followed(path)
    append(path, b"three\n")()
    assert followed(path, mark=mark)[0] == [(3, b"three")]


def test_a_log_that_is_replaced(tmp_path: Path) -> None:
    """A renamed log is read to its end, then its successor from the start, and the mark says so."""
    path = log(tmp_path, b"one\n")

    def rotate() -> None:
        append(path, b"two\n")()
        path.rename(tmp_path / "a.jsonl.1")
        path.write_bytes(b"new\n")

    given, mark = followed(path, rotate, append(path, b"newer\n"))
    assert given == [(1, b"one"), (2, b"two"), (1, b"new"), (2, b"newer")]
    assert mark.restarts == 1


def test_a_log_that_is_gone_for_a_moment(tmp_path: Path) -> None:
    """Between the renaming and the new file, the old one is kept."""
    path = log(tmp_path, b"one\n")
    steps = (
        lambda: path.rename(tmp_path / "b"),
        append(tmp_path / "b", b"two\n"),
        lambda: path.write_bytes(b"new\n"),
        lambda: None,
    )
    assert followed(path, *steps)[0] == [(1, b"one"), (2, b"two"), (1, b"new")]


def test_a_log_that_is_cut(tmp_path: Path) -> None:
    """A log emptied in place is read on from its start."""
    path = log(tmp_path, b"one\ntwo\n")
    given, mark = followed(path, lambda: path.write_bytes(b"x\n"))
    assert (given, mark.restarts) == ([(1, b"one"), (2, b"two"), (1, b"x")], 1)


def test_long_lines_are_named(tmp_path: Path) -> None:
    """A line beyond the limit is an error in its place, and the lines around it keep their numbers."""
    path = log(tmp_path, b"one\n" + b"x" * 30 + b"\nthree\n")
    assert followed(path)[0] == [(1, b"one"), (2, "too long"), (3, b"three")]


@pytest.mark.parametrize("head", [b"\x1f\x8b\x08\x00", b"PAR1", b"PK\x03\x04"], ids=["gzip", "parquet", "zip"])
def test_no_lines(tmp_path: Path, head: bytes) -> None:
    """Compressed files and tables do not grow by lines: they are refused."""
    path = log(tmp_path, head + b"more")
    with pytest.raises(InputError, match="demur scan"):
        followed(path)


def test_no_such_log(tmp_path: Path) -> None:
    """A log that is not there is an error."""
    with pytest.raises(InputError, match="no such file"):
        followed(tmp_path / "none")


def test_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe ends with its writer, and its last line needs no end; nothing piped in is an error, not an endless wait."""
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"one\ntwo")))
    monkeypatch.setattr(sys, "stdin", stdin)
    blocks = [block for block, _ in follow_lines("-", Mark(), LIMITS, wait=lambda: True)]
    assert b"\n".join(block.lines for block in blocks if isinstance(block.lines, bytes)) == b"one\ntwo"
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="nothing is piped"):
        list(follow_lines("-", Mark(), LIMITS, wait=lambda: True))


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    """What is kept of a stream with sessions and an alarm is what is read again."""
    band = Band(0.05, 0.1)
    rows = [(row % 9 == 0, row % 7 if row % 2 else None) for row in range(900)] + [(True, None)] * 60
    kept = Kept(Mark(10, 2, 3, 4), watch_rows(WatchState(), band, rows), unreadable=1, failed=2, empty=3, unread=4)
    assert kept.state.alarm is not None
    path = tmp_path / "w.json"
    write_kept(path, kept, band, is_grouped=True)
    assert read_kept(path, band, is_grouped=True) == kept
    assert read_kept(tmp_path / "none", band, is_grouped=True) == Kept()
    for other, is_grouped in ((Band(0.05, 0.11), True), (band, False)):
        with pytest.raises(UsageError, match="kept for another band"):
            read_kept(path, other, is_grouped=is_grouped)


def test_a_state_of_an_earlier_version(tmp_path: Path) -> None:
    """A state of version 1 is named as such, with what to do: its sums cannot be carried over."""
    path = tmp_path / "w.json"
    path.write_text('{"version":1,"band":{"low":0.05,"high":0.05,"step":0.05},"kept":{"state":{"seen":3}}}')
    with pytest.raises(UsageError, match="is of version 1 of the state, and this is version 2; remove it"):
        read_kept(path, Band(0.05, 0.05), is_grouped=True)


def test_keys_of_sessions() -> None:
    """A session has one key, another session another, and a row without a session none."""
    assert key_of_session("a") == key_of_session("a") != key_of_session("b")
    assert key_of_session(None) is None
    assert -(1 << 63) <= (key_of_session("\ud800") or 0) < 1 << 63


@pytest.mark.parametrize(
    ("is_grouped", "sums"),
    # one: 3 of 9, two: 1 of 9, and two rows alone, of which one is refused
    [(True, SessionSums(4, 20, 5, 9 + 1 + 1, 27 + 9 + 1, 81 + 81 + 2)), (False, SessionSums(20, 20, 5, 5, 5, 20))],
    ids=["sessions", "rows"],
)
def test_sums_of_a_baseline(tmp_path: Path, sums: SessionSums, *, is_grouped: bool) -> None:
    """A baseline adds up by its sessions, rows without one by themselves; what has no verdict is left out."""
    rows = questions(20, [0, 1, 2, 10, 19])
    named = [{**row, "session_id": "one" if i < 9 else "two" if i < 18 else None} for i, row in enumerate(rows)]
    named.append({"id": "x", "prompt": "a", "response": "", "session_id": "one"})
    run = json_lines(tmp_path / "run.jsonl", named)
    assert baseline_sums(str(run), ReadOptions(), is_grouped=is_grouped) == sums
