"""One decision of the gate beside a bare call of the engine, in the same run.

    python benchmarks/policy.py

Goals: 30 policies and 20 claims in 800 µs, 30 policies and 2 claims in 250 µs. The floor is one `is_authorized` with a
parsed handle and a ready context: what the gate adds is coercion, the record and naming the rules.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import cedarpy

from demur.model.claim import Claim, ClaimType, Phase
from demur.policy.cedar import PolicySource, cedar_text
from demur.policy.gate import Ask, PolicyGate, load_gate

if TYPE_CHECKING:
    from collections.abc import Callable

POLICIES = 30
GOALS_US = {20: 800.0, 2: 250.0}
ROUNDS = 40
CALLS = 25


def main() -> int:
    """Print the figures and return 1 where a goal is missed."""
    missed = False
    print(f"{POLICIES} policies, best of {ROUNDS} rounds of {CALLS} calls, µs a decision")
    print(f"{'claims':>6} {'bare':>8} {'gate':>8} {'ratio':>6} {'goal':>6}")
    for claims, goal in GOALS_US.items():
        gate = _gate(claims)
        ask = Ask(Phase.REQUEST, tuple(_claim(index) for index in range(claims)), session="s", model="m")
        bare, whole = _best(_bare(gate, ask)), _best(partial(gate.decide, ask))
        missed |= whole > goal
        print(f"{claims:6} {bare:8.0f} {whole:8.0f} {whole / bare:6.2f} {goal:6.0f}{'  missed' * (whole > goal)}")
    print(f"loading: {_best(lambda: _gate(20), rounds=3, calls=1) / 1000:.1f} ms")
    return int(missed)


def _gate(claims: int) -> PolicyGate:
    words = ("deny", "warn", "log")
    rules = (
        f'@id("r{index}") @decision("{words[index % 3]}") forbid (principal, action, resource)\n'
        f"when {{ context.claims.c{index % claims} > 0.{index % 9 + 1} }};"
        for index in range(POLICIES)
    )
    return load_gate([PolicySource("benchmark.cedar", "\n".join(rules))])


def _claim(index: int) -> Claim:
    return Claim(f"c{index}", ClaimType.SCORE_NORMALIZED, index % 10 / 10, Phase.REQUEST, "benchmark")


def _bare(gate: PolicyGate, ask: Ask) -> Callable[[], object]:
    """Return a call of Cedar itself on the same rules and the same context."""
    handle = cedarpy.PolicySet.from_str("\n".join(cedar_text(rule.tree) for rule in gate.rules))
    nobody = cedarpy.Entities.from_json_str("[]")
    recorded = gate.context_of(ask)
    request = {
        "principal": {"type": "Session", "id": recorded["principal"]},
        "action": {"type": "Action", "id": recorded["action"]},
        "resource": {"type": "Model", "id": recorded["resource"]},
        "context": {"claims": recorded["claims"], "invalid": []},
    }
    return lambda: cedarpy.is_authorized(request, handle, nobody)


def _best(call: Callable[[], object], *, rounds: int = ROUNDS, calls: int = CALLS) -> float:
    """Return the microseconds of one call, in the best round: others share the machine."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best * 1e6


if __name__ == "__main__":
    sys.exit(main())
