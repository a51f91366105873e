"""Checks what an auditor returned, and merges what all auditors of a phase state.

A `ClaimChecker` holds one auditor's vocabulary: what it declared, or else what its first sound answers taught. A claim that
is not sound is a problem, and its name goes into `unsound`, so that a policy need not take it for absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeGuard

import msgspec

from demur.errors import UsageError
from demur.model.claim import (
    Audit,
    Claim,
    ClaimSpec,
    ClaimType,
    EnforcementGap,
    FailureMode,
    Phase,
    Problem,
    Stated,
    Trouble,
    Vocabulary,
    flat_name,
)
from demur.model.passport import DeclineCause
from demur.model.verdict import Cause, Outcome, Verdict
from demur.policy.values import CedarKind, cedar_kind, cedar_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demur.model.claim import AuditorRun, ClaimValue, Turn

__all__ = [
    "MAX_CLAIMS",
    "MAX_UNSOUND",
    "ClaimChecker",
    "ClaimRow",
    "GivenRow",
    "claim_rows",
    "conclude",
    "decline_causes",
    "is_claim_name",
    "merge_claims",
    "read_specs",
]

MAX_CLAIMS = 256
"""Claims in one answer, and names that are learned of one auditor: a record has to stay small."""
MAX_UNSOUND = 1_024
"""Names beyond these that are still told to the policy as unsound."""
_SURPLUS = f"one of more than {MAX_CLAIMS} claims in one answer"
_MAX_TEXT_CHARS = 8_192
_CERTAIN = 1.0
_TYPES = {kind.value: kind for kind in ClaimType}
# What a policy can write after `context.claims.`, dots being read as underscores.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,4}")
# Of which type a value is that may be kept as it is; of the other scores none, for they are made floats.
_PLAINLY: dict[ClaimType, type | None] = {
    **dict.fromkeys(ClaimType),
    **dict.fromkeys((ClaimType.BOOLEAN, ClaimType.CONFORMITY), bool),
    **dict.fromkeys((ClaimType.CATEGORY, ClaimType.POLICY_VIOLATION), str),
    ClaimType.CATEGORY_LIST: tuple,
    ClaimType.SCORE_NORMALIZED: float,
}
_WORDS = frozenset({ClaimType.CATEGORY, ClaimType.POLICY_VIOLATION})
_CAUSES = {
    Cause.PROVIDER_FILTER: DeclineCause.PROVIDER_FILTER,
    Cause.PROVIDER_REFUSAL: DeclineCause.PROVIDER_REFUSAL,
    Cause.TEXT: DeclineCause.TEXT_REFUSAL,
    Cause.PROVIDER_ERROR: DeclineCause.PROVIDER_ERROR,
}
_DECLINED = (Outcome.REFUSED, Outcome.FILTERED, Outcome.PARTIAL, Outcome.FAILED)


class ClaimRow(msgspec.Struct, frozen=True):
    """A claim as it was returned, unchecked; `sensitive` is None where its maker did not say."""

    name: object
    value: object
    type: object = None
    confidence: object = _CERTAIN
    sensitive: bool | None = None


GivenRow = ClaimRow | tuple[object, object] | Problem
"""A claim of an answer: all that was said of it, or its name and value alone; or why there is none."""


class ClaimChecker:
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

    def check(self, phase: Phase, rows: Iterable[GivenRow], *, version: str | None = None) -> Stated:
        """Return the claims that are sound, and the problems with the others."""
        claims: list[Claim] = []
        problems: list[Problem] = []
        unsound: dict[str, str] = {}
        null: list[str] = []
        specs, auditor = self._by_name[phase], self.auditor
        for number, row in enumerate(islice(rows, MAX_CLAIMS + MAX_UNSOUND + 1)):
            if type(row) is tuple and number < MAX_CLAIMS:
                # What most rows are: a declared claim whose value is kept as it is.
                name, value = row
                spec = specs.get(name) if type(name) is str else None
                if spec is not None and _is_plainly(value, spec.type):
                    claims.append(Claim(spec.name, spec.type, value, phase, auditor, _CERTAIN, spec.sensitive))
                    continue
            made = self._check_row(phase, row, surplus=number >= MAX_CLAIMS)
            if isinstance(made, Claim):
                claims.append(made)
            elif isinstance(made, Problem):
                problems.append(made)
            elif isinstance(made, str):
                null.append(made)
            else:
                unsound.setdefault(*made)
        if not problems and not unsound:
            return Stated(tuple(claims), (), version, null=tuple(null))
        if _SURPLUS in unsound.values():
            problems.append(Problem("invalid_claim", f"more than {MAX_CLAIMS} claims in one answer"))
        problems += [
            Problem("invalid_claim", f"claim `{name}`: {why}") for name, why in unsound.items() if why != _SURPLUS
        ]
        return Stated(tuple(claims), tuple(problems), version, unsound=tuple(unsound.items()), null=tuple(null))

    def _check_row(self, phase: Phase, given: GivenRow, *, surplus: bool) -> Claim | Problem | tuple[str, str] | str:
        """Return the claim in a row, a problem, the name of what is not sound with the reason, or of what is null."""
        if isinstance(given, Problem):
            return given
        row = ClaimRow(*given) if isinstance(given, tuple) else given
        if not is_claim_name(row.name):
            return Problem("invalid_claim", "a claim whose name is no name")
        if surplus:
            return row.name, _SURPLUS
        try:
            return self._claim(phase, row, row.name) or row.name
        except ValueError as exc:
            return row.name, str(exc)

    def _claim(self, phase: Phase, row: ClaimRow, name: str) -> Claim | None:
        """Return the claim in a row, None where it states nothing; raise `ValueError` with what is wrong."""
        # A declared phase is closed; elsewhere a type, once learned, holds.
        known = self._declared.get((phase, name)) or self._learned.get((phase, name))
        if known is None and phase in self._closed:
            raise ValueError(f"not declared for the {phase} phase")
        # Null states nothing.
        if row.value is None:
            return None
        spec = known
        if spec is None:
            kind = _type_of_value(row.value) if row.type is None else _type_named(row.type)
            sensitive = _may_quote(kind) if row.sensitive is None else row.sensitive
            spec = ClaimSpec(name, kind, phase, self.auditor, sensitive=sensitive)
        if row.type is not None and row.type != spec.type:
            raise ValueError(f"stated as another type than {spec.type}")
        value = _sound_value(row.value, spec.type)
        confidence = row.confidence
        if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0.0 <= confidence <= 1.0:
            raise ValueError("its confidence is no number from 0 to 1")
        if known is None:
            self._learn(phase, spec)
        sensitive = spec.sensitive or row.sensitive is True
        return Claim(name, spec.type, value, phase, self.auditor, confidence=float(confidence), sensitive=sensitive)

    def _learn(self, phase: Phase, spec: ClaimSpec) -> None:
        if len(self._learned) >= MAX_CLAIMS:
            raise ValueError(f"more than {MAX_CLAIMS} names; declare a vocabulary")
        # One flat name has one type, in whichever phase it is stated.
        known = (*self._declared.values(), *self._learned.values())
        twin = next((held for held in known if held.flat == spec.flat), spec)
        if twin.type is not spec.type:
            raise ValueError(f"was a {twin.type} before")
        self._learned.setdefault((phase, spec.name), spec)


def is_claim_name(name: object) -> TypeGuard[str]:
    """Return whether a claim can be called so."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def read_specs(given: object, *, phase: Phase, auditor: str) -> tuple[ClaimSpec, ...]:
    """Return the specs in a declared vocabulary: names to types, or to `{"type", "sensitive", "description"}`."""
    if isinstance(given, Vocabulary):
        specs = (spec for spec in given.specs if spec.phase is phase)
        return tuple(ClaimSpec(s.name, s.type, phase, auditor, s.sensitive, s.description) for s in specs)
    if not isinstance(given, Mapping):
        raise UsageError("a vocabulary that maps no names to types", hint='write {"toxic_content": "score_normalized"}')
    found = []
    for name, said in given.items():
        if not is_claim_name(name):
            raise UsageError(f"`{name}` is no name of a claim", hint="use letters, digits and underscores")
        more = said if isinstance(said, Mapping) else {"type": said}
        try:
            kind = _type_named(more.get("type"))
        except ValueError as exc:
            raise UsageError(f"the claim `{name}` has {exc}", hint=f"choose from {', '.join(ClaimType)}") from exc
        sensitive = bool(more.get("sensitive", _may_quote(kind)))
        found.append(ClaimSpec(name, kind, phase, auditor, sensitive, str(more.get("description", ""))))
    return tuple(found)


