"""The same comparison on this machine and on Spark: CPU for a further million rows a side, its growth, and the driver's memory.

    python benchmarks/cluster.py                      20,000, 100,000 and 400,000 rows a side
    python benchmarks/cluster.py 1000000 4000000      the claim: ≤ 2.2 times the CPU, linear, the driver's memory the same

Each figure is of a process of its own. CPU is that of the whole tree of processes, executors and their workers included; the
start of Spark is in every size, and so not in the difference of two; a small size before the others shows what the first rows cost.
The driver's heap is what is alive after a collection, of the 512 MB that it is given; its peaks are of resident memory.
`--minutes N` (40) is when to give up. Exit 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
_MASTER = "local-cluster[2,1,1024]"
_DRIVER_MEMORY = "512m"
_SMALL = 20_000
_SIZES = (100_000, 400_000)
_DISTINCT = 50_000
"""Answers that differ; larger runs say them again, under ids and prompts of their own."""
_MOST, _GROWTH, _HEAP_GROWTH = 2.2, 1.2, 1.2
"""Bounds: Spark's CPU to this machine's, a further row's CPU to an earlier one's, the driver's heap at the largest to the smallest."""
_ROWS_FOR_GROWTH = 1_000_000
"""Below it what Java spends on compiling, ten seconds more or less, drowns the growth."""
_LOOK_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")

Figures = dict[tuple[str, int], dict[str, float]]


