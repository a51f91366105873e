"""The judge that a plug-in's user asks for, by a pack or by a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.detect.check import default_judge, judge_named, judge_with
from demur.errors import UsageError

if TYPE_CHECKING:
    from demur.detect.check import TextJudge

__all__ = ["judge_by"]


def judge_by(pack: str | None, threshold: float | None, *, hint: str = "drop the threshold or the pack") -> TextJudge:
    """Return the judge of a phrase pack, the learned one with a threshold, or the default."""
    if pack and threshold is not None:
        # A pack has hits and no score that a threshold could be compared with.
        raise UsageError("a threshold is for the learned detector", hint=hint)
    if threshold is not None:
        return judge_with(refused=threshold)
    return judge_named(pack) if pack else default_judge()
