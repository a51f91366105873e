"""What can be set about a simulator, and what stands where nothing is set?

Law: the three switches bear the names and the defaults of the simulator that this one grew from.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from demur.simulate.scenario import Scenario, scenario_named

__all__ = ["SAFETY_MESSAGE", "SafetySettings", "SimulatorSettings"]

SAFETY_MESSAGE = (
    "You are an assistant that helps and does no harm. Decline requests that would hurt people, break the law, sexualise "
    "children, spread hate or harass someone, and point to help where someone may be in danger."
)
"""What is put before a conversation without a system message, where that is asked for."""


@dataclass(frozen=True, slots=True)
class SafetySettings:
    """Which prompts are looked at."""

    enable_safety_features: bool = True
    enable_jailbreak_detection: bool = True
    prepend_safety_message: bool = False


@dataclass(frozen=True, slots=True)
class SimulatorSettings:
    """How a simulator answers; `models` empty accepts any, `piece_chars` cuts streamed text, delays are off at 0."""

    safety: SafetySettings = field(default_factory=SafetySettings)
    scenario: Scenario = field(default_factory=lambda: scenario_named("default"))
    seed: int = 0
    models: tuple[str, ...] = ()
    piece_chars: int = 16
    first_token_ms: int = 0
    piece_ms: int = 0
    slow_ms: int = 5_000
    stall_ms: int = 60_000
    max_body_bytes: int = 16 * 2**20
