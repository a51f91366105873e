"""What did the auditors of one phase come to, where several state the same claim and some have failed?

The merge rule, for claims of one flat name: of scores the highest stands, of booleans true, of conformities false, and
lists are united: what a policy that forbids by the claim would find strictest. Words (`category`, `policy_violation`) have
no order: where two differ, both stand, and the gate takes the claim for unsound, so that every rule that reads it fires.
Laws: merging is the same in whatever order the auditors stand; a merged claim is sensitive where any of its makers says
so; every claim stays in `stated` under its maker; a claim that one auditor states unsoundly is unsound, whatever another
says of it; a failure is in `troubles`, and in `gaps` where it let something through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.model.audit import Audit, FailureMode, Trouble
from demur.model.claim import ClaimType, flat_name
from demur.model.passport import EnforcementGap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.audit import Turn
    from demur.model.claim import Claim, Phase
    from demur.model.passport import AuditorRun

__all__ = ["conclude", "merge_claims"]

_WORDS = frozenset({ClaimType.CATEGORY, ClaimType.POLICY_VIOLATION})


def conclude(phase: Phase, turns: Sequence[Turn]) -> Audit:
    """Return what the turns of one phase came to."""
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
    failed = [turn for turn in turns if turn.failed]
    return Audit(
        phase,
        merge_claims(stated),
        stated,
        runs,
        tuple(_troubles(phase, turns)),
        tuple(EnforcementGap(phase, "failed_open", t.auditor) for t in failed if t.mode is not FailureMode.CLOSED),
        tuple(f"auditor `{t.auditor}`: {_reason(t)}" for t in failed if t.mode is FailureMode.CLOSED),
        _unsound(turns),
    )


def _unsound(turns: Sequence[Turn]) -> tuple[tuple[str, str], ...]:
    """Return one reason a flat name: where auditors give several, the first by its letters, whoever gave it."""
    told = sorted(((flat_name(name), why) for turn in turns for name, why in turn.unsound), reverse=True)
    return tuple(sorted(dict(told).items()))


def merge_claims(stated: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the claims that a policy is to read, sorted by name: one a flat name, unless there are two words for it."""
    by_name = {flat_name(claim.name): claim for claim in stated}
    if len(by_name) == len(stated):
        return tuple(map(by_name.__getitem__, sorted(by_name)))
    groups: dict[str, list[Claim]] = {}
    for claim in stated:
        groups.setdefault(flat_name(claim.name), []).append(claim)
    return tuple(claim for name in sorted(groups) for claim in _merged(groups[name]))


def _merged(group: list[Claim]) -> list[Claim]:
    if len(group) == 1:
        return group
    # Sorted first, so that a tie falls the same way whoever stands first in the chain.
    ranked = sorted(group, key=lambda claim: (-claim.confidence, claim.auditor, claim.name, repr(claim.value)))
    if len({claim.type for claim in group}) > 1:
        # Two types cannot be compared: the gate refuses to read the claim.
        return ranked
    sensitive = any(claim.sensitive for claim in group)
    return [replace(claim, sensitive=True) if sensitive else claim for claim in _strictest(ranked)]


def _strictest(ranked: list[Claim]) -> list[Claim]:
    kind = ranked[0].type
    if kind in _WORDS:
        return list({claim.value: claim for claim in reversed(ranked)}.values())[::-1]
    if kind is ClaimType.CATEGORY_LIST:
        united = sorted({word for claim in ranked if isinstance(claim.value, tuple) for word in claim.value})
        return [replace(ranked[0], value=tuple(united))]
    pick = min if kind is ClaimType.CONFORMITY else max
    return [pick(ranked, key=_number_of)]


def _number_of(claim: Claim) -> float:
    return float(claim.value) if isinstance(claim.value, bool | int | float) else 0.0


def _reason(turn: Turn) -> str:
    return turn.problems[0].what if turn.problems else f"{turn.status}"


def _troubles(phase: Phase, turns: Sequence[Turn]) -> Iterator[Trouble]:
    for turn in turns:
        mode = turn.mode if turn.failed else None
        for problem in turn.problems:
            yield Trouble(turn.auditor, phase, turn.status, problem.code, problem.what, mode)
