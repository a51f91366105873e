"""The pytest fixture and assertions, under the name that users import them by."""

from __future__ import annotations

from demur.plugins.pytest import (
    RefusalCheck,
    _demur_simulator_server,
    assert_answered,
    assert_refused,
    demur_simulator,
    refusal_check,
)

__all__ = [
    "RefusalCheck",
    "_demur_simulator_server",
    "assert_answered",
    "assert_refused",
    "demur_simulator",
    "refusal_check",
]
