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
    from demur.errors import DemurError
    from demur.model.axis import AxisStat
    from demur.model.comparison import Comparison, DiffSettings
    from demur.model.exchange import Exchange, Request, Response
    from demur.model.prompt import PromptVerdict
    from demur.model.scan import Scan
    from demur.model.verdict import Cause, Finding, Outcome, Reason, Signal, Verdict
    from demur.pipeline.batch import classify_batch
    from demur.pipeline.classify import check
    from demur.pipeline.prompts import check_prompt
    from demur.pipeline.seed import is_abstention, is_abstention_with, safety_axis
    from demur.pipeline.simulation import is_jailbreak_attempt, prepend_safety_message, should_refuse_request
    from demur.pipeline.stream import TextStream
    from demur.runs import Reading, compare, scan

__all__ = [
    "AxisStat",
    "Cause",
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
    "demur.model.axis": ("AxisStat",),
    "demur.model.comparison": ("Comparison", "DiffSettings"),
    "demur.model.exchange": ("Exchange", "Request", "Response"),
    "demur.model.prompt": ("PromptVerdict",),
    "demur.model.scan": ("Scan",),
    "demur.model.verdict": ("Cause", "Finding", "Outcome", "Reason", "Signal", "Verdict"),
    "demur.pipeline.batch": ("classify_batch",),
    "demur.pipeline.classify": ("check",),
    "demur.pipeline.prompts": ("check_prompt",),
    "demur.pipeline.seed": ("is_abstention", "is_abstention_with", "safety_axis"),
    "demur.pipeline.simulation": ("is_jailbreak_attempt", "prepend_safety_message", "should_refuse_request"),
    "demur.pipeline.stream": ("TextStream",),
    "demur.runs": ("Reading", "compare", "scan"),
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
