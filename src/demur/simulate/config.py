"""Which settings has the simulator, from a file, the environment and the command line?

    demur.toml   [simulator]
    environment  DEMUR_SIMULATOR_<NAME>; a list is written with commas
    flags        --<name>

Laws: each later source wins over the ones before, setting by setting; a setting that no source has is at its documented
default; an unknown name is refused with the nearest known one, and a value that cannot be with its place.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError, UsageError
from demur.io.config_tables import check_tables
from demur.io.files import read_text
from demur.simulate.scenario import parse_scenario, scenario_named
from demur.simulate.settings import SafetySettings, SimulatorSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.simulate.scenario import Scenario

__all__ = [
    "NUMBERS",
    "SETTINGS",
    "SWITCHES",
    "SimulatorOptions",
    "scenario_of_flag",
    "simulator_options",
]

SWITCHES = ("enable_safety_features", "enable_jailbreak_detection", "prepend_safety_message")
"""The settings that are true or false, by their names in the file, the environment and on the command line."""
NUMBERS = ("seed", "piece_chars", "first_token_ms", "piece_ms", "slow_ms", "stall_ms", "max_body_bytes")
"""The settings that are whole numbers."""
SETTINGS = (*SWITCHES, "scenario", "pack", "models", *NUMBERS, "host", "port", "truth")
"""All of them."""

_FILE = "demur.toml"
_TABLE = "simulator"
_PREFIX = "DEMUR_SIMULATOR_"
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """How a simulator answers, by which pack (empty: the learned detector), where it listens and keeps its truths."""

    settings: SimulatorSettings
    pack: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    truth: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A value as it stands in its source."""

    value: object
    place: str

    def switch(self) -> bool:
        word = str(self.value).lower()
        if word not in (*_TRUE, *_FALSE):
            raise self._misfit("give true or false")
        return word in _TRUE

    def number(self) -> int:
        # `True` is a whole number to Python alone.
        if isinstance(self.value, bool) or not str(self.value).isdecimal():
            raise self._misfit("give a whole number from 0 on")
        return int(str(self.value))

    def word(self) -> str:
        if not isinstance(self.value, str):
            raise self._misfit("give a text")
        return self.value

    def words(self) -> tuple[str, ...]:
        given = self.value if isinstance(self.value, list) else self.word().split(",")
        if not all(isinstance(item, str) for item in given):
            raise self._misfit("give a list of texts")
        return tuple(filter(None, (item.strip() for item in given)))

    def port(self) -> int:
        number = self.number()
        if number > _LAST_PORT:
            raise self._misfit(f"give a port up to {_LAST_PORT}")
        return number

    def _misfit(self, hint: str) -> UsageError:
        return UsageError(f"{self.place} is `{str(self.value)[:60]}`", hint=hint)


def simulator_options(
    flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, *, file: str | None = None
) -> SimulatorOptions:
    """Return what holds; flags that are None were not given, without a file `demur.toml` is read where it exists."""
    env = os.environ if environ is None else environ
    found = _simulator_table(file) | _of_environment(env) | _of_flags(flags or {})
    usual = SimulatorOptions(_settings_of(found))
    return replace(
        usual,
        pack=found["pack"].word() if "pack" in found else usual.pack,
        host=found["host"].word() if "host" in found else usual.host,
        port=found["port"].port() if "port" in found else usual.port,
        truth=found["truth"].word() if "truth" in found else usual.truth,
    )


def scenario_of_flag(given: str) -> Scenario:
    """Return the scenario of that name, or in that file."""
    return parse_scenario(read_text(given), source=given) if given.endswith(".toml") else scenario_named(given)


def _settings_of(found: Mapping[str, _Found]) -> SimulatorSettings:
    switches = {name: found[name].switch() for name in SWITCHES if name in found}
    numbers: dict[str, Any] = {name: found[name].number() for name in NUMBERS if name in found}
    settings = replace(SimulatorSettings(safety=SafetySettings(**switches)), **numbers)
    if "scenario" in found:
        settings = replace(settings, scenario=scenario_of_flag(found["scenario"].word()))
    if "models" in found:
        settings = replace(settings, models=found["models"].words())
    return settings


def _simulator_table(file: str | None) -> dict[str, _Found]:
    if file is None and not os.path.exists(_FILE):  # noqa: PTH110 — a name, as users write it
        return {}
    name = file or _FILE
    try:
        text = read_text(name)
        loaded = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ShapeError(f"not TOML: {str(exc).lower()}", source=name) from exc
    check_tables(loaded, name, text=text)
    table = loaded.get(_TABLE, {})
    if not isinstance(table, dict):
        raise ShapeError(f"`{_TABLE}` is no table", source=name, hint=f"write [{_TABLE}]")
    for key in table:
        if key not in SETTINGS:
            raise ShapeError(f"`{_TABLE}.{key}` is no setting", source=name, hint=_nearest(key, SETTINGS))
    return {key: _Found(value, f"`{_TABLE}.{key}` in `{name}`") for key, value in table.items()}


def _of_environment(environ: Mapping[str, str]) -> dict[str, _Found]:
    known = {_PREFIX + name.upper(): name for name in SETTINGS}
    for variable in environ:
        if variable.startswith(_PREFIX) and variable not in known:
            raise UsageError(f"`{variable}` is no setting", hint=_nearest(variable, tuple(known)))
    given = {name: (variable, environ.get(variable, "").strip()) for variable, name in known.items()}
    return {name: _Found(word, f"`{variable}`") for name, (variable, word) in given.items() if word}


def _of_flags(flags: Mapping[str, object]) -> dict[str, _Found]:
    given = {name: value for name, value in flags.items() if name in SETTINGS and value is not None}
    return {name: _Found(value, f"`--{name.replace('_', '-')}`") for name, value in given.items()}


def _nearest(name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else "see docs/simulator.md"
