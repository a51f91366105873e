"""An empty log in the test's own folder, and the gate that decides on its passports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.record.store.passport_logs import gate_in

from demur.record.store.location import LogPlace, log_place

if TYPE_CHECKING:
    from pathlib import Path

    from demur.policy.gate import PolicyGate


@pytest.fixture
def place(tmp_path: Path) -> LogPlace:
    return log_place(str(tmp_path))


@pytest.fixture
def gate(tmp_path: Path) -> PolicyGate:
    return gate_in(tmp_path / "policy")
