"""An empty log in the test's own folder, and the gate that decides on its passports."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.store.passport_logs import gate_in

from demur.policy.gate import PolicyGate
from demur.record.store.location import LogPlace, log_place


@pytest.fixture
def place(tmp_path: Path) -> LogPlace:
    return log_place(str(tmp_path))


@pytest.fixture
def gate(tmp_path: Path) -> PolicyGate:
    return gate_in(tmp_path / "policy")
