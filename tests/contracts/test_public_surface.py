"""The doors of the package, pinned: a change here is a change for every user."""

from __future__ import annotations

import subprocess
import sys

import pytest

import demur

SURFACE = [
    *("AxisStat", "Cause", "ComparedCandidates", "Comparison", "DemurError", "DiffSettings", "Exchange"),
    *("Finding", "Outcome", "PromptVerdict", "Reading", "Reason", "Request"),
    *("Response", "Scan", "Signal", "TextStream", "Verdict", "__version__", "check"),
    *(
        "check_prompt",
        "classify_batch",
        "compare",
        "compare_all",
        "is_abstention",
        "is_abstention_with",
        "is_jailbreak_attempt",
    ),
    *("prepend_safety_message", "safety_axis", "scan", "should_refuse_request"),
]


def test_the_public_names_are_these() -> None:
    """Every public name is listed here and can be had."""
    assert sorted(demur.__all__) == SURFACE
    assert dir(demur) == SURFACE
    assert all(getattr(demur, name) is not None for name in SURFACE)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that does not exist is refused as Python does it."""
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        demur.chekc  # noqa: B018 — the access itself is the test


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import demur` loads neither numpy nor pyarrow nor msgspec."""
    code = "import sys, demur; print([m for m in ('numpy', 'pyarrow', 'msgspec', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 — our own interpreter
    assert done.stdout.strip() == "[]"
