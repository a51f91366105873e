"""How a test of this folder that is a coroutine runs: on an event loop whose clock it can put forward."""

from __future__ import annotations

import inspect

import pytest
from tests.http.loopback_upstream import run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine; every other test is pytest's own to call."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
