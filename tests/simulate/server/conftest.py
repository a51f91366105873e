"""A simulator that the tests of a module share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demur.simulate.server.run import running_simulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.simulate.server.run import RunningSimulator


@pytest.fixture(scope="module")
def running() -> Iterator[RunningSimulator]:
    with running_simulator() as started:
        yield started
