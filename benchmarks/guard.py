"""What a guard costs a chunk of one token, beside the bare decoder of server-sent events, in the same run.

    python benchmarks/guard.py

Goals: 15 µs a chunk in `pass`, 40 µs in `window` (a scan every 200 characters, with the text joined for it and the
verdict given, but nothing searched). The floor is `wire.sse.Decoder`, which reads the same bytes and keeps none.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from demur.gateway.guard.guard import open_guard
from demur.gateway.guard.values import FinishReason, GuardMode
from demur.model.exchange import Choice, Finish, Response, Shape, TextPart
from demur.wire.shapes import CODECS
from demur.wire.sse import Decoder, encode

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNKS = 2000
ROUNDS = 15
GOALS_US = {GuardMode.PASS: 15.0, GuardMode.WINDOW: 40.0, GuardMode.BUFFER: 40.0}
SHAPES = (Shape.OPENAI_CHAT, Shape.AZURE, Shape.OPENAI_RESPONSES, Shape.ANTHROPIC)


def main() -> int:
    """Print the figures and return 1 where a goal is missed."""
    missed = False
    print(f"{CHUNKS} chunks of four characters, best of {ROUNDS} rounds, µs a chunk")
    print(f"{'shape':17} {'mode':7} {'decoder':>8} {'guard':>7} {'ratio':>6} {'goal':>5}")
    for shape in SHAPES:
        chunks = _chunks(shape)
        floor = _best(partial(_decode, chunks), len(chunks))
        for mode, goal in GOALS_US.items():
            cost = _best(partial(_guard, chunks, shape, mode), len(chunks))
            missed |= cost > goal
            row = f"{shape:17} {mode:7} {floor:8.2f} {cost:7.2f} {cost / floor:6.2f} {goal:5.0f}"
            print(row + "  missed" * (cost > goal))
    return int(missed)


def _chunks(shape: Shape) -> list[bytes]:
    choice = Choice(0, (TextPart("abc " * CHUNKS),), Finish.STOP)
    events = CODECS[shape].write_stream(Response("model", (choice,), id="id"), piece_chars=4)
    return [encode(event) for event in events]


def _decode(chunks: list[bytes]) -> None:
    decoder = Decoder()
    for chunk in chunks:
        decoder.feed(chunk)


def _guard(chunks: list[bytes], shape: Shape, mode: GuardMode) -> None:
    guard = open_guard(shape, mode=mode, window_chars=200, scan_every_chars=200)
    for chunk in chunks:
        step = guard.feed(chunk)
        while step.due is not None:
            step = guard.verdict(allow=True)
    step = guard.finish(FinishReason.END)
    while step.due is not None:
        step = guard.verdict(allow=True)


def _best(call: Callable[[], None], count: int) -> float:
    """Return the microseconds of one chunk, in the best round: others share the machine."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best / count * 1e6


if __name__ == "__main__":
    sys.exit(main())
