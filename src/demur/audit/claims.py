"""Is what an auditor returned a sound claim, and of which type?

A `Wordbook` is one auditor's vocabulary: what it declared, or else what its first sound answers taught. Laws: a declared
phase is closed, a claim that is not declared in it is a problem; a type, once declared or learned, holds; a value that its
type does not allow (wrong kind, not a number, out of range) is a problem and no claim, and its name goes with the reason
into `unsound`; null states nothing; a problem names the claim and never its value, which may be the user's text; a claim that holds text counts as sensitive unless its
maker says that it does not quote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import msgspec

from demur.errors import UsageError
from demur.model.audit import Problem, Stated
from demur.model.claim import Claim, ClaimSpec, ClaimType, Phase, Vocabulary
from demur.policy.values import CedarKind, cedar_kind, cedar_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from demur.model.claim import ClaimValue

__all__ = [
    "MOST_CLAIMS",
    "MOST_UNSOUND",
    "ClaimRow",
    "GivenRow",
    "Wordbook",
    "claim_rows",
    "is_claim_name",
    "read_specs",
]

MOST_CLAIMS = 256
"""Claims in one answer, and names that are learned of one auditor: a record has to stay small."""
MOST_UNSOUND = 1_024
"""Names beyond these that are still told to the policy as unsound."""
_SURPLUS = f"one of more than {MOST_CLAIMS} claims in one answer"
_MOST_TEXT_CHARS = 8_192
_CERTAIN = 1.0
_TYPES = {kind.value: kind for kind in ClaimType}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,4}")
"""What a policy can write after `context.claims.`, dots being read as underscores."""
_PLAINLY: dict[ClaimType, type | None] = {
    **dict.fromkeys(ClaimType),
    **dict.fromkeys((ClaimType.BOOLEAN, ClaimType.CONFORMITY), bool),
    **dict.fromkeys((ClaimType.CATEGORY, ClaimType.POLICY_VIOLATION), str),
    ClaimType.CATEGORY_LIST: tuple,
    ClaimType.SCORE_NORMALIZED: float,
}
"""Of which type a value is that may be kept as it is; of the other scores none, for they are made floats."""


class ClaimRow(msgspec.Struct, frozen=True):
    """A claim as it was returned, unchecked; `sensitive` is None where its maker did not say."""

    name: object
    value: object
    type: object = None
    confidence: object = _CERTAIN
    sensitive: bool | None = None


GivenRow = ClaimRow | tuple[object, object] | Problem
"""A claim of an answer: all that was said of it, or its name and value alone; or why there is none."""


@dataclass(frozen=True, slots=True)
class _Unsound:
    """A claim that was stated and cannot be read."""

    name: str
    why: str


class Wordbook:
    """What one auditor may state, and the check of what it does."""

    __slots__ = ("_by_name", "_closed", "_declared", "_learned", "auditor")

    def __init__(self, auditor: str, declared: Iterable[ClaimSpec] = ()) -> None:
        self.auditor = auditor
        self._declared = {(spec.phase, spec.name): spec for spec in declared}
        named = [spec for spec in self._declared.values() if is_claim_name(spec.name)]
        self._by_name = {phase: {spec.name: spec for spec in named if spec.phase is phase} for phase in Phase}
        self._closed = frozenset(phase for phase, _ in self._declared)
        self._learned: dict[tuple[Phase, str], ClaimSpec] = {}

    def closed(self, phase: Phase) -> bool:
        """Return whether all claims of a phase are declared."""
        return phase in self._closed

    @property
    def vocabulary(self) -> Vocabulary:
        """What is known so far of the claims that this auditor makes."""
        return Vocabulary((*self._declared.values(), *self._learned.values()))

    def stated(self, phase: Phase, rows: Iterable[GivenRow], *, version: str | None = None) -> Stated:
        """Return the claims that are sound, and the problems with the others."""
        claims: list[Claim] = []
        problems: list[Problem] = []
        unsound: dict[str, str] = {}
        specs, auditor = self._by_name[phase], self.auditor
        for number, row in enumerate(rows):
            if type(row) is tuple and number < MOST_CLAIMS:
                # What most rows are: a declared claim whose value is kept as it is.
                name, value = row
                spec = specs.get(name) if type(name) is str else None
                if spec is not None and (value is None or _is_plainly(value, spec.type)):
                    if value is not None:
                        claims.append(Claim(spec.name, spec.type, value, phase, auditor, _CERTAIN, spec.sensitive))
                    continue
            made = row if isinstance(row, Problem) else self._checked(phase, row, surplus=number >= MOST_CLAIMS)
            if isinstance(made, Claim):
                claims.append(made)
            elif isinstance(made, Problem):
                problems.append(made)
            elif isinstance(made, _Unsound):
                unsound.setdefault(made.name, made.why)
            if number >= MOST_CLAIMS + MOST_UNSOUND:
                break
        if not problems and not unsound:
            return Stated(tuple(claims), (), version)
        return Stated(tuple(claims), (*problems, *_problems_of(unsound)), version, unsound=tuple(unsound.items()))

    def _checked(
        self, phase: Phase, given: ClaimRow | tuple[object, object], *, surplus: bool
    ) -> Claim | Problem | _Unsound | None:
        row = ClaimRow(*given) if isinstance(given, tuple) else given
        if not is_claim_name(row.name):
            return Problem("invalid_claim", "a claim whose name is no name")
        if surplus:
            return _Unsound(row.name, _SURPLUS)
        try:
            return self._claim(phase, row, row.name)
        except ValueError as exc:
            return _Unsound(row.name, str(exc))

    def _claim(self, phase: Phase, row: ClaimRow, name: str) -> Claim | None:
        """Return the claim in a row, None where it states nothing; raise `ValueError` with what is wrong."""
        known = self._declared.get((phase, name)) or self._learned.get((phase, name))
        if known is None and phase in self._closed:
            raise ValueError(f"not declared for the {phase} phase")
        if row.value is None:
            return None
        spec = known or self._guess(phase, row, name)
        if row.type is not None and row.type != spec.type:
            raise ValueError(f"stated as another type than {spec.type}")
        value = _sound(row.value, spec.type)
        confidence = _confidence(row.confidence)
        if known is None:
            self._learn(phase, spec)
        sensitive = spec.sensitive or row.sensitive is True
        return Claim(name, spec.type, value, phase, self.auditor, confidence=confidence, sensitive=sensitive)

    def _guess(self, phase: Phase, row: ClaimRow, name: str) -> ClaimSpec:
        kind = _type_of_value(row.value) if row.type is None else _type_named(row.type)
        return ClaimSpec(
            name, kind, phase, self.auditor, sensitive=_may_quote(kind) if row.sensitive is None else row.sensitive
        )

    def _learn(self, phase: Phase, spec: ClaimSpec) -> None:
        if len(self._learned) >= MOST_CLAIMS:
            raise ValueError(f"more than {MOST_CLAIMS} names; declare a vocabulary")
        # One flat name has one type, in whichever phase it is stated.
        known = (*self._declared.values(), *self._learned.values())
        twin = next((held for held in known if held.flat == spec.flat), spec)
        if twin.type is not spec.type:
            raise ValueError(f"was a {twin.type} before")
        self._learned.setdefault((phase, spec.name), spec)


def is_claim_name(name: object) -> TypeGuard[str]:
    """Return whether a claim can be called so."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def _problems_of(unsound: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each claim that is not sound; one for all that are too many."""
    if _SURPLUS in unsound.values():
        yield Problem("invalid_claim", f"more than {MOST_CLAIMS} claims in one answer")
    for name, why in unsound.items():
        if why != _SURPLUS:
            yield Problem("invalid_claim", f"claim `{name}`: {why}")


