"""What does the chain add to the bare detector? Prints µs an audit, the difference and the ratio, and checks the bound."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from demur.audit.chains import open_chain
from demur.audit.config import parse_chain
from demur.audit.inputs import request_input, response_input
from demur.detect.check import classify_text
from demur.detect.prompts.check import check_prompt
from demur.model.exchange import Choice, Message, Request, Response, TextPart

if TYPE_CHECKING:
    from demur.audit.chain import Chain

CHAIN = "chain: [{name: safety-checker, python: safety-checker}]"
PLAIN = "Please summarise the following meeting notes for the team and list the open questions. "
PROMPTS = {"short": "What is the capital of France?", "1 kB": (PLAIN * 20)[:1024]}
ANSWERS = {"short": "Paris is the capital of France.", "refusal": "I'm sorry, but I can't help with that."}
BOUND_US = 150.0
RUNS, REPEATS = 300, 7


def bare_us(value: Request | Response) -> float:
    """Return the best timing of the bare detector."""
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(RUNS):
            if isinstance(value, Request):
                check_prompt(value)
            else:
                classify_text(value)
        taken.append(time.perf_counter() - start)
    return min(taken) / RUNS * 1e6


async def chain_us(chain: Chain, value: Request | Response) -> float:
    """Return the best timing of a whole audit, the making of its input included."""
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(RUNS):
            given = request_input(value) if isinstance(value, Request) else response_input(value)
            await chain.audit(given)
        taken.append(time.perf_counter() - start)
    return min(taken) / RUNS * 1e6


async def main() -> int:
    """Print a line for each text; return 1 where the chain adds more than its bound."""
    chain = open_chain(parse_chain(CHAIN))
    cases: list[tuple[str, Request | Response]] = [
        *((f"prompt, {kind}", Request("m", (Message("user", (TextPart(text),)),))) for kind, text in PROMPTS.items()),
        *((f"answer, {kind}", Response("m", (Choice(0, (TextPart(text),)),))) for kind, text in ANSWERS.items()),
    ]
    worst = 0.0
    print(f"{'µs':16} {'detector':>9} {'chain':>9} {'added':>7} {'ratio':>6}")
    for name, value in cases:
        bare = bare_us(value)
        whole = await chain_us(chain, value)
        worst = max(worst, whole - bare)
        print(f"{name:16} {bare:9.1f} {whole:9.1f} {whole - bare:7.1f} {whole / bare:6.1f}")
    print(f"bound: at most {BOUND_US:.0f} µs added")
    return int(worst > BOUND_US)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
