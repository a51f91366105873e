"""Whether a prompt asks for harm, and of which kind.

A text without a harm class is not harmful, whatever its form.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from demur.detect.prompts.frames import class_features, score

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.detect.prompts.frames import Evidence, PromptScore
    from demur.detect.prompts.pack import PromptPack

__all__ = ["OTHER", "harm_categories", "harm_features", "harm_score"]

OTHER = "other"  # the category of a harmful request whose kind no class names

_NO_CATEGORY = frozenset(("benign", "intent"))
_CATEGORY_WEIGHT = 1.2
_ASK_START = 30
_DEFINITION_LENGTH = 60
_SHORT = 250
_LONG = 1000
_NEAR = 14
_DEFINITION = re.compile(r"(?:what|who) (?:is|are|was|were) (?:a |an |the )?[\w-]+(?: [\w-]+)?\?$")
_OF_THE_PAST = re.compile(
    r"(?:what|who|when|where|which|how|why)(?: \w+){0,2} (?:did|were|was|had|have|has)\b|who \w+ed\b"
)
_OPINION = re.compile(r"(?:why|is|are|was|were|do|does|did|would|will|has|have|don't|doesn't|isn't|aren't)\b")


def harm_features(evidence: Evidence, pack: PromptPack) -> list[str]:
    """Return the names of the classes and cues in a text; none where it has no class of harm."""
    kinds = [name for name in evidence.harm if pack.classes[name].family != "benign"]
    if not kinds:
        return []
    names = class_features(evidence.harm, pack)
    names += _ask_cues(evidence, pack)
    names += _question_cues(evidence, kinds, pack=pack)
    names += [f"cue:harms_{least}" for least in (2, 3, 4) if len(kinds) >= least]
    if len({pack.classes[name].family for name in kinds} - {"intent"}) > 1:
        names.append("cue:categories_2")
    if len(evidence.view) > _LONG:
        names.append("cue:long")
    return names


def harm_score(evidence: Evidence, pack: PromptPack) -> PromptScore:
    """Return the score of a text as a harmful request."""
    return score(harm_features(evidence, pack), pack.harm)


def harm_categories(found: PromptScore, pack: PromptPack) -> tuple[str, ...]:
    """Return the categories of a flagged text, the heaviest first; none where it is not flagged."""
    if not found.flagged:
        return ()
    totals: dict[str, float] = {}
    for name, weight in found.weights.items():
        known = pack.classes.get(name.removesuffix("+"))
        if known is not None and known.family not in _NO_CATEGORY:
            totals[known.family] = totals.get(known.family, 0.0) + weight
    # By name where weights are equal, so that the same prompt always gets the same order.
    ranked = sorted(totals, key=lambda family: (-totals[family], family))
    return tuple(f for f in ranked if totals[f] >= _CATEGORY_WEIGHT) or tuple(ranked[:1]) or (OTHER,)


def _ask_cues(evidence: Evidence, pack: PromptPack) -> Iterator[str]:
    """Yield how the text asks: at its start or shortly, with weight, or not at all."""
    view = evidence.view.strip()
    short = len(view) < _SHORT
    words = evidence.group(pack.groups.get("harm/HOWTO")) + evidence.group(pack.groups.get("harm/WH"))
    direct = evidence.group(pack.groups.get("harm/DIRECT")) or evidence.group(pack.groups.get("harm/DIRECT_LATE"))
    asks = any(start < _ASK_START for start, _ in words) or (short and bool(direct))
    if asks:
        yield "cue:ask"
        if short:
            yield "cue:short_ask"
        if sum(pack.classes[name].prior for name in evidence.harm) >= 3:  # noqa: PLR2004 - more than one plain class
            yield "cue:strong_ask"
    elif not view.endswith("?"):
        yield "cue:no_ask"


def _question_cues(evidence: Evidence, kinds: list[str], *, pack: PromptPack) -> Iterator[str]:
    """Yield what kind of question it is: for a way to do harm, for the meaning of a word, about the past, about a view."""
    view = evidence.view.strip()
    before = {end for _, end in evidence.group(pack.groups.get("harm/DIRECT"))}
    after = {start for start, _ in evidence.group(pack.groups.get("harm/DIRECT_LATE"))}
    spans = [span for name in kinds for span in evidence.harm[name]] if before or after else []
    # A harm comes right after "how do I", or right before its counterpart in other languages. Questions about a crime, its
    # prevention or its history are evidence against a request for harm.
    if any(
        not before.isdisjoint(range(start - _NEAR, start + 1)) or not after.isdisjoint(range(end, end + _NEAR))
        for start, end in spans
    ):
        yield "cue:direct_ask"
    elif _OF_THE_PAST.match(view):
        yield "cue:past"
    elif _OPINION.match(view):
        yield "cue:opinion"
    if len(view) < _DEFINITION_LENGTH and _DEFINITION.match(view):
        yield "cue:definition"