def read_specs(given: object, *, phase: Phase, auditor: str) -> tuple[ClaimSpec, ...]:
    """Return the specs in a declared vocabulary: names to types, or to `{"type", "sensitive", "description"}`."""
    if isinstance(given, Vocabulary):
        specs = (spec for spec in given.specs if spec.phase is phase)
        return tuple(ClaimSpec(s.name, s.type, phase, auditor, s.sensitive, s.description) for s in specs)
    if not isinstance(given, Mapping):
        raise UsageError("a vocabulary that maps no names to types", hint='write {"toxic_content": "score_normalized"}')
    return tuple(_spec(name, said, phase=phase, auditor=auditor) for name, said in given.items())


def claim_rows(returned: object) -> Iterator[ClaimRow | Problem]:
    """Yield the claims in what a method returned: a mapping of names to values, or a list of claims; None is none."""
    if returned is None:
        return
    if isinstance(returned, Mapping):
        for name, value in returned.items():
            yield ClaimRow(name, value)
    elif isinstance(returned, list | tuple):
        for item in returned:
            yield _listed(item)
    else:
        yield Problem("invalid_answer", "neither a mapping nor a list of claims was returned")


def _listed(item: object) -> ClaimRow | Problem:
    if isinstance(item, Claim):
        return ClaimRow(item.name, item.value, item.type, item.confidence, item.sensitive or None)
    if isinstance(item, Mapping) and "name" in item:
        meta = item.get("metadata")
        marked = item.get("sensitive", meta.get("sensitive") if isinstance(meta, Mapping) else None)
        confidence = 1.0 if item.get("confidence") is None else item["confidence"]
        sensitive = marked if isinstance(marked, bool) else None
        return ClaimRow(item["name"], item.get("value"), item.get("type"), confidence, sensitive)
    return Problem("invalid_answer", "something in the list is no claim")


