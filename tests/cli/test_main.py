"""Every command's help fits a terminal, and every call that is off is one line that says where to look."""

from __future__ import annotations

import pytest
from tests.cli.calling import Capture

from demur.audit.config import DEFAULT_PORT
from demur.cli.main import main, parser
from demur.gateway.settings import GATEWAY_SETTINGS
from demur.simulate.settings import SIMULATOR_SETTINGS

POLICY = ("check", "test", "explain", "backtest")
PASSPORT = ("verify", "show", "prove", "export", "disclose", "erase", "rates", "rotate", "keys")
COMMANDS = ("check", "diff", "scan", "evaluate", "policy")
HELPS = ("", *COMMANDS, *(f"policy {step}" for step in POLICY), *(f"passport {step}" for step in PASSPORT))


@pytest.mark.parametrize("command", HELPS)
def test_help_fits_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Help shows an example of its own command and fits 80 columns; that of a gate has the exit codes."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    assert f"demur {command}" in out.split("examples:")[1]
    assert max(map(len, out.splitlines())) <= 80
    assert command != "diff" or "exit codes:" in out


@pytest.mark.parametrize(
    "words",
    [
        *("chekc", "check", "check x --fail-on refusal", "check x --nope", "check x --threshold high"),
        *(
            "check x --pack shadow --pack lucid",
            "diff a b --margin 2",
            "diff a b --margin x",
            "diff a b --count failed",
        ),
        *("diff a b --count=", "diff a b --jobs -1", "diff a b --fail-on none", "evaluate", "evaluate a --worst -1"),
        *("evaluate a --worst many", "evaluate a --threshold 0", "evaluate a --threshold nan"),
        *("evaluate a --threshold x", "evaluate a --side left"),
    ],
)
def test_usage_errors_are_one_line(capsys: Capture, words: str) -> None:
    """A command, a flag or a value that there is not exits 2 with one line that says where to look."""
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    err = capsys.readouterr().err
    assert (caught.value.code, err.count("\n"), "--help" in err) == (2, 1, True)


def test_no_two_servers_share_a_default_port() -> None:
    """Gateway, simulator, auditor and dashboard can be started side by side without a flag."""
    gateway, simulator = (GATEWAY_SETTINGS.declared["listen.port"], SIMULATOR_SETTINGS.declared["port"])
    dashboard = parser("dashboard").parse_args(["dashboard", "--store", "log"]).port
    assert (gateway.default, simulator.default, DEFAULT_PORT, dashboard) == (8080, 8082, 8085, 8090)


def test_no_command_is_shown_the_help(capsys: Capture) -> None:
    """A bare call shows what there is, and is no success."""
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "COMMAND" in capsys.readouterr().out
