"""The JSON objects of a log entry: the in-toto Statement v1 and our predicates, one struct per object.

Unknown fields are errors, and fields at their default are left out. These structs are the record format: a released field is
never renamed or removed.
"""

from __future__ import annotations

import msgspec

from demur.model.claim import ClaimType, Phase  # noqa: TC001 — msgspec reads the annotations at run time
from demur.model.exchange import Channel  # noqa: TC001 — msgspec reads the annotations at run time
from demur.model.passport import AuditorStatus, DeclineCause, SigningMode, StreamMode  # noqa: TC001 — msgspec reads the annotations at run time
from demur.record.keys import KeyForm  # noqa: TC001 — msgspec reads the annotations at run time

__all__ = [
    "STATEMENT_TYPE",
    "AuditorForm",
    "ClaimForm",
    "CommitmentForm",
    "CoverageForm",
    "ErasureForm",
    "GapForm",
    "PassportForm",
    "PhaseForm",
    "RestartForm",
    "RotationForm",
    "RuleForm",
    "StatementForm",
    "SubjectForm",
]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


class _Form(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all forms."""


class SubjectForm(_Form, frozen=True):
    """What a statement is about: a name, its digest by algorithm, and the size of a committed text."""

    name: str
    digest: dict[str, str]
    annotations: dict[str, int] = {}


class CommitmentForm(_Form, frozen=True):
    """What stands in place of a withheld value."""

    digest: str
    size_bytes: int


class ClaimForm(_Form, frozen=True):
    """A claim that cannot be read off the context; a withheld one has `withheld`, a fraction is under `real`."""

    name: str
    type: ClaimType
    value: bool | int | str | tuple[str, ...] | None = None
    # A decimal string: RFC 8785 prints floats as ECMAScript does, and writers in other languages get that wrong.
    real: str | None = None
    confidence: str | None = None
    sensitive: bool = False
    withheld: CommitmentForm | None = None


class AuditorForm(_Form, frozen=True):
    """One auditor's run and its claims: by type the names whose values the context holds, and the other claims."""

    id: str
    version: str
    status: AuditorStatus
    took_us: int
    failure_mode: str | None = None
    claims: dict[ClaimType, tuple[str, ...]] = {}
    other_claims: tuple[ClaimForm, ...] = ()


class RuleForm(_Form, frozen=True):
    """A rule that fired."""

    id: str
    effect: str
    reason: str | None = None
    place: str | None = None


class CoverageForm(_Form, frozen=True):
    """What was scanned."""

    mode: StreamMode
    scanned_bytes: int
    total_bytes: int
    strands: tuple[Channel, ...] = ()


class PhaseForm(_Form, frozen=True):
    """One phase; the context is the one that was evaluated, less what the passport says elsewhere (see `statement`)."""

    phase: Phase
    context: msgspec.Raw
    decision: str
    auditors: tuple[AuditorForm, ...] = ()
    rules: tuple[RuleForm, ...] = ()
    errors: tuple[str, ...] = ()
    coverage: CoverageForm | None = None


class GapForm(_Form, frozen=True):
    """A place where enforcement did not hold."""

    phase: Phase
    what: str
    auditor: str | None = None


class PassportForm(_Form, frozen=True):
    """The predicate of an exchange; its texts are the statement's subjects."""

    session: str
    seq: int
    at: str
    # These three have no default: that there is no signature, attestation or predecessor is stated, never implied.
    signing: SigningMode
    attestation: str | None
    previous: str | None
    model_asked: str
    model_served: str | None
    upstream_status: int | None
    config_digest: str
    policy_digest: str
    phases: tuple[PhaseForm, ...]
    finish_reasons: tuple[str, ...] = ()
    causes: tuple[DeclineCause, ...] = ()
    gaps: tuple[GapForm, ...] = ()


class RotationForm(_Form, frozen=True):
    """The predicate of a key rotation."""

    at: str
    signing: SigningMode
    new: KeyForm


class ErasureForm(_Form, frozen=True):
    """The predicate of an erasure."""

    at: str
    signing: SigningMode
    digests: tuple[str, ...]
    reason: str


class RestartForm(_Form, frozen=True):
    """The predicate of a restart."""

    at: str
    signing: SigningMode
    size: int
    root: str
    config_digest: str
    policy_digest: str
    clean: bool


class StatementForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"type": "_type"}):
    """An in-toto Statement v1; the predicate's type names its kind and version."""

    type: str
    subject: tuple[SubjectForm, ...]
    predicateType: str  # noqa: N815 — in-toto's own spelling
    # Raw, so that the predicate is decoded once its type is known, and in the bytes that were signed.
    predicate: msgspec.Raw
