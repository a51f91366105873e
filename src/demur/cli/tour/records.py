"""What stands in an export of the log about each exchange, and what does a log look like in which one bit is another?

Laws: the log itself is never touched, only a copy of what one would hand out: no private key and no text is in it; the bit lies in
a record that is named, so that what is said about it can be compared.
"""

from __future__ import annotations

import base64
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from demur.errors import StoreError
from demur.model.claim import Effect

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Flipped", "TourRecord", "copy_with_flipped_bit", "exported_records"]

_NOT_ASKED = "not asked"
_PRIVATE = ("signing.pem", "sessions.key", "disclosures.db*")
_SCORE = b'{"name":"adversarial_score","real":"0.9'
_BIT = 0x08
"""Makes a 1 of a 9."""


class _ExportedEnvelope(msgspec.Struct):
    payload: str


class _Context(msgspec.Struct):
    claims: dict[str, object]


class _Rule(msgspec.Struct):
    id: str


class _Phase(msgspec.Struct):
    phase: str
    context: _Context
    decision: str
    rules: tuple[_Rule, ...] = ()


class _Predicate(msgspec.Struct):
    phases: tuple[_Phase, ...]


class _Line(msgspec.Struct):
    index: int
    envelope: _ExportedEnvelope
    predicate: _Predicate


class _Subject(msgspec.Struct):
    digest: dict[str, str]


class _Statement(msgspec.Struct):
    subject: tuple[_Subject, ...]


class _LineKind(msgspec.Struct):
    kind: str


@dataclass(frozen=True, slots=True)
class TourRecord:
    """A record: its place, the passport's id, how the answer was judged, the decision with its rules, and the signed bytes."""

    index: int
    passport: str
    verdict: str
    decision: str
    rules: tuple[str, ...]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Flipped:
    """Which bit is another: in which record, at which byte of the file, and what the score was and now is."""

    record: int
    at_byte: int
    before: str
    after: str


def exported_records(path: Path) -> dict[str, TourRecord]:
    """Return the passports of an export, each under its id."""
    lines = [
        line for line in path.read_bytes().splitlines() if msgspec.json.decode(line, type=_LineKind).kind == "passport"
    ]
    records = map(_record_in, lines)
    return {record.passport: record for record in records}


def _record_in(line: bytes) -> TourRecord:
    read = msgspec.json.decode(line, type=_Line)
    payload = base64.b64decode(read.envelope.payload)
    statement = msgspec.json.decode(payload, type=_Statement)
    phases = read.predicate.phases
    judged = (phase.context.claims for phase in phases if phase.phase == "response")
    return TourRecord(
        read.index,
        statement.subject[0].digest["saltedSha256"],
        next((str(claims.get("refusal_outcome", _NOT_ASKED)) for claims in judged), _NOT_ASKED),
        max((Effect[phase.decision.upper()] for phase in phases), default=Effect.ALLOW).word,
        tuple(rule.id for phase in phases for rule in phase.rules),
        payload,
    )


def copy_with_flipped_bit(log: Path, copy: Path, record: TourRecord) -> Flipped:
    """Make a copy of a log in which the score of one attack has another first digit, and return what was changed."""
    shutil.copytree(log, copy, ignore=shutil.ignore_patterns(*_PRIVATE))
    file = copy / "log.db"
    # What SQLite has not yet folded in is protected by sums of its own: a bit there would cut the log off, not change a record.
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(file.read_bytes())
    inside = record.payload.find(_SCORE) + len(_SCORE) - 1
    at = data.find(record.payload[: inside + 1]) + inside
    if inside < len(_SCORE) - 1 or at < inside:
        raise StoreError(f"the score of record {record.index} is not where it was expected", hint="the tour ends here")
    data[at] ^= _BIT
    file.write_bytes(data)
    start = inside - len("0.")
    before = record.payload[start:].partition(b'"')[0].decode()
    return Flipped(record.index, at, before, f"0.1{before[3:]}")
