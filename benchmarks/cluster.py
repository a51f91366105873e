"""The same comparison on this machine and on Spark: CPU for a further million rows a side, its growth, and the driver's memory.

    python benchmarks/cluster.py                      50,000 and 150,000 rows a side
    python benchmarks/cluster.py 1000000 4000000      the claim: ≤ 2.2 times the CPU, linear, the driver's memory the same

Each figure is of a process of its own. CPU is that of the whole tree of processes, executors and their workers included; the
start of Spark is in both sizes, and so not in the difference.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
_MASTER = "local-cluster[2,1,1024]"
_DRIVER_MEMORY = "512m"
_MOST = 2.2
_SIZES = (50_000, 150_000)
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure both engines at each size, and print the ratio of what further rows cost."""
    sizes = sorted({int(word.replace("_", "")) for word in sys.argv[1:]}) or list(_SIZES)
    with tempfile.TemporaryDirectory() as name:
        found = {(engine, rows): _measured(engine, rows, Path(name)) for rows in sizes for engine in ("local", "spark")}
    for (engine, rows), figures in found.items():
        print(f"{engine:6} {rows:>10,} rows a side  " + "  ".join(f"{k} {v:,.1f}" for k, v in figures.items()))
    for few, many in pairwise(sizes):
        local, spark = (_further(found, engine, few, many) for engine in ("local", "spark"))
        print(
            f"{few:,} → {many:,}: CPU s per further 10⁶ rows a side: this machine {local:.1f}, Spark {spark:.1f}, "
            f"ratio {spark / local:.2f} (to reach: ≤ {_MOST})"
        )


def _further(found: dict[tuple[str, int], dict[str, float]], engine: str, few: int, many: int) -> float:
    return (found[engine, many]["cpu_s"] - found[engine, few]["cpu_s"]) / (many - few) * 1e6


def _measured(engine: str, rows: int, folder: Path) -> dict[str, float]:
    from benchmarks.runs import write_run

    paths = [folder / f"{side}-{rows}.jsonl" for side in ("baseline", "candidate")]
    for seed, path in enumerate(paths):
        if not path.exists():
            write_run(path, rows, seed=seed, refusal_share=0.05 + 0.01 * seed)
    command = [sys.executable, __file__, "--one", engine, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 — this file itself
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _one(engine: str, baseline: str, candidate: str) -> None:
    began = time.monotonic()
    figures = _on_spark(baseline, candidate) if engine == "spark" else _here(baseline, candidate)
    print(json.dumps({"wall_s": time.monotonic() - began, **figures}))


def _here(baseline: str, candidate: str) -> dict[str, float]:
    from demur.runs import Reading, compare

    compare(baseline, candidate, reading=Reading(jobs=None))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {"cpu_s": sum(u.ru_utime + u.ru_stime for u in used), "peak_mb": used[0].ru_maxrss / 1024}


def _on_spark(baseline: str, candidate: str) -> dict[str, float]:
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
    from pyspark.sql import SparkSession

    from demur.cluster import compare

    builder = SparkSession.builder.master(_MASTER).config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    quiet = builder.config("spark.driver.memory", _DRIVER_MEMORY).config("spark.sql.shuffle.partitions", "8")
    session = quiet.config("spark.driver.host", "127.0.0.1").getOrCreate()
    compare(baseline, candidate)
    here = os.getpid()
    tree = _descendants(here)
    driver = next(pid for pid, parent in tree.items() if parent == here)
    figures = {
        "cpu_s": sum(map(_cpu_s, (here, *tree))),
        "driver_python_mb": _peak_mb(here),
        "driver_jvm_mb": _peak_mb(driver),
    }
    session.stop()
    return figures


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


def _cpu_s(pid: int) -> float:
    """Return the CPU of a process and of its children that have ended (proc(5): utime, stime, cutime, cstime)."""
    return sum(map(int, _stat(Path(f"/proc/{pid}"))[11:15])) / _TICKS


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


if __name__ == "__main__":
    if "--one" in sys.argv:
        _one(*sys.argv[2:])
    else:
        main()
