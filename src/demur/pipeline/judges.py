"""The ways to judge a text, by name: a phrase pack, or a pack of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from demur.detect.pack import Target, builtin_pack, parse_pack
from demur.detect.substring import find_substrings
from demur.model.verdict import Cause, Outcome, Reason, Verdict

if TYPE_CHECKING:
    from demur.detect.pack import Pack

__all__ = ["PackJudge", "default_judge", "judge_named", "judge_of_file"]


@dataclass(frozen=True, slots=True)
class PackJudge:
    """Judges by a pack alone: refused where a phrase stands in the text, complied otherwise."""

    pack: Pack

    def judge(self, text: str) -> Verdict:
        """Return the verdict on a text."""
        findings = find_substrings(text, self.pack.phrases(Target.RESPONSE), pack=self.pack.name)
        if findings:
            return Verdict(Outcome.REFUSED, 1.0, Reason.OTHER, Cause.TEXT, findings)
        return Verdict(Outcome.COMPLIED, 0.0, None, Cause.TEXT)


@cache
def judge_named(name: str) -> PackJudge:
    """Return the judge of a pack that ships with Demur."""
    return PackJudge(builtin_pack(name))


def judge_of_file(source: str, text: str) -> PackJudge:
    """Return the judge of a pack that the user wrote."""
    return PackJudge(parse_pack(text, source=source))


def default_judge() -> PackJudge:
    """Return the judge that is used where none is named."""
    return judge_named("shadow")
