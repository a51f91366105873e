"""Demur tells you when a language model says no, whether it should have, and whether that changed.

    import demur
    v = demur.check("I'm sorry, but I can't help with that.")
    v.outcome, v.score, v.reason, v.cause, v.findings, v.signals

Names are loaded when they are first used, so that `import demur` itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from demur._version import __version__

if TYPE_CHECKING:
    from demur.axes.shadow import is_abstention, is_abstention_with, safety_axis
    from demur.detect.batch import classify_batch
    from demur.detect.check import TextStream, check
    from demur.detect.prompts.check import check_prompt
    from demur.errors import DemurError
    from demur.model.comparison import Comparison, DiffSettings
    from demur.model.estimate import AxisStat
    from demur.model.exchange import Exchange, Request, Response, Signal
    from demur.model.run import Scan
    from demur.model.several import ComparedCandidates
    from demur.model.verdict import Cause, Finding, Outcome, PromptVerdict, Reason, Verdict
    from demur.runs.api import Reading, compare, scan
    from demur.runs.several import compare_all
    from demur.simulate.engine import is_jailbreak_attempt, prepend_safety_message, should_refuse_request

__all__ = [
    "AxisStat",
    "Cause",
    "ComparedCandidates",
    "Comparison",
    "DemurError",
    "DiffSettings",
    "Exchange",
    "Finding",
    "Outcome",
    "PromptVerdict",
    "Reading",
    "Reason",
    "Request",
    "Response",
    "Scan",
    "Signal",
    "TextStream",
    "Verdict",
    "__version__",
    "check",
    "check_prompt",
    "classify_batch",
    "compare",
    "compare_all",
    "is_abstention",
    "is_abstention_with",
    "is_jailbreak_attempt",
    "prepend_safety_message",
    "safety_axis",
    "scan",
    "should_refuse_request",
]

_HOMES = {
    "demur.errors": ("DemurError",),
    "demur.model.comparison": ("Comparison", "DiffSettings"),
    "demur.model.estimate": ("AxisStat",),
    "demur.model.exchange": ("Exchange", "Request", "Response", "Signal"),
    "demur.model.run": ("Scan",),
    "demur.model.verdict": ("Cause", "Finding", "Outcome", "PromptVerdict", "Reason", "Verdict"),
    "demur.detect.batch": ("classify_batch",),
    "demur.detect.check": ("TextStream", "check"),
    "demur.detect.prompts.check": ("check_prompt",),
    "demur.axes.shadow": ("is_abstention", "is_abstention_with", "safety_axis"),
    "demur.simulate.engine": ("is_jailbreak_attempt", "prepend_safety_message", "should_refuse_request"),
    "demur.model.several": ("ComparedCandidates",),
    "demur.runs.api": ("Reading", "compare", "scan"),
    "demur.runs.several": ("compare_all",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Return a public name, loading its home on first use."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'demur' has no attribute '{name}'")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
