"""A simulator that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demur.simulate.server.run import RunningSimulator, running_simulator


@pytest.fixture(scope="module")
def running() -> Iterator[RunningSimulator]:
    with running_simulator() as started:
        yield started
