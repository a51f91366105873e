"""What a prompt tries: an attack on the model's instructions, a harmful request, both or neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.verdict import Finding

__all__ = ["PromptVerdict"]


@dataclass(frozen=True, slots=True)
class PromptVerdict:
    """What a prompt tries, with the evidence.

    `score` is the calibrated probability of an attack, `harm_score` that of a harmful request. `attacks` names the kinds
    of attack found (`jailbreak`, `injection`, `extraction`), `harm` the categories. `toxic_content` is the seed's
    score: 0.45 for each distinct attack, at most 1. `readings` names the disguises that had to be taken off.
    """

    adversarial: bool
    score: float
    attacks: tuple[str, ...] = ()
    harm: tuple[str, ...] = ()
    harm_score: float = 0.0
    toxic_content: float = 0.0
    findings: tuple[Finding, ...] = ()
    readings: tuple[str, ...] = ()