def claim_rows(returned: object) -> Iterator[ClaimRow | Problem]:
    """Yield the claims in what a method returned: a mapping of names to values, or a list of claims; None is none."""
    if returned is None:
        return
    if isinstance(returned, Mapping):
        for name, value in returned.items():
            yield ClaimRow(name, value)
        return
    if not isinstance(returned, list | tuple):
        yield Problem("invalid_answer", "neither a mapping nor a list of claims was returned")
        return
    for item in returned:
        if isinstance(item, Claim):
            yield ClaimRow(item.name, item.value, item.type, item.confidence, item.sensitive or None)
        elif isinstance(item, Mapping) and "name" in item:
            meta = item.get("metadata")
            marked = item.get("sensitive", meta.get("sensitive") if isinstance(meta, Mapping) else None)
            confidence = _CERTAIN if item.get("confidence") is None else item["confidence"]
            sensitive = marked if isinstance(marked, bool) else None
            yield ClaimRow(item["name"], item.get("value"), item.get("type"), confidence, sensitive)
        else:
            yield Problem("invalid_answer", "something in the list is no claim")


def _may_quote(kind: ClaimType) -> bool:
    """Return whether values of a type hold text, and so count as sensitive unless their maker says otherwise."""
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


def _sound_value(value: object, kind: ClaimType) -> ClaimValue:
    """Return the value as claims hold it; raise `ValueError` where the type does not allow it."""
    if _is_plainly(value, kind):
        return value
    if isinstance(value, set | frozenset):
        value = list(value)
    # The policy engine's own check: what Cedar could not hold is no claim.
    cedar_value(value, kind)
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, list | tuple):
        if len(value) > MAX_CLAIMS:
            raise ValueError(f"more than {MAX_CLAIMS} words")
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
        return value.isascii() and len(value) <= _MAX_TEXT_CHARS
    return type(value) is bool or value == ()


