"""How strongly do these features speak, and for what?

Laws: the score is the bias and the sum of the weights of distinct features, less the threshold: a text is flagged exactly where
this margin is positive; the probability grows with it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from demur.detect.prompts.frames import Spans
    from demur.detect.prompts.pack import LinearModel, PromptPack

__all__ = ["PromptScore", "class_features", "score"]

_EXTREME = 30.0
"""Beyond this a probability is 0 or 1 to thirteen digits, and `exp` stays in range."""
_OFTEN = 3


class PromptScore(msgspec.Struct, frozen=True):
    """How far a text is above the threshold, the probability, and the weight of every feature that is there."""

    margin: float
    probability: float
    weights: Mapping[str, float]

    @property
    def flagged(self) -> bool:
        """Whether the text is above the threshold."""
        return self.margin > 0


def score(features: Iterable[str], model: LinearModel) -> PromptScore:
    """Return the score of a set of features; one that the model does not know weighs nothing."""
    weights = {name: model.weights.get(name, 0.0) for name in features}
    margin = model.bias + sum(weights.values()) - model.threshold
    bent = max(-_EXTREME, min(_EXTREME, model.slope * margin + model.offset))
    return PromptScore(margin, 1.0 / (1.0 + math.exp(-bent)), weights)


def class_features(found: Mapping[str, Spans], pack: PromptPack) -> list[str]:
    """Return the name of every class that is there, and the name with a `+` where it stands in three places or more."""
    names = list(found)
    for name, spans in found.items():
        if len(spans) >= _OFTEN and pack.classes[name].family != "benign" and len({s for s, _ in spans}) >= _OFTEN:
            names.append(f"{name}+")
    return names
