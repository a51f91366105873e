"""A simulator beside a test: the fixture `demur_simulator`.

Laws: it listens on a free port of the loopback and is there when the test starts; one server serves the whole session,
and every test finds it with the default settings and without truths of another; nothing of it is imported before a
test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.simulate.server.run import RunningSimulator

__all__ = ["demur_simulator"]


@pytest.fixture(scope="session")
def _demur_simulator_server() -> Iterator[RunningSimulator]:
    from demur.simulate.server.run import running_simulator

    with running_simulator() as running:
        yield running


@pytest.fixture
def demur_simulator(_demur_simulator_server: RunningSimulator) -> RunningSimulator:
    """A running simulator: `url`, `openai_url`, `environment()`, `truths`, `refuse_by("refuse-soft")`."""
    from demur.simulate.engine import Simulator

    _demur_simulator_server.use(Simulator())
    return _demur_simulator_server
