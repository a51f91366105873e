"""What auditors state (claims) and what a policy decides over it. An auditor never enforces.

A vocabulary declares every claim before it is made, so that a policy can be checked without a request. A policy reads a
claim under its flat name (dots become underscores), and claims that share one agree on the type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import msgspec

from demur.errors import UsageError

__all__ = [
    "Claim",
    "ClaimSpec",
    "ClaimType",
    "ClaimValue",
    "Decision",
    "Effect",
    "FiredRule",
    "Phase",
    "Vocabulary",
    "flat_name",
]

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


# A struct, since several claims are made in every exchange; see `exchange`.
class Claim(msgspec.Struct, frozen=True, gc=False):
    """A named, typed value; `sensitive` marks a value that carries the user's text."""

    name: str
    type: ClaimType
    value: ClaimValue
    phase: Phase
    auditor: str
    confidence: float = 1.0
    sensitive: bool = False


def flat_name(name: str) -> str:
    """Return a claim's name as policies write it: `safety.toxic_content` is read as `safety_toxic_content`."""
    return name.replace(".", "_")


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """What an auditor declares about a claim before it makes one."""

    name: str
    type: ClaimType
    phase: Phase
    auditor: str
    sensitive: bool = False
    description: str = ""

    @property
    def flat(self) -> str:
        """The name under which a policy reads the claim."""
        return flat_name(self.name)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The claims that can be made at all; one flat name has one type, whoever states it and in whichever phase."""

    specs: tuple[ClaimSpec, ...] = ()
    _by_flat: dict[str, ClaimSpec] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        """Raise where two claims share a flat name and not the type: a policy could not tell them apart."""
        by_flat: dict[str, ClaimSpec] = {}
        for spec in self.specs:
            held = by_flat.setdefault(spec.flat, spec)
            if held.type is not spec.type:
                raise UsageError(
                    f"the claim `{spec.flat}` is declared as {held.type} by `{held.auditor}` "
                    f"and as {spec.type} by `{spec.auditor}`",
                    hint="rename one of them",
                )
        object.__setattr__(self, "_by_flat", by_flat)

    @property
    def names(self) -> tuple[str, ...]:
        """The flat names, sorted."""
        return tuple(sorted(self._by_flat))

    def find(self, name: str) -> ClaimSpec | None:
        """Return the spec of a claim by its name, dotted or flat, None for one that nobody declares."""
        return self._by_flat.get(flat_name(name))

    def phases(self, name: str) -> frozenset[Phase]:
        """Return the phases in which a claim may be stated."""
        return frozenset(spec.phase for spec in self.specs if spec.flat == flat_name(name))

    def sensitive(self, name: str) -> bool:
        """Return whether anybody declares that a claim of this name carries the user's text."""
        return any(spec.sensitive for spec in self.specs if spec.flat == flat_name(name))


class Effect(IntEnum):
    """What is done, mildest first: the strongest effect among the fired rules wins."""

    ALLOW = 0
    LOG = 1
    WARN = 2
    REDACT = 3
    REVIEW = 4
    DENY = 5

    @property
    def word(self) -> str:
        """The effect as policies, JSON and people write it."""
        return self.name.lower()


class FiredRule(msgspec.Struct, frozen=True, gc=False):
    """A rule that applied, under the id and reason that its author gave it, and where it stands (`file:line`)."""

    id: str
    effect: Effect
    reason: str | None = None
    place: str | None = None


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The effect, the rules that fired, and the errors met: an error is never a silent allow."""

    effect: Effect
    rules: tuple[FiredRule, ...] = ()
    errors: tuple[str, ...] = ()
