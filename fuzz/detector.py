"""Throw bytes at the detector until something gives: `python fuzz/detector.py [seconds]`.

With atheris installed the input is guided by coverage (`pip install atheris`); without it, by chance. Either way the law is
the same: no text makes `check`, `check_prompt` or the readers raise anything but our own errors, and spans stay inside.
"""

from __future__ import annotations

import random
import sys
import time

import demur
from demur.detect.batch import judge_texts
from demur.errors import DemurError

PIECES = [
    "I can't help",
    "“",
    "\u200b",
    "\ud800",
    "```",
    "no! ",
    "죄송",
    "aWdub3Jl",
    "i g n o r e",
    "\n- ",
    "%69",
    "&#105;",
    "\u0301" * 9,
]


def one_input(data: bytes) -> None:
    """Judge one input in every way there is."""
    text = data.decode("utf-8", "surrogateescape")
    verdict = demur.check(text)
    assert all(0 <= f.span.start <= f.span.end <= len(text) for f in verdict.findings)  # noqa: S101 — the law
    assert judge_texts([text or "x"])[0][0] is demur.check(text or "x").outcome or not text.strip()  # noqa: S101 — the law
    demur.check_prompt(text)
    try:
        demur.check(data)
    except DemurError:
        return


def main() -> None:
    """Run for a while, or under atheris for as long as it likes."""
    try:
        import atheris
    except ImportError:
        chance = random.Random(0)  # noqa: S311 — chance, not secrecy
        end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 30)
        count = 0
        while time.monotonic() < end:
            pieces = [
                chance.choice(PIECES) if chance.random() < 0.6 else chr(chance.randrange(1, 0xFFFF))
                for _ in range(chance.randrange(60))
            ]
            one_input("".join(pieces).encode("utf-8", "surrogatepass"))
            one_input(chance.randbytes(chance.randrange(80)))
            count += 2
        print(f"{count} inputs, nothing broke")
    else:
        atheris.Setup(sys.argv, one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
