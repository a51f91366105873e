"""How the tests run: the same cases every time, unless more are asked for.

`HYPOTHESIS_PROFILE=wild make test` draws new cases; what it finds becomes a case of its own. `make quick` draws fewer.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would every process that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("quick", derandomize=True, deadline=None, database=None, max_examples=20)
settings.register_profile("wild", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

_HEAVY_FILE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.heavy", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file that the quick loop leaves out whole: some of them import packages for seconds."""
    if collection_path.suffix != ".py" or "not heavy" not in config.getoption("markexpr"):
        return None
    return True if _HEAVY_FILE.search(collection_path.read_text(encoding="utf-8")) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, on the event loop that its module names as `LOOP`, or on asyncio's own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    with asyncio.Runner(loop_factory=getattr(pyfuncitem.module, "LOOP", None)) as runner:
        runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a POSIX system where there is none, with the reason that its mark gives."""
    mark = item.get_closest_marker("posix")
    if mark is not None and sys.platform == "win32":
        pytest.skip(f"needs a POSIX system: {mark.kwargs['reason']}")
