"""The record of one exchange before sealing, the other entries of its log, and what a verification of them found.

A text appears only as a salted digest and its length. Everything that decided is here (contexts, rules, errors, failed
auditors), so that whoever does not trust us can replay the decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from demur.model.claim import AuditorRun, Claim, Decision, EnforcementGap, Phase
    from demur.model.exchange import Channel

__all__ = [
    "Check",
    "Commitment",
    "Coverage",
    "DeclineCause",
    "Durability",
    "Erasure",
    "Fault",
    "FaultKind",
    "KeyRotation",
    "LogEntry",
    "Passport",
    "PhaseRecord",
    "PublicKey",
    "RejectReason",
    "Restart",
    "SigningMode",
    "StreamMode",
    "Tally",
    "Verification",
    "Withheld",
]


class StreamMode(StrEnum):
    """How an answer reached the client while it was being scanned."""

    WHOLE = "whole"
    """Not streamed: scanned, then sent."""
    HELD = "held"
    """Streamed by the provider, held back until all of it was scanned."""
    WINDOWED = "windowed"
    """Released window by window, each scanned before its release."""
    PASSED = "passed"
    """Passed on as it came, scanned afterwards."""


class DeclineCause(StrEnum):
    """Who or what kept an answer from the client; several can hold at once."""

    GATEWAY_BLOCK = "gateway_block"
    PROVIDER_FILTER = "provider_filter"
    PROVIDER_REFUSAL = "provider_refusal"
    """The provider's own refusal field or part."""
    TEXT_REFUSAL = "text_refusal"
    """The answer's text declines."""
    PROVIDER_ERROR = "provider_error"
    """The provider answered with an error, such as a status of 400; `upstream_status` has the number."""
    EMPTY = "empty"
    UNREAD = "unread"
    """The answer could not be read, or not judged in its language: whether it declines is not known."""


class RejectReason(StrEnum):
    """What was wrong with bytes that should have been a request."""

    REQUEST_LINE = "request_line"
    HOST = "host"
    HEADER = "header"
    LENGTH = "length"
    CHUNK = "chunk"
    HEADERS_TOO_LARGE = "headers_too_large"
    HEADERS_LATE = "headers_late"


class SigningMode(StrEnum):
    """How a record is signed; `none` stands in the record itself."""

    ED25519 = "ed25519"
    NONE = "none"


class Durability(StrEnum):
    """When an answer that is no denial may be given: once its record is durable, or before."""

    SYNC = "sync"
    ASYNC = "async"


class Commitment(msgspec.Struct, frozen=True, gc=False):
    """`sha256(salt ‖ text)` in place of a text, and its length in bytes."""

    digest: str
    size_bytes: int


class Withheld(msgspec.Struct, frozen=True, gc=False):
    """A sensitive claim's value, committed to instead of shown; the text is the value's canonical JSON."""

    claim: str
    commitment: Commitment


class Coverage(msgspec.Struct, frozen=True, gc=False):
    """What was scanned: how it was streamed, how many of its bytes, and which strands of the answer."""

    mode: StreamMode
    scanned_bytes: int
    total_bytes: int
    strands: tuple[Channel, ...] = ()


class PhaseRecord(msgspec.Struct, frozen=True, gc=False):
    """What was known and decided in one phase; `context` is the JSON that was evaluated, withheld values aside."""

    phase: Phase
    claims: tuple[Claim, ...]
    decision: Decision
    auditors: tuple[AuditorRun, ...]
    context: str = "{}"
    withheld: tuple[Withheld, ...] = ()
    coverage: Coverage | None = None


