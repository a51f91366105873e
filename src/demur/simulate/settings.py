"""What can be set about a simulator, with its defaults.

The three switches have the names, the defaults and the variables of FakeAI, the simulator that this one grew from, so that its users
keep theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from demur.io.files import read_text
from demur.io.settings import Setting, SettingsSource
from demur.simulate.scenario import Scenario, parse_scenario, scenario_named

__all__ = ["SAFETY_MESSAGE", "SIMULATOR_SETTINGS", "SafetySettings", "SimulatorOptions", "SimulatorSettings"]

SAFETY_MESSAGE = (
    "You are a helpful assistant that does no harm. Decline requests that would hurt people, break the law, sexualise "
    "children, spread hate or harass someone, and point to help where someone may be in danger."
)
"""What is put before a conversation without a system message, if that is asked for."""


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


# Apart from `SimulatorSettings`: users write flat names and a scenario by its name, the engine takes the scenario itself.
@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """The settings as users write them: how a simulator answers, by which pack, where it listens and keeps its truths."""

    enable_safety_features: Annotated[
        bool, Setting("refuse harmful prompts (on)", also="FAKEAI_ENABLE_SAFETY_FEATURES")
    ] = True
    enable_jailbreak_detection: Annotated[
        bool, Setting("refuse jailbreaks (on)", also="FAKEAI_ENABLE_JAILBREAK_DETECTION")
    ] = True
    prepend_safety_message: Annotated[
        bool,
        Setting(
            "put a safety message before conversations that have no system message (off)",
            also="FAKEAI_PREPEND_SAFETY_MESSAGE",
        ),
    ] = False
    scenario: Annotated[str, Setting("how to refuse (default); see --list")] = "default"
    pack: Annotated[str, Setting("judge prompts by a phrase pack, as fakeai")] = ""
    models: Annotated[tuple[str, ...], Setting("accept these models only (any)")] = ()
    seed: Annotated[int, Setting("what ids and draws come from (0)", low=0)] = 0
    piece_chars: Annotated[int, Setting("characters of a streamed piece of text (16)", low=0)] = 16
    first_token_ms: Annotated[int, Setting("delay before an answer (0)", low=0)] = 0
    piece_ms: Annotated[int, Setting("delay between streamed pieces (0)", low=0)] = 0
    slow_ms: Annotated[int, Setting("delay of the fault `slow` (5000)", low=0)] = 5_000
    stall_ms: Annotated[int, Setting("silence of the fault `stall` (60000)", low=0)] = 60_000
    max_body_bytes: Annotated[int, Setting("the largest request that is read (16777216)", low=0)] = 16 * 2**20
    host: Annotated[str, Setting("address to listen on (127.0.0.1)")] = "127.0.0.1"
    port: Annotated[int, Setting("port to listen on, 0 for a free one (8082)", low=0, high=65_535)] = 8082
    truth: Annotated[str, Setting("append the truth of every reply to a JSONL file")] = ""

    def settings(self) -> SimulatorSettings:
        """Return how the simulator answers; the scenario is a name, or a file that ends in `.toml`."""
        named = self.scenario
        scenario = parse_scenario(read_text(named), source=named) if named.endswith(".toml") else scenario_named(named)
        return SimulatorSettings(
            SafetySettings(self.enable_safety_features, self.enable_jailbreak_detection, self.prepend_safety_message),
            scenario,
            self.seed,
            self.models,
            self.piece_chars,
            self.first_token_ms,
            self.piece_ms,
            self.slow_ms,
            self.stall_ms,
            self.max_body_bytes,
        )


SIMULATOR_SETTINGS = SettingsSource(SimulatorOptions, "simulator", page="docs/simulator.md", qualified=True)
"""Where the simulator's settings come from."""
