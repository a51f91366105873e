"""Settings of the simulator from flags, variables and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from demur.errors import InputError, ShapeError, UsageError
from demur.simulate.settings import SIMULATOR_SETTINGS, SimulatorOptions, SimulatorSettings

SWITCHES = [name for name, each in SIMULATOR_SETTINGS.declared.items() if each.kind is bool]
NUMBERS = [name for name, each in SIMULATOR_SETTINGS.declared.items() if each.kind is int and name != "port"]


def options(
    flags: dict[str, object] | None = None, environ: dict[str, str] | None = None, *, file: str | None = None
) -> SimulatorOptions:
    return SIMULATOR_SETTINGS.load(file, environ=environ or {}, flags=flags).settings


def test_nothing_set_is_the_default() -> None:
    """Without a file, a variable or a flag the defaults hold, and they are those of a simulator made in code."""
    assert options() == SimulatorOptions()
    assert options().settings() == SimulatorSettings()


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize(("word", "value"), [("true", True), ("0", False), ("No", False), ("ON", True)])
def test_switches_are_read_from_the_environment(name: str, word: str, *, value: bool) -> None:
    """A switch is true or false in the usual words, and a flag stands above it."""
    environ = {f"DEMUR_SIMULATOR_{name.upper()}": word}
    assert getattr(options({}, environ).settings().safety, name) is value
    assert getattr(options({name: not value}, environ).settings().safety, name) is not value


@pytest.mark.parametrize("name", SWITCHES)
def test_the_variables_of_fakeai_are_read_too(name: str) -> None:
    """A switch is read from FakeAI's variable, over which our own and a flag win."""
    usual = getattr(options(), name)
    theirs = {f"FAKEAI_{name.upper()}": str(not usual)}
    assert getattr(options({}, theirs), name) is not usual
    assert getattr(options({}, theirs | {f"DEMUR_SIMULATOR_{name.upper()}": str(usual)}), name) is usual
    assert getattr(options({name: usual}, theirs), name) is usual
    with pytest.raises(UsageError, match=f"FAKEAI_{name.upper()}"):
        options({}, {f"FAKEAI_{name.upper()}": "maybe"})


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_read_from_the_environment(name: str) -> None:
    """A number is read, and a flag stands above it."""
    variable = f"DEMUR_SIMULATOR_{name.upper()}"
    assert getattr(options({}, {variable: "3"}).settings(), name) == 3
    assert getattr(options({name: 4}, {variable: "3"}).settings(), name) == 4


@pytest.mark.parametrize("name", [*NUMBERS, "prepend_safety_message"])
def test_a_bad_value_in_the_environment_is_refused_by_name(name: str) -> None:
    """What is no number, and a switch that is neither true nor false, is refused with the variable's name."""
    variable = f"DEMUR_SIMULATOR_{name.upper()}"
    with pytest.raises(UsageError, match=variable):
        options({}, {variable: "maybe"})


def test_scenarios_and_models(tmp_path: Path) -> None:
    """A scenario is a name or a file; models are a list with commas."""
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\n[[rules]]\nway = "text"\n', encoding="utf-8")
    assert options({"scenario": str(file)}).settings().scenario.name == "mine"
    environ = {"DEMUR_SIMULATOR_SCENARIO": "refuse-soft", "DEMUR_SIMULATOR_MODELS": "a, b,"}
    found = options({}, environ).settings()
    assert (found.scenario.name, found.models) == ("refuse-soft", ("a", "b"))
    with pytest.raises(InputError, match="no such file"):
        options({"scenario": str(tmp_path / "none.toml")}).settings()


WRITTEN: dict[str, tuple[str, str, object]] = {
    "enable_safety_features": ("false", "false", False),
    "enable_jailbreak_detection": ("false", "no", False),
    "prepend_safety_message": ("true", "1", True),
    "scenario": ('"refuse-soft"', "refuse-soft", "refuse-soft"),
    "pack": ('"fakeai"', "fakeai", "fakeai"),
    "models": ('["a", "b"]', "a,b", ("a", "b")),
    **dict.fromkeys(NUMBERS, ("3", "3", 3)),
    "host": ('"::1"', "::1", "::1"),
    "port": ("0", "0", 0),
    "truth": ('"truth.jsonl"', "truth.jsonl", "truth.jsonl"),
}


def test_the_table_below_is_of_all_settings() -> None:
    """No setting is forgotten, so that the next test is about each of them."""
    assert set(WRITTEN) == set(SIMULATOR_SETTINGS.declared)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_setting_has_a_name_in_the_file_a_variable_and_a_flag(tmp_path: Path, name: str) -> None:
    """Each source sets it, the variable over the file, the flag over both."""
    in_file, in_environment, value = WRITTEN[name]
    file = tmp_path / "demur.toml"
    file.write_text(f"[gateway]\n[simulator]\n{name} = {in_file}\n", encoding="utf-8")
    variable = {f"DEMUR_SIMULATOR_{name.upper()}": in_environment}
    usual = getattr(options(), name)
    assert usual != value
    assert getattr(options(file=str(file)), name) == value
    assert getattr(options({}, variable), name) == value
    flag = ",".join(usual) if isinstance(usual, tuple) else usual
    assert getattr(options({name: flag}, variable, file=str(file)), name) == usual


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[simulator]\nseeds = 3", "`simulator.seeds` is no setting"),
        ("[simulator]\nseed = true", "demur.toml` line 2: `simulator.seed` is `True`"),
        ("[simulator]\nseed = -1", "is `-1`"),
        ("[simulator]\nport = 65536", "is `65536`"),
        ("[simulator]\npack = 3", "is `3`"),
        ("[simulator]\nmodels = [3]", "is `.3.`"),
        ("[simulator]\nenable_safety_features = 2", "is `2`"),
        ("simulator = 3", "`simulator` is no table"),
        ("[simulator", "not TOML"),
    ],
)
def test_a_bad_file_says_where(tmp_path: Path, text: str, what: str) -> None:
    """A name or a value that cannot be is refused with its place."""
    file = tmp_path / "demur.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises((ShapeError, UsageError), match=what):
        options(file=str(file))


def test_a_misspelt_variable_is_told_the_nearest() -> None:
    """A variable of ours that sets nothing is a mistake, not silence."""
    with pytest.raises(UsageError, match="DEMUR_SIMULATOR_SEEDS") as caught:
        options({}, {"DEMUR_SIMULATOR_SEEDS": "3"})
    assert "DEMUR_SIMULATOR_SEED`" in str(caught.value.hint)


def test_demur_toml_is_read_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name the file of the working folder holds, and none is needed."""
    (tmp_path / "demur.toml").write_text("[simulator]\nseed = 9\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert options({}, {}).seed == 9
