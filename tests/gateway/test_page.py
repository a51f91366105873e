"""What the gateway's page shows for clients runs, against a gateway and a simulated model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.gateway.gatewaying import gateway, passports

from demur.simulate.server.run import running_simulator

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"
BLOCKS = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_clients_as_the_page_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both providers' clients get their answers through the gateway, and the denied one its denial."""
    assert len(BLOCKS) == 2
    with running_simulator() as simulator, gateway(tmp_path, simulator.url) as running:
        for block in BLOCKS:
            exec(compile(block.replace("http://127.0.0.1:8080", running.url), PAGE.name, "exec"), {})  # noqa: S102 — our own page
    assert "policy_denied attack" in capsys.readouterr().out
    assert len(passports(tmp_path)) == 3