class Passport(msgspec.Struct, frozen=True, gc=False):
    """One exchange on record: who, when, which model, under which policy, what was decided and why.

    `at` is when the record was issued (RFC 3339, UTC); `finish_reasons` are the provider's own words, one a choice;
    `previous` is the leaf hash of the session's record before this one; `attestation` is the slot for evidence from
    hardware, None where there is none.
    """

    session: str
    seq: int
    at: str
    model_asked: str
    model_served: str | None
    config_digest: str
    policy_digest: str
    request: Commitment | None
    response: Commitment | None
    phases: tuple[PhaseRecord, ...]
    causes: tuple[DeclineCause, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    upstream_status: int | None = None
    gaps: tuple[EnforcementGap, ...] = ()
    previous: str | None = None
    signing: SigningMode = SigningMode.ED25519
    attestation: str | None = None

    def placed(self, seq: int, at: str, *, previous: str | None, signing: SigningMode) -> Passport:
        """Return the passport at its place in its session: numbered, timed, linked, and stamped with how it is signed."""
        return msgspec.structs.replace(self, seq=seq, at=at, previous=previous, signing=signing)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that may sign records from `not_before` to `not_after` (RFC 3339, UTC; None: no bound)."""

    key_id: str
    ed25519: str
    """The 32 bytes of the key, in hex."""
    not_before: str | None = None
    not_after: str | None = None


class KeyRotation(msgspec.Struct, frozen=True, gc=False):
    """From the next entry on, `new` signs in place of the key that signed this one."""

    at: str
    new: PublicKey
    signing: SigningMode = SigningMode.ED25519


class Erasure(msgspec.Struct, frozen=True, gc=False):
    """The salts and texts behind these commitments were deleted, and why."""

    at: str
    digests: tuple[str, ...]
    reason: str
    signing: SigningMode = SigningMode.ED25519


class Restart(msgspec.Struct, frozen=True, gc=False):
    """The writer started again and found the log at this size and root; `clean` where it had been shut down in order."""

    at: str
    size: int
    root: str
    config_digest: str
    policy_digest: str
    clean: bool
    signing: SigningMode = SigningMode.ED25519


LogEntry = Passport | KeyRotation | Erasure | Restart
"""What a leaf of the log can hold."""


class Check(StrEnum):
    """What a verification looks at, in this order."""

    SIGNATURE = "signature"
    INCLUSION = "inclusion"
    CONSISTENCY = "consistency"
    COUNTERSIGNATURE = "countersignature"
    SEQUENCE = "sequence"
    CLOCK = "clock"
    GAPS = "gaps"
    REPLAY = "replay"


class FaultKind(StrEnum):
    """What can be wrong with a log."""

    MALFORMED = "malformed"
    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown_key"
    KEY_NOT_VALID = "key_not_valid"
    BAD_SIGNATURE = "bad_signature"
    BAD_CHECKPOINT = "bad_checkpoint"
    NOT_COUNTERSIGNED = "not_countersigned"
    ROOT_MISMATCH = "root_mismatch"
    TRUNCATED = "truncated"
    FORKED = "forked"
    SEQUENCE = "sequence"
    CLOCK = "clock"
    HIDDEN_GAP = "hidden_gap"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong: at which leaf, or somewhere from `index` to `until` where the place cannot be told."""

    kind: FaultKind
    index: int
    what: str
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a check held, failed, or could not be made, and why it could not."""

    check: Check
    passed: int = 0
    failed: int = 0
    unchecked: tuple[tuple[str, int], ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the check was made, everywhere it applies, and held."""
        return self.passed > 0 and self.failed == 0 and not self.unchecked


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of a log found; `ok` speaks of what was checked, the tallies say what that was."""

    records: int
    tallies: tuple[Tally, ...]
    faults: tuple[Fault, ...]
    root: str

    @property
    def ok(self) -> bool:
        """Whether there was something to check and nothing wrong was found."""
        return self.records > 0 and not self.faults

    @property
    def first_bad(self) -> Fault | None:
        """The first record known to be bad; where none can be told exactly, the first stretch."""
        return min(self.faults, key=lambda fault: (fault.until is not None, fault.index), default=None)

    def tally(self, check: Check) -> Tally:
        """The count of one check; all zero where it never applied."""
        return next((tally for tally in self.tallies if tally.check is check), Tally(check))