def _short(text: str) -> str:
    if len(text) > _MAX_TEXT_CHARS:
        raise ValueError(f"a text of more than {_MAX_TEXT_CHARS} characters")
    return text


def conclude(phase: Phase, turns: Sequence[Turn]) -> Audit:
    """Return what the turns of one phase came to: every claim under its maker, and the merged ones that a policy reads."""
    claims: list[Claim] = []
    ran: list[AuditorRun] = []
    is_sound = True
    for turn in turns:
        claims += turn.claims
        ran.append(turn.run)
        is_sound = is_sound and not (turn.problems or turn.unsound or turn.failed)
    stated, runs = tuple(claims), tuple(ran)
    if is_sound:
        return Audit(phase, merge_claims(stated), stated, runs)
    troubles: list[Trouble] = []
    gaps: list[EnforcementGap] = []
    denials: list[str] = []
    for turn in turns:
        mode = turn.mode if turn.failed else None
        troubles += [Trouble(turn.auditor, phase, turn.status, p.code, p.what, mode) for p in turn.problems]
        if mode is FailureMode.CLOSED:
            denials.append(f"auditor `{turn.auditor}`: {turn.problems[0].what if turn.problems else turn.status}")
        elif mode is not None:
            # A failure that let the exchange through is a gap on record.
            gaps.append(EnforcementGap(phase, "failed_open", turn.auditor))
    # A claim that one auditor states unsoundly is unsound, whatever another says of it. Sorted, so that of several reasons
    # the first by its letters holds, whoever gave it.
    unsound = sorted(((flat_name(name), why) for turn in turns for name, why in turn.unsound), reverse=True)
    return Audit(
        phase,
        merge_claims(stated),
        stated,
        runs,
        tuple(troubles),
        tuple(gaps),
        tuple(denials),
        tuple(sorted(dict(unsound).items())),
    )


def merge_claims(stated: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the claims that a policy is to read, sorted by name: one per flat name, unless there are two words for it."""
    by_name = {flat_name(claim.name): claim for claim in stated}
    if len(by_name) == len(stated):
        return tuple(map(by_name.__getitem__, sorted(by_name)))
    groups: dict[str, list[Claim]] = {}
    for claim in stated:
        groups.setdefault(flat_name(claim.name), []).append(claim)
    return tuple(claim for name in sorted(groups) for claim in _merge_group(groups[name]))


def _merge_group(group: list[Claim]) -> list[Claim]:
    """Return what holds of claims of one name: the value that a policy which forbids by the claim would find strictest."""
    if len(group) == 1:
        return group
    # Sorted first, so that a tie falls the same way whoever stands first in the chain.
    ranked = sorted(group, key=lambda claim: (-claim.confidence, claim.auditor, claim.name, repr(claim.value)))
    kind = ranked[0].type
    if len({claim.type for claim in group}) > 1:
        # Two types cannot be compared: both stay, and the gate refuses to read the claim.
        return ranked
    if kind in _WORDS:
        # Words have no order: where two differ both stay, so that every rule that reads the claim fires.
        strictest = list({claim.value: claim for claim in reversed(ranked)}.values())[::-1]
    elif kind is ClaimType.CATEGORY_LIST:
        united = sorted({word for claim in ranked if isinstance(claim.value, tuple) for word in claim.value})
        strictest = [msgspec.structs.replace(ranked[0], value=tuple(united))]
    else:
        # The highest score and true are strictest, but of conformities false is.
        pick = min if kind is ClaimType.CONFORMITY else max
        numbers = {id(c): float(c.value) if isinstance(c.value, bool | int | float) else 0.0 for c in ranked}
        strictest = [pick(ranked, key=lambda claim: numbers[id(claim)])]
    if any(claim.sensitive for claim in group):
        return [msgspec.structs.replace(claim, sensitive=True) for claim in strictest]
    return strictest


def decline_causes(verdict: Verdict | None, *, blocked: bool) -> tuple[DeclineCause, ...]:
    """Return what kept the response from the client, each cause by itself; none where it came.

    The gateway's block is one cause beside the provider's or the model's own, never in its place.
    """
    causes = [DeclineCause.GATEWAY_BLOCK] if blocked else []
    if verdict is not None and verdict.outcome is Outcome.EMPTY:
        # A response without any text was declined by nobody.
        causes.append(DeclineCause.EMPTY)
    elif verdict is not None and verdict.outcome is Outcome.UNREAD:
        causes.append(DeclineCause.UNREAD)
    elif verdict is not None and verdict.outcome in _DECLINED and verdict.cause is not None:
        causes.append(_CAUSES[verdict.cause])
    return tuple(causes)