def main() -> int:
    """Measure both engines at each size, print the ratios, and return 1 where a bound is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int, help="rows a side")
    parser.add_argument("--minutes", type=float, default=40)
    args = parser.parse_args()
    sizes = sorted({_SMALL, *(args.rows or _SIZES)})
    until = time.monotonic() + args.minutes * 60
    found: Figures = {}
    with tempfile.TemporaryDirectory() as name:
        for rows in sizes:
            paths = _written(rows, Path(name))
            for engine in ("local", "spark"):
                found[engine, rows] = figures = _measured(engine, paths, until=until)
                shown = "  ".join(f"{k} {v:,.1f}" for k, v in figures.items())
                print(f"{engine:6} {rows:>10,} rows a side  {shown}", flush=True)
            for path in paths:
                path.unlink()
    missed = _missed(found, sizes)
    print(f"missed: {', '.join(missed)}" if missed else "all bounds held")
    return 1 if missed else 0


def _missed(found: Figures, sizes: Sequence[int]) -> list[str]:
    """Print the ratios, and return what is beyond its bound."""
    missed = []
    costs: dict[str, list[float]] = {"local": [], "spark": []}
    for few, many in pairwise(sizes):
        for engine, cost in costs.items():
            cost.append((found[engine, many]["cpu_s"] - found[engine, few]["cpu_s"]) / (many - few) * 1e6)
        local, spark = costs["local"][-1], costs["spark"][-1]
        print(
            f"{few:,} → {many:,}: CPU s per further 10⁶ rows a side: this machine {local:.1f}, Spark {spark:.1f}, "
            f"ratio {spark / local:.2f} (≤ {_MOST})"
        )
    if costs["spark"][-1] > _MOST * costs["local"][-1]:
        missed.append("CPU")
    if len(sizes) > 2:
        growth = costs["spark"][-1] / costs["spark"][-2]
        judged = sizes[-2] >= _ROWS_FOR_GROWTH
        bound = f"≤ {_GROWTH}" if judged else f"no bound below {_ROWS_FOR_GROWTH:,} rows"
        print(f"a further row on Spark costs {growth:.2f} × an earlier one ({bound})")
        missed += ["linear growth"] * (judged and growth > _GROWTH)
    heaps = [found["spark", rows]["driver_heap_mb"] for rows in sizes]
    print(f"the driver's heap is {heaps[-1] / heaps[0]:.2f} × that of {sizes[0]:,} rows (≤ {_HEAP_GROWTH})")
    return missed + ["driver's memory"] * (heaps[-1] > _HEAP_GROWTH * heaps[0])


def _written(rows: int, folder: Path) -> list[Path]:
    """Return two runs of the same questions; what differs in their answers comes round again after a while."""
    from benchmarks.runs import write_run

    paths = []
    for seed, side in enumerate(("baseline", "candidate")):
        distinct, path = folder / f"{side}.jsonl", folder / f"{side}-{rows}.jsonl"
        if not distinct.exists():
            write_run(distinct, _DISTINCT, seed=seed, refusal_share=0.05 + 0.01 * seed)
        tails = [line.partition(": what should")[2] for line in distinct.read_text(encoding="utf-8").splitlines()]
        with path.open("w", encoding="utf-8") as out:
            for number in range(rows):
                tail = tails[number % _DISTINCT]
                out.write(f'{{"id": "q-{number}", "prompt": "Question {number}: what should{tail}\n')
        paths.append(path)
    return paths


def _measured(engine: str, paths: Sequence[Path], *, until: float) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", engine, *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(  # noqa: S603 — this file itself
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, said = process.communicate(timeout=max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            # Its executors are in its group.
            os.killpg(process.pid, signal.SIGKILL)
            sys.exit(f"out of time while {engine} was measured; give it more with --minutes")
    if process.returncode:
        sys.exit(said[-2000:])
    figures: dict[str, float] = json.loads(out.splitlines()[-1])
    return figures


def _one(engine: str, baseline: str, candidate: str) -> None:
    began = time.monotonic()
    figures = _on_spark(baseline, candidate) if engine == "spark" else _here(baseline, candidate)
    print(json.dumps({"wall_s": time.monotonic() - began, **figures}))


def _here(baseline: str, candidate: str) -> dict[str, float]:
    from demur.runs.api import Reading, compare

    compare(baseline, candidate, reading=Reading(jobs=None))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {"cpu_s": sum(u.ru_utime + u.ru_stime for u in used), "peak_mb": used[0].ru_maxrss / 1024}


def _on_spark(baseline: str, candidate: str) -> dict[str, float]:
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    from demur.cluster import compare

    builder = SparkSession.builder.master(_MASTER).config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    quiet = builder.config("spark.driver.memory", _DRIVER_MEMORY).config("spark.sql.shuffle.partitions", "8")
    session = quiet.config("spark.driver.host", "127.0.0.1").getOrCreate()
    here = os.getpid()
    clock = _TreeClock(here)
    clock.start()
    compare(baseline, candidate)
    driver = next(pid for pid, parent in _descendants(here).items() if parent == here)
    figures = {
        "cpu_s": clock.stop(),
        "driver_python_mb": _peak_mb(here),
        "driver_jvm_mb": _peak_mb(driver),
        "driver_heap_mb": _live_heap_mb(session.sparkContext._jvm),  # noqa: SLF001 — PySpark has no other way to its Java
    }
    session.stop()
    return figures


class _TreeClock(threading.Thread):
    """The CPU of a process and of all below it, those that ended included, as it was last seen.

    PySpark ends workers that are idle for a minute and leaves them to nobody (`SIGCHLD` is ignored), so that their CPU is in no
    parent's account; one that comes and goes between two looks is not seen.
    """

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._seen: dict[tuple[int, str], float] = {}
        self._done = threading.Event()

    def run(self) -> None:
        """Look until it is stopped."""
        while not self._done.wait(_LOOK_S):
            self._look()

    def stop(self) -> float:
        """Return the seconds of all that were seen."""
        self._done.set()
        self.join()
        self._look()
        return sum(self._seen.values())

    def _look(self) -> None:
        for pid in (self._root, *_descendants(self._root)):
            stat = _stat(Path(f"/proc/{pid}"))
            # proc(5): utime and stime; a number that is given again has another start.
            if stat[0] != "?":
                self._seen[pid, stat[19]] = sum(map(int, stat[11:13])) / _TICKS


def _live_heap_mb(java: object) -> float:
    """Return what is alive in a heap after a collection."""
    java.System.gc()  # type: ignore[attr-defined]  # a package of Java, by way of the gateway
    runtime = java.Runtime.getRuntime()  # type: ignore[attr-defined]  # a package of Java, by way of the gateway
    used: int = runtime.totalMemory() - runtime.freeMemory()
    return used / 2**20


def _descendants(root: int) -> dict[int, int]:
    """Return all processes below one, each with its parent."""
    parents = {int(p.name): _parent(p) for p in Path("/proc").iterdir() if p.name.isdecimal()}
    below, found = {root}, dict[int, int]()
    while grown := {pid for pid, parent in parents.items() if parent in below} - found.keys():
        found |= {pid: parents[pid] for pid in grown}
        below = grown
    return found


def _stat(folder: Path) -> list[str]:
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["?", *["0"] * 20]


def _parent(folder: Path) -> int:
    return int(_stat(folder)[1])


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


if __name__ == "__main__":
    if "--one" in sys.argv:
        _one(*sys.argv[2:])
    else:
        raise SystemExit(main())
