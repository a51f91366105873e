"""Does the drift test keep its level, do the intervals of ratios cover, and how long does a large run take?

    python benchmarks/axes.py

The level of the fingerprint's T² at 10, 30 and 100 pairs without any change, beside that of the textbook F test on the same differences (the
rival); the coverage of the intervals of a median ratio and of a ratio of totals; the time of both and of the tail's over 100,000 pairs
beside a bootstrap of a thousand resamples (the rival); processor time and memory of `demur diff` on 50,000 pairs with all axes, beside safety alone (the floor). Seeded, in about
three minutes on one core.

Exits with 1 where a level is outside 0.03 to 0.07, the three ratios take more than two seconds of processor time, or all axes take more
than four times the processor time of safety or 300 MB more.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.fingerprint import fingerprint_shift
from demur.axes.ratios import median_ratio, tail_ratio, total_ratio
from demur.axes.steps import DIMENSIONS
from demur.measure.special import incomplete_beta

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

SIZES = (10, 30, 100)
RUNS = 2000
MANY = len(DIMENSIONS)
FLAGS = [DIMENSIONS.index(name) for name in ("stop_end_turn", "stop_tool_use", "refusal_flag", "error_token_flag")]


def answers(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Return the features of two runs of one model: a question's own level in both, heavy-tailed chance on top, rare flags."""
    level = rng.normal(size=(n, MANY))
    sides = [level + rng.standard_t(4, size=(n, MANY)) for _ in range(2)]
    for side in sides:
        side[:, FLAGS] = rng.random((n, len(FLAGS))) < 0.1
    return sides[0], sides[1]


def textbook_p(moved: Floats) -> float:
    """Return the p of Hotelling's T² by the F distribution; 1 where the covariance cannot be inverted."""
    n, many = moved.shape
    spread = np.cov(moved, rowvar=False)
    if n <= many or np.linalg.matrix_rank(spread) < many:
        return 1.0
    mean = moved.mean(axis=0)
    f = n * float(mean @ np.linalg.solve(spread, mean)) * (n - many) / ((n - 1) * many)
    # The upper tail of F(many, n - many), by the incomplete beta function.
    return incomplete_beta((n - many) / (n - many + many * f), (n - many) / 2, many / 2)


def levels() -> bool:
    """Print the share of false alarms by size; return whether ours are as promised."""
    kept = True
    for n in SIZES:
        rng = np.random.default_rng(n)
        ours = theirs = 0
        for i in range(RUNS):
            before, after = answers(rng, n)
            ours += fingerprint_shift(before, after, seed=i).p <= 0.05
            theirs += textbook_p(after - before) <= 0.05
        kept &= 0.03 <= ours / RUNS <= 0.07
        print(f"false alarms at n = {n:3}: ours {ours / RUNS:.3f}, textbook F {theirs / RUNS:.3f}")
    return kept


def coverage() -> None:
    """Print how often the interval of a median's shift holds the truth."""
    for n in SIZES:
        rng = np.random.default_rng(n)
        held = [0, 0]
        for i in range(RUNS // 2):
            before = rng.lognormal(3, 1, n)
            after = before * rng.lognormal(np.log(1.2), 0.2, n)
            typical = median_ratio(before, after, np.arange(n)).interval
            whole = total_ratio(before, after, np.arange(n), seed=i).interval
            held[0] += typical is not None and typical.low <= 1.2 <= typical.high
            held[1] += whole is not None and whole.low <= 1.2 * np.exp(0.02) <= whole.high
        print(f"coverage at n = {n:3}: median ratio {held[0] / (RUNS // 2):.3f}, totals {held[1] / (RUNS // 2):.3f}")


def speed() -> bool:
    """Print the time of a large run and that of a bootstrap; return whether ours is within two seconds."""
    rng = np.random.default_rng(1)
    before = rng.lognormal(5, 1, 100_000)
    after = before * rng.lognormal(0.01, 0.3, 100_000)
    begun = time.process_time()
    for ratio in (median_ratio, total_ratio, tail_ratio):
        ratio(before, after, np.arange(100_000))
    ours = time.process_time() - begun
    begun = time.process_time()
    for _ in range(20):
        drawn = rng.integers(0, len(before), len(before))
        float(np.median(after[drawn]) - np.median(before[drawn]))
    plain = (time.process_time() - begun) * 50
    print(f"100,000 pairs: three ratios {ours:.2f} s, bootstrap of a median {plain:.1f} s, ratio {plain / ours:.1f}")
    return ours <= 2


def rows(seed: int) -> str:
    """Return a run of 50,000 plain rows as JSON lines."""
    rng = random.Random(seed)  # noqa: S311 - made-up rows
    words = ("the", "order", "is", "ready", "at", "desk", "please", "check", "balance", "and", "we", "send", "it")
    made = (
        {
            "id": f"q{at}",
            "session_id": f"s{at // 5}",
            "prompt": f"Question {at}?",
            "response": " ".join(rng.choices(words, k=40)),
            "latency_ms": rng.randint(50, 900),
            "output_tokens": rng.randint(20, 90),
            "input_tokens": 20,
        }
        for at in range(50_000)
    )
    return "".join(json.dumps(row) + "\n" for row in made)


def diffed(folder: Path, *flags: str) -> tuple[float, float]:
    """Return the processor seconds and the megabytes that one `demur diff` takes."""
    code = "import sys; from demur.cli.main import main; sys.exit(main(sys.argv[1:]))"
    call = [sys.executable, "-c", code, "diff", str(folder / "a.jsonl"), str(folder / "b.jsonl"), "--jobs", "1", *flags]
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"demur diff ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def reading() -> bool:
    """Print what all axes of 50,000 pairs take beside safety alone; return whether that is as promised."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, seed in (("a", 1), ("b", 2)):
            (folder / f"{side}.jsonl").write_text(rows(seed), encoding="utf-8")
        (alone, floor), (whole, peak) = diffed(folder), diffed(folder, "--axes", "all")
    print(
        f"50,000 pairs: safety {alone:.1f} s, {floor:.0f} MB; all axes {whole:.1f} s, {peak:.0f} MB; {whole / alone:.1f} x"
    )
    return whole <= 4 * alone and peak <= floor + 300


def main() -> int:
    """Run all; 0 where the promises hold."""
    kept = [reading(), levels(), speed()]
    coverage()
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
