"""Entries as a store keeps them: their columns, what passports are counted by, and the name of each kind."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.model.claim import Effect
from demur.model.passport import DeclineCause, Erasure, KeyRotation, LogEntry, Passport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.record.seal import SealedEntry

__all__ = ["RateKey", "StoredEntry", "entry_kind", "rate_key", "stored_bytes", "stored_row"]

_OPENING = b'{"payload":"'
_HOUR_CHARS = len("2026-01-31T12")
# `Effect.word` builds its text at each call, and this is asked for every passport.
_EFFECT_WORDS = {effect: effect.word for effect in Effect}
_FAILED = {DeclineCause.PROVIDER_ERROR}


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it was read from a store, with what is looked up without opening its envelope."""

    index: int
    envelope: bytes
    payload: bytes
    """The signed statement; empty where the row is damaged."""
    kind: str
    at: str
    session: str | None
    seq: int | None

    @classmethod
    def of(cls, columns: Sequence[Any]) -> StoredEntry:
        """Return the entry of a row of `records`."""
        index, payload, rest, *others = columns
        payload, rest = stored_bytes(payload), stored_bytes(rest)
        return cls(index, _OPENING + b64encode(payload) + rest if payload else rest, payload, *others)


class RateKey(NamedTuple):
    """What passports are counted by."""

    hour: str
    model: str
    decision: str
    causes: str
    answered: bool
    """Whether a provider was asked and gave a response to the request, be it a refusal."""


def stored_row(index: int, sealed: SealedEntry) -> tuple[object, ...]:
    """Return an entry as a row of `records`."""
    # The payload is kept decoded: a quarter smaller, and readable as JSON. An envelope is canonical, so what follows the base64
    # of its payload can be cut off by length.
    rest = sealed.envelope[len(_OPENING) + (len(sealed.payload) + 2) // 3 * 4 :]
    entry = sealed.entry
    session, seq = (entry.session, entry.seq) if isinstance(entry, Passport) else (None, None)
    return index, sealed.payload, rest, entry_kind(entry), entry.at, session, seq


def stored_bytes(value: object) -> bytes:
    """Return the bytes of a column."""
    # SQLite keeps a value of any type in any column. One of the wrong type gives bytes that match no hash, and is reported so.
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode(errors="replace")


def entry_kind(entry: LogEntry) -> str:
    """Return what an entry is called in stores, exports and on the terminal."""
    match entry:
        case Passport():
            return "passport"
        case KeyRotation():
            return "rotation"
        case Erasure():
            return "erasure"
        case _:
            return "restart"


def rate_key(passport: Passport) -> RateKey:
    """Return what a passport is counted by; a function of the passport alone, so that counts can be verified."""
    effect = max([phase.decision.effect for phase in passport.phases], default=Effect.ALLOW)
    causes = set(passport.causes)
    return RateKey(
        passport.at[:_HOUR_CHARS],
        passport.model_served or passport.model_asked,
        _EFFECT_WORDS[effect],
        ",".join(sorted(causes)) if causes else "",
        # An exchange that failed at the provider, or never reached one, is in no denominator of the model.
        passport.upstream_status is not None and causes != _FAILED,
    )
