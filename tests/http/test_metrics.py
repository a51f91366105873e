"""Figures for Prometheus: bounded, summed over workers, never falling."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import UsageError
from demur.http.metrics import Family, FamilyKind, MetricsBoard

DONE = Family("done_total", FamilyKind.COUNTER, "what was done", (("how", ("well", "badly")),))
TOOK = Family("took_seconds", FamilyKind.HISTOGRAM, "how long", bounds=(0.1, 1.0))
NOW = Family("now", FamilyKind.GAUGE, "what is going on")


def samples(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_the_text_is_as_prometheus_reads_it(tmp_path: Path) -> None:
    """Each family has its help and type; a histogram is cumulative, and a bound belongs to what lies below it."""
    board = MetricsBoard((DONE, TOOK, NOW), tmp_path)
    board.add("done_total", "well")
    for seconds in (0.05, 0.1, 0.5, 7):
        board.observe("took_seconds", seconds)
    board.add("now", by=2)
    board.add("now", by=-1)
    assert board.text() == (
        "# HELP done_total what was done\n# TYPE done_total counter\n"
        'done_total{how="well"} 1\n'
        "# HELP took_seconds how long\n# TYPE took_seconds histogram\n"
        'took_seconds_bucket{le="0.1"} 2\ntook_seconds_bucket{le="1"} 3\ntook_seconds_bucket{le="+Inf"} 4\n'
        "took_seconds_sum 7.6500000000000004\ntook_seconds_count 4\n"
        "# HELP now what is going on\n# TYPE now gauge\nnow 1\n"
    )
    board.close()


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricsBoard]:
    """One board for every drawn case: a fixture of a function would be made once for all of them anyway."""
    made = MetricsBoard((DONE,), tmp_path_factory.mktemp("figures"))
    yield made
    made.close()


@given(st.lists(st.text(max_size=20), max_size=30))
def test_what_users_send_makes_no_series(board: MetricsBoard, values: list[str]) -> None:
    """Any value that a label does not know is counted, as `other`, and nothing gets lost."""
    before = samples(board.text())
    for value in values:
        board.add("done_total", value)
    after = samples(board.text())
    assert set(after) <= {f'done_total{{how="{word}"}}' for word in ("well", "badly", "other")}
    assert sum(after.values()) - sum(before.values()) == len(values)


def test_labels_are_escaped(tmp_path: Path) -> None:
    """Quotes, backslashes and line breaks in a name from the operator's files cannot break a line."""
    family = Family("f_total", FamilyKind.COUNTER, "a\nb", (("who", ('a"b\\c\nd',)),))
    board = MetricsBoard((family,), tmp_path)
    board.add("f_total", 'a"b\\c\nd')
    assert board.text().splitlines()[0] == "# HELP f_total a\\nb"
    assert board.text().splitlines()[-1] == r'f_total{who="a\"b\\c\nd"} 1'


CHILD = """
import sys
from demur.http.metrics import Family, FamilyKind, MetricsBoard
done = Family("done_total", FamilyKind.COUNTER, "what was done", (("how", ("well", "badly")),))
now = Family("now", FamilyKind.GAUGE, "what is going on")
board = MetricsBoard((done, now), sys.argv[1])
for _ in range(1000):
    board.add("done_total", "well")
board.add("now", by=5)
print(board.text().splitlines()[-1], flush=True)
sys.stdin.read()
"""


def test_workers_are_summed_and_a_dead_one_still_counts(tmp_path: Path) -> None:
    """Any worker shows the sum; the counts of one that was killed stay, and what it had going on does not."""
    board = MetricsBoard((DONE, NOW), tmp_path)
    board.add("done_total", "well")
    board.add("now")
    workers = [
        subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 — our own interpreter
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    assert samples(board.text()) == {'done_total{how="well"}': 2001, "now": 11}
    for worker in workers:
        worker.kill()
        worker.communicate()
    assert samples(board.text()) == {'done_total{how="well"}': 2001, "now": 1}


def test_a_worker_that_begins_again_goes_on_counting(tmp_path: Path) -> None:
    """A process number that comes back keeps its counts and forgets what was going on."""
    first = MetricsBoard((DONE, NOW), tmp_path, worker=os.getpid())
    first.add("done_total", "well")
    first.add("now", by=3)
    first.close()
    again = MetricsBoard((DONE, NOW), tmp_path, worker=os.getpid())
    again.add("done_total", "well")
    assert samples(again.text()) == {'done_total{how="well"}': 2, "now": 0}


def test_figures_of_another_making_are_left_out(tmp_path: Path) -> None:
    """Files of other families, half-written ones and strange ones are not added up."""
    MetricsBoard((TOOK,), tmp_path, worker=1).observe("took_seconds", 1)
    (tmp_path / "2.figures").write_bytes(b"x")
    (tmp_path / "x.figures").write_bytes(b"")
    board = MetricsBoard((NOW,), tmp_path)
    assert samples(board.text()) == {"now": 0}


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    """Too few labels, too many series, and a folder that is none are errors of usage."""
    board = MetricsBoard((DONE,), tmp_path)
    with pytest.raises(UsageError, match="takes 1 labels"):
        board.add("done_total")
    many = Family("f_total", FamilyKind.COUNTER, "", tuple((f"l{n}", tuple(map(str, range(20)))) for n in range(3)))
    with pytest.raises(UsageError, match="9261 series"):
        MetricsBoard((many,), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot hold figures"):
        MetricsBoard((DONE,), tmp_path / "file")
