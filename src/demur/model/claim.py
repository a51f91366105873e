"""What auditors state (claims), how each was run, and what a policy decides over it. An auditor never enforces.

A vocabulary declares every claim before it is made, so that a policy can be checked without a request. A policy reads a
claim under its flat name (dots become underscores), and claims that share one agree on the type. An auditor's failure is a
value, never an exception: `troubles` names every auditor that failed or was skipped, with the failure mode applied, and
`gaps` those whose failure let the exchange through.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import msgspec

from demur.errors import UsageError

__all__ = [
    "MOST_VERSION_CHARS",
    "Audit",
    "AuditorRun",
    "AuditorStatus",
    "Claim",
    "ClaimSpec",
    "ClaimType",
    "ClaimValue",
    "Decision",
    "Effect",
    "EnforcementGap",
    "FailureMode",
    "FiredRule",
    "Phase",
    "Problem",
    "Stated",
    "Trouble",
    "Turn",
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


MOST_VERSION_CHARS = 128
"""Of an auditor's version, which is in every record."""


class AuditorStatus(StrEnum):
    """How an auditor's turn ended."""

    OK = "ok"
    TIMEOUT = "timeout"
    ERROR = "error"
    SKIPPED = "skipped"


class AuditorRun(msgspec.Struct, frozen=True, gc=False):
    """One auditor's turn: what it took, how it ended, which failure mode was applied (None where it went well)."""

    auditor: str
    version: str
    status: AuditorStatus
    took_us: int
    failure_mode: str | None = None


class EnforcementGap(msgspec.Struct, frozen=True, gc=False):
    """A place where enforcement did not hold: what happened (`failed_open`, `unscanned`, …), and whose turn it was."""

    phase: Phase
    what: str
    auditor: str | None = None


_OK = AuditorStatus.OK


class FailureMode(StrEnum):
    """What an auditor's failure does to the exchange."""

    CLOSED = "closed"
    """It is denied."""
    WARN = "warn"
    """It passes with a warning, and the gap is on record."""
    OPEN = "open"
    """It passes, and the gap is on record."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an auditor's answer is not whole: a word for machines, a sentence for people; never the user's text."""

    code: str
    what: str


class Stated(msgspec.Struct, frozen=True):
    """What an auditor answered: the claims that are sound, and what is wrong with the rest.

    `unsound` are the names of the claims that are not, each with the reason; `null` are those that were stated as null.
    `reached` is False where there was no auditor at the other end, or none that keeps to the protocol.
    """

    claims: tuple[Claim, ...] = ()
    problems: tuple[Problem, ...] = ()
    version: str | None = None
    reached: bool = True
    unsound: tuple[tuple[str, str], ...] = ()
    null: tuple[str, ...] = ()


class Turn(msgspec.Struct, frozen=True):
    """One auditor's turn; `mode` is the failure mode that is in force should it have failed."""

    auditor: str
    version: str
    status: AuditorStatus
    took_us: int
    mode: FailureMode
    claims: tuple[Claim, ...] = ()
    problems: tuple[Problem, ...] = ()
    unsound: tuple[tuple[str, str], ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the turn did not end well."""
        return self.status is not _OK

    @property
    def run(self) -> AuditorRun:
        """The turn as it goes on record."""
        mode = None if self.status is _OK else self.mode.value
        return AuditorRun(self.auditor, self.version, self.status, self.took_us, mode)


@dataclass(frozen=True, slots=True)
class Trouble:
    """An auditor that failed, or was slower than it may be: how, why, and the failure mode applied (None: none)."""

    auditor: str
    phase: Phase
    status: AuditorStatus
    code: str
    what: str
    mode: FailureMode | None


class Audit(msgspec.Struct, frozen=True):
    """What the auditors of one phase came to; `unsound` are flat names, each with the reason, as `Ask.unsound` takes them."""

    phase: Phase
    claims: tuple[Claim, ...] = ()
    stated: tuple[Claim, ...] = ()
    runs: tuple[AuditorRun, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    gaps: tuple[EnforcementGap, ...] = ()
    denials: tuple[str, ...] = ()
    unsound: tuple[tuple[str, str], ...] = ()

    @property
    def must_deny(self) -> bool:
        """Whether an auditor that fails closed has failed; `denials` say which, and why."""
        return bool(self.denials)

    @property
    def floor(self) -> Effect:
        """The mildest effect that the failures leave: a decision is this or stronger."""
        if self.must_deny:
            return Effect.DENY
        warned = any(trouble.mode is FailureMode.WARN for trouble in self.troubles)
        return Effect.WARN if warned else Effect.ALLOW
