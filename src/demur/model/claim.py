"""What an auditor states: a named, typed value in a phase. An auditor never enforces."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Claim", "ClaimType", "ClaimValue", "Phase"]

ClaimValue = bool | int | float | str | tuple[str, ...] | None


class Phase(StrEnum):
    """When in the life of an exchange a claim is made."""

    REQUEST = "request"
    RESPONSE = "response"
    ARTIFACT = "artifact"
    EXECUTION = "execution"


class ClaimType(StrEnum):
    """The types of the auditor protocol 2.0."""

    SCORE_BINARY = "score_binary"
    SCORE_NORMALIZED = "score_normalized"
    SCORE_PERCENTAGE = "score_percentage"
    CATEGORY = "category"
    CATEGORY_LIST = "category_list"
    POLICY_VIOLATION = "policy_violation"
    CONFORMITY = "conformity"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class Claim:
    """A named, typed value; `sensitive` marks a value that carries the user's text."""

    name: str
    type: ClaimType
    value: ClaimValue
    phase: Phase
    auditor: str
    confidence: float = 1.0
    sensitive: bool = False