def _spec(name: object, said: object, *, phase: Phase, auditor: str) -> ClaimSpec:
    if not is_claim_name(name):
        raise UsageError(f"`{name}` is no name of a claim", hint="use letters, digits and underscores")
    more = said if isinstance(said, Mapping) else {"type": said}
    try:
        kind = _type_named(more.get("type"))
    except ValueError as exc:
        raise UsageError(f"the claim `{name}` has {exc}", hint=f"choose from {', '.join(ClaimType)}") from exc
    sensitive = bool(more.get("sensitive", _may_quote(kind)))
    return ClaimSpec(name, kind, phase, auditor, sensitive, str(more.get("description", "")))


def _may_quote(kind: ClaimType) -> bool:
    return cedar_kind(kind) in (CedarKind.TEXT, CedarKind.TEXTS)


def _type_named(word: object) -> ClaimType:
    kind = _TYPES.get(word) if isinstance(word, str) else None
    if kind is None:
        raise ValueError("a type that nobody knows")
    return kind


def _type_of_value(value: object) -> ClaimType:
    if isinstance(value, bool):
        return ClaimType.BOOLEAN
    if isinstance(value, int | float):
        return ClaimType.SCORE_NORMALIZED
    return ClaimType.CATEGORY if isinstance(value, str) else ClaimType.CATEGORY_LIST


def _sound(value: object, kind: ClaimType) -> ClaimValue:
    """Return the value as claims hold it; raise `ValueError` where the type does not allow it."""
    if _is_plainly(value, kind):
        return value
    if isinstance(value, set | frozenset):
        value = list(value)
    cedar_value(value, kind)
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, list | tuple):
        if len(value) > MOST_CLAIMS:
            raise ValueError(f"more than {MOST_CLAIMS} words")
        return tuple(sorted({_short(str(word)) for word in value}))
    if isinstance(value, int | float):
        return bool(value) if cedar_kind(kind) is CedarKind.BOOL else float(value)
    raise ValueError("no value of a claim")


def _is_plainly(value: object, kind: ClaimType) -> TypeGuard[bool | float | str | tuple[str, ...]]:
    """Return whether a value is sound for its type at a glance, and kept as it is."""
    if type(value) is not _PLAINLY[kind]:
        return False
    if type(value) is float:
        return 0.0 <= value <= 1.0
    if type(value) is str:
        return value.isascii() and len(value) <= _MOST_TEXT_CHARS
    return type(value) is bool or value == ()


def _short(text: str) -> str:
    if len(text) > _MOST_TEXT_CHARS:
        raise ValueError(f"a text of more than {_MOST_TEXT_CHARS} characters")
    return text


def _confidence(given: object) -> float:
    if given is _CERTAIN:
        return _CERTAIN
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0.0 <= given <= 1.0:
        raise ValueError("its confidence is no number from 0 to 1")
    return float(given)
