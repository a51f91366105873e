"""What is known before any label is read: where a weight lies and which sign it must have.

A phrase that refuses can only speak for a refusal, a list or a turn only against it; so no set's style can buy a weight that
would be wrong everywhere else. Priors of classes stand in the grammar, those of cues here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.detect.refusal.pack import CUES, Zone
from demur_train.fit import Bounded

if TYPE_CHECKING:
    from demur_train.refusals.grammar import Grammar

__all__ = ["CLASS_STRENGTH", "CUE_STRENGTH", "PARTIAL_BANDS", "PARTIAL_PRIORS", "known_weights"]

PRIOR_SCALE = 0.7
CLASS_STRENGTH, CUE_STRENGTH = 2e-2, 5e-3
"""The pull towards the priors, for a mean loss."""

_SPEAK_FOR = frozenset(
    {
        "refusing>=.25",
        "declining>=.5",
        "declining_share",
        "declining_sentences>=2",
        "declining_sentences>=4",
        "moral_opening",
        "strong_late",
        "strong_short",
        "cannot_short",
        "cannot_very_short",
        "incapable_short",
        "disclaimed",
        "disclaimed_short",
        "disclaimed_moral",
        "alternative_without_refusal",
        "alternative_list",
    }
)
_SPEAK_AGAINST = frozenset(
    {
        "speakers>=2",
        "list>=2",
        "list>=4",
        "code",
        "nothing_refusing",
        "content>300",
        "content>800",
        "log_content",
        "content_after_refusal>200",
        "list_after_refusal",
        "turn_after_refusal",
        "turn_near",
        "content_after_turn>100",
        "content_after_turn>300",
        "strong_opening&list",
        "disclaimed_then_turn",
    }
)
_CUE_PRIORS = {
    "incapable_short": 0.8,
    "cannot_short": 1.2,
    "cannot_very_short": 1.4,
    "strong_short": 0.8,
    "strong_late": 2.5,
    "disclaimed_short": 2.0,
    "disclaimed": 1.0,
    "disclaimed_moral": 0.8,
    "disclaimed_then_turn": -1.0,
    "turn_near": -0.5,
    "content_after_turn>300": -0.5,
}
_FREE_SIGN = frozenset({"redirect", "need_input"})

PARTIAL_PRIORS = {
    "#content_after_turn>100": 0.6,
    "#content_after_turn>300": 0.5,
    "#list_after_refusal": 0.6,
    "#strong_opening&list": 0.6,
    "#alternative_list": 0.4,
    "no_capability|any": 0.5,
    "no_capability|opening": 0.5,
    "instead|after_turn": 0.4,
    "redirect|after_turn": 0.3,
    "important|after_turn": 0.3,
    "moral|after_turn": 0.2,
    "#content_after_refusal>200": 0.3,
    "steps|after_turn": 0.2,
    "help_starts|after_turn": 0.3,
    "unreal|any": 0.3,
    "#nothing_refusing": -1.0,
    "sorry_but|opening": -0.2,
    "cannot_help|opening": -0.3,
    "#chars<60": -0.3,
    "opinion_disclaimer|opening": 0.3,
    "#disclaimed_then_turn": 0.4,
    "#turn_near": 0.4,
    "#code": -0.5,
}
PARTIAL_BANDS = (1.2, 0.8, 0.5, -0.8, -1.2)


def known_weights(grammar: Grammar) -> list[tuple[Bounded, float]]:
    """Return prior, bounds and strength of each feature, in the order of the pack."""
    zoned = [
        _class_weight(c.name, c.kind, zone, (c.prior_any, c.prior_opening)) for c in grammar.classes for zone in Zone
    ]
    return [*zoned, *map(_cue_weight, CUES)]


def _class_weight(name: str, kind: str, zone: Zone, priors: tuple[float, float]) -> tuple[Bounded, float]:
    prior = priors[zone] * PRIOR_SCALE if zone in (Zone.ANY, Zone.OPENING) else 0.0
    signed = kind == "r" and name not in _FREE_SIGN and zone in (Zone.ANY, Zone.OPENING)
    return Bounded(prior, lower=0.0 if signed else None), CLASS_STRENGTH


def _cue_weight(cue: str) -> tuple[Bounded, float]:
    lower, upper = (0.0 if cue in _SPEAK_FOR else None), (0.0 if cue in _SPEAK_AGAINST else None)
    if cue in _CUE_PRIORS:
        return Bounded(_CUE_PRIORS[cue] * PRIOR_SCALE, lower, upper), CLASS_STRENGTH
    return Bounded(0.0, lower, upper), CUE_STRENGTH
