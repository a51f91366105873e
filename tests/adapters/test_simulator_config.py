"""Settings of the simulator from flags, variables and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demur.adapters.simulator_config import NUMBERS, SWITCHES, scenario_of_flag, simulator_settings
from demur.errors import InputError, UsageError
from demur.simulate.settings import SimulatorSettings

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_set_is_the_default() -> None:
    """Without a variable or a flag the defaults stand."""
    assert simulator_settings({}, {}) == SimulatorSettings()


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize(("word", "value"), [("true", True), ("0", False), ("No", False), ("ON", True)])
def test_switches_are_read_from_the_environment(name: str, word: str, *, value: bool) -> None:
    """A switch is true or false in the usual words, and a flag stands above it."""
    environ = {f"DEMUR_SIMULATOR_{name.upper()}": word}
    assert getattr(simulator_settings({}, environ).safety, name) is value
    assert getattr(simulator_settings({name: not value}, environ).safety, name) is not value


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_read_from_the_environment(name: str) -> None:
    """A number is read, and what is none is refused by its name."""
    variable = f"DEMUR_SIMULATOR_{name.upper()}"
    assert getattr(simulator_settings({}, {variable: "3"}), name) == 3
    assert getattr(simulator_settings({name: 4}, {variable: "3"}), name) == 4
    with pytest.raises(UsageError, match=variable):
        simulator_settings({}, {variable: "three"})


def test_bad_switches_are_refused() -> None:
    """A switch that is neither true nor false is refused by its name."""
    with pytest.raises(UsageError, match="DEMUR_SIMULATOR_PREPEND_SAFETY_MESSAGE"):
        simulator_settings({}, {"DEMUR_SIMULATOR_PREPEND_SAFETY_MESSAGE": "maybe"})


def test_scenarios_and_models(tmp_path: Path) -> None:
    """A scenario is a name or a file; models are a list with commas."""
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\n[[rules]]\nway = "text"\n', encoding="utf-8")
    assert scenario_of_flag(str(file)).name == "mine"
    found = simulator_settings({}, {"DEMUR_SIMULATOR_SCENARIO": "refuse-soft", "DEMUR_SIMULATOR_MODELS": "a, b,"})
    assert (found.scenario.name, found.models) == ("refuse-soft", ("a", "b"))
    with pytest.raises(InputError, match="no such file"):
        scenario_of_flag(str(tmp_path / "none.toml"))
