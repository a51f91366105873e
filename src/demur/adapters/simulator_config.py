"""Which settings has the simulator, from the environment and a scenario's file?

Laws: an unset variable means the documented default; a value that cannot be is refused with the variable's name; a flag
of the command line stands above its variable.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from demur.adapters.files import read_text
from demur.errors import UsageError
from demur.simulate.scenario import parse_scenario, scenario_named
from demur.simulate.settings import SafetySettings, SimulatorSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.simulate.scenario import Scenario

__all__ = ["NUMBERS", "SWITCHES", "scenario_of_flag", "simulator_settings", "simulator_variable"]

SWITCHES = ("enable_safety_features", "enable_jailbreak_detection", "prepend_safety_message")
"""The settings that are true or false, by their names in the environment and on the command line."""
NUMBERS = ("seed", "piece_chars", "first_token_ms", "piece_ms", "slow_ms", "stall_ms", "max_body_bytes")
"""The settings that are whole numbers."""

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def simulator_variable(setting: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return what the environment says about a setting, None where it says nothing."""
    env = os.environ if environ is None else environ
    return env.get(f"DEMUR_SIMULATOR_{setting.upper()}", "").strip() or None


def simulator_settings(
    flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None
) -> SimulatorSettings:
    """Return the settings in force; flags that are None were not given."""
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    safety = SafetySettings(**{name: _switch(name, given, environ) for name in SWITCHES})
    number = {name: _setting_number(name, given, environ) for name in NUMBERS}
    settings = SimulatorSettings(
        safety=safety,
        seed=number["seed"],
        piece_chars=number["piece_chars"],
        first_token_ms=number["first_token_ms"],
        piece_ms=number["piece_ms"],
        slow_ms=number["slow_ms"],
        stall_ms=number["stall_ms"],
        max_body_bytes=number["max_body_bytes"],
    )
    scenario = given.get("scenario") or simulator_variable("scenario", environ)
    models = given.get("models") or simulator_variable("models", environ)
    if scenario is not None:
        settings = replace(settings, scenario=scenario_of_flag(str(scenario)))
    if models is not None:
        settings = replace(settings, models=tuple(filter(None, (m.strip() for m in str(models).split(",")))))
    return settings


def scenario_of_flag(given: str) -> Scenario:
    """Return the scenario of that name, or in that file."""
    return parse_scenario(read_text(given), source=given) if given.endswith(".toml") else scenario_named(given)


def _switch(name: str, given: Mapping[str, object], environ: Mapping[str, str] | None) -> bool:
    if name in given:
        return bool(given[name])
    word = simulator_variable(name, environ)
    if word is None:
        return bool(getattr(SafetySettings(), name))
    if word.lower() not in (*_TRUE, *_FALSE):
        raise UsageError(f"`DEMUR_SIMULATOR_{name.upper()}` is `{word}`", hint="give true or false")
    return word.lower() in _TRUE


def _setting_number(name: str, given: Mapping[str, object], environ: Mapping[str, str] | None) -> int:
    word = given.get(name, simulator_variable(name, environ))
    if word is None:
        word = getattr(SimulatorSettings(), name)
    if not str(word).isdecimal():
        raise UsageError(f"`DEMUR_SIMULATOR_{name.upper()}` is `{word}`", hint="give a whole number from 0 on")
    return int(str(word))
