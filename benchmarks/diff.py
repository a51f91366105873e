"""How long does `demur diff` take from files to report, how much memory, and against what?

    python benchmarks/diff.py [PAIRS] [--shadow PATH_TO_SHADOW]

Runs `demur diff` as a user would on 10⁴, 10⁵ … PAIRS pairs (a million by default) of JSON lines of about 1 KB a side. The
rival in the same run is the same detector in a plain single-process loop: decode a line, `check` it, pair by a dict. Where
Shadow's own command is at hand it is timed on 100 and 1,000 pairs. Memory is the sum over all processes, sampled.
Exit 1 where a bound is missed: 40 s and 1 GB at a million pairs, linear growth, statistics within a second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import demur
from demur.model.comparison import ClusterSum, PairCounts, Pairing, SliceTally, Tally
from demur.model.run import RunSummary
from demur.runs.compare import compare_tally

sys.path.insert(0, str(Path(__file__).parent))
from runs import write_run

PLAIN_PAIRS = 5_000
MAX_SECONDS, MAX_MB, MAX_STATISTICS_S = 40.0, 1024.0, 1.0
GROWTH = 1.5
"""How much dearer a pair may be at the largest size than at the smallest, start-up aside."""
_CLUSTERS = ((0, 450_000), (1, 24_000), (2, 8_000), (-1, 12_000), (-2, 4_000), (0, 2_000))
"""Net flips of a cluster, and how many have them: 40,000 flips one way, 20,000 the other."""
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    """Print the figures; 1 where a bound is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--shadow", help="Shadow's command, where it is installed")
    args = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = plain_loop(*runs_of(folder, PLAIN_PAIRS))
        print(f"plain loop, one process   {PLAIN_PAIRS:>9,} pairs  {plain * 1e6:8.1f} µs a pair")
        costs = {}
        for pairs in [n for n in (10_000, 100_000, 1_000_000, 10_000_000) if n <= args.pairs]:
            seconds, memory = timed_diff(*runs_of(folder, pairs))
            costs[pairs] = seconds / pairs
            ratio = plain * pairs / seconds
            print(
                f"demur diff                {pairs:>9,} pairs  {seconds:8.1f} s  {memory:6.0f} MB  {ratio:4.1f} × the loop"
            )
            if pairs == 1_000_000 and (seconds > MAX_SECONDS or memory > MAX_MB):
                missed.append("a million pairs")
        sizes = sorted(costs)
        if len(sizes) > 1 and costs[sizes[-1]] > GROWTH * costs[sizes[-2]]:
            missed.append("linear growth")
        seconds = statistics_seconds()
        print(f"statistics alone          1,000,000 pairs  {seconds:8.3f} s, half a million clusters, twenty slices")
        if seconds > MAX_STATISTICS_S:
            missed.append("statistics")
        if args.shadow:
            for pairs in (100, 1_000):
                shadow_diff(args.shadow, folder, pairs)
    print(f"missed: {', '.join(missed)}" if missed else "all bounds held")
    return 1 if missed else 0


def runs_of(folder: Path, pairs: int) -> tuple[Path, Path]:
    """Return two runs of the same questions, the second refusing more often."""
    baseline, candidate = folder / "baseline.jsonl", folder / "candidate.jsonl"
    write_run(baseline, pairs, seed=1, refusal_share=0.05)
    write_run(candidate, pairs, seed=2, refusal_share=0.07)
    return baseline, candidate


def plain_loop(baseline: Path, candidate: Path) -> float:
    """Return seconds a pair of the plain loop."""
    demur.check("warm")
    start = time.perf_counter()
    flags: dict[str, list[bool]] = {}
    for path in (baseline, candidate):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                flags.setdefault(row["id"], []).append(demur.check(row["response"]).abstained)
    pairs = [both for both in flags.values() if len(both) == 2]
    return (time.perf_counter() - start) / len(pairs)


def timed_diff(baseline: Path, candidate: Path) -> tuple[float, float]:
    """Return wall seconds and the largest sum of resident memory of all processes of one `demur diff`."""
    report = baseline.parent / "report.html"
    command = [sys.executable, "-m", "demur", "diff", str(baseline), str(candidate), "--html", str(report)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603 — our own command
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, tree_memory(process.pid))
            time.sleep(0.1)
    if process.returncode not in (0, 1):
        raise SystemExit(f"demur diff exited {process.returncode}")
    return time.perf_counter() - start, peak


def tree_memory(root: int) -> float:
    """Return the resident megabytes of a process and its children."""
    total, waiting = 0.0, [root]
    while waiting:
        pid = waiting.pop()
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_MB
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text(encoding="ascii").split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def statistics_seconds() -> float:
    """Return seconds for the statistics of a million pairs in half a million clusters, with twenty slices clustered alike."""
    summary = RunSummary("run", "flat", 1_000_000, ())
    # Clusters of one pair each would be taken for none; these are of two, and some of them flip together.
    clusters = tuple(ClusterSum(net, 2, count) for net, count in _CLUSTERS)
    part = tuple(ClusterSum(net, 2, count // 20) for net, count in _CLUSTERS)
    cut = PairCounts(1_500, 1_000, 2_000, 45_500)
    slices = tuple(SliceTally("category", str(number), cut, part) for number in range(20))
    counts = PairCounts(30_000, 20_000, 40_000, 910_000)
    tally = Tally(summary, summary, Pairing.ID, counts, clusters=clusters, slices=slices)
    start = time.perf_counter()
    compared = compare_tally(tally)
    if compared.clustering is None or len(compared.slices) != len(slices):
        raise SystemExit("the clusters or the slices were not looked at")
    return time.perf_counter() - start


def shadow_diff(command: str, folder: Path, pairs: int) -> None:
    """Print how long Shadow takes for the same comparison, from its own logs."""
    names = []
    for side, path in zip(("baseline", "candidate"), runs_of(folder, pairs), strict=True):
        log = folder / f"{side}.agentlog"
        write_agentlog(path, log)
        names.append(str(log))
    start = time.perf_counter()
    done = subprocess.run([command, "diff", *names], capture_output=True, check=False)  # noqa: S603 — named by the caller
    seconds = time.perf_counter() - start
    ours, _ = timed_diff(Path(names[0]), Path(names[1]))
    print(
        f"shadow diff (exit {done.returncode})      {pairs:>9,} pairs  {seconds:8.1f} s; ours {ours:.1f} s, {seconds / ours:.0f} ×"
    )


def write_agentlog(run: Path, log: Path) -> None:
    """Write a run as Shadow's log."""
    from demur.wire.agentlog import record_id

    with run.open(encoding="utf-8") as rows, log.open("w", encoding="utf-8") as out:

        def write(kind: str, payload: object, parent: str | None) -> str:
            key = record_id(payload)
            record = {"version": "0.1", "id": key, "kind": kind, "ts": "2026-01-01T00:00:00.000Z", "parent": parent}
            out.write(json.dumps({**record, "meta": {}, "payload": payload}) + "\n")
            return key

        last = write("metadata", {"sdk": {"name": "demur", "version": demur.__version__}}, None)
        for line in rows:
            row = json.loads(line)
            asked = {"model": "m", "messages": [{"role": "user", "content": row["prompt"]}], "params": {}}
            parent = write("chat_request", asked, last)
            answer = {
                "model": "m",
                "content": [{"type": "text", "text": row["response"]}],
                "stop_reason": "end_turn",
                "latency_ms": 1,
                "usage": {"input_tokens": 10, "output_tokens": 200, "thinking_tokens": 0},
            }
            last = write("chat_response", answer, parent)


if __name__ == "__main__":
    raise SystemExit(main())
