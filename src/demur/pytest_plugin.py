"""The pytest fixture and assertions, under the name that users import them by.

Complete, hook included, so that `-p demur.pytest_plugin` works where plugins are not loaded by their entry points.
"""

from __future__ import annotations

from demur.plugins.pytest import (
    RefusalCheck,
    _demur_simulator_server,
    assert_answered,
    assert_refused,
    demur_simulator,
    pytest_addoption,
    refusal_check,
)

__all__ = [
    "RefusalCheck",
    "_demur_simulator_server",
    "assert_answered",
    "assert_refused",
    "demur_simulator",
    "pytest_addoption",
    "refusal_check",
]
