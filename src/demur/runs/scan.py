"""How often runs say no, and which groups say it more: from a scan's tally to its rates.

A rate counts judged rows, all but the failed ones; no rows at all is an error.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import EmptyInputError
from demur.measure.multiplicity import false_discovery
from demur.measure.rates import wilson
from demur.measure.unpaired import unpaired_difference
from demur.model.run import Group, GroupDifference, Scan
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demur.model.estimate import Difference
    from demur.model.run import ScanTally

__all__ = ["MAX_COMPARED", "REST", "scan_tally"]

# A field of more values is nearer to a key than to a group.
MAX_COMPARED = 100
"""Values of a field compared with its rest: a field of more is nearer to a key than to a group."""
REST = "the rest"


@dataclass(frozen=True, slots=True)
class _Contrast:
    field: str
    value: str
    against: str
    difference: Difference


def scan_tally(tally: ScanTally) -> Scan:
    """Return the rates that a scan's tally amounts to, and the differences between groups."""
    counted = [_abstained_and_judged(run.outcomes, tally.counted) for run in tally.runs]
    if not any(number for run in tally.runs for _, number in run.outcomes):
        raise EmptyInputError("the runs hold no rows", hint="check the files and their format")
    groups = tuple(
        Group(g.field, g.value, wilson(*_abstained_and_judged(g.outcomes, tally.counted)), g.outcomes)
        for g in tally.groups
    )
    contrasts = list(_contrasts(groups))
    discoveries = false_discovery([contrast.difference.p for contrast in contrasts])
    return Scan(
        tally,
        wilson(sum(abstained for abstained, _ in counted), sum(judged for _, judged in counted)),
        tuple(wilson(*pair) for pair in counted),
        groups,
        tuple(
            GroupDifference(c.field, c.value, c.against, c.difference, q)
            for c, q in zip(contrasts, discoveries, strict=True)
        ),
    )


def _abstained_and_judged(outcomes: Iterable[tuple[str, int]], counted: Sequence[str]) -> tuple[int, int]:
    judged = [(name, number) for name, number in outcomes if name != Outcome.FAILED]
    return sum(number for name, number in judged if name in counted), sum(number for _, number in judged)


def _contrasts(groups: Iterable[Group]) -> Iterator[_Contrast]:
    """Yield the differences of each field: of two values the first against the second, of more each against the rest."""
    fields: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        # A group without a judged row has no rate to compare.
        if group.rate.n:
            fields[group.field].append(group)
    for field, values in fields.items():
        sides = [(group.rate.count, group.rate.n) for group in values]
        if len(values) == 2:  # noqa: PLR2004 - one against the other
            yield _Contrast(field, values[0].value, values[1].value, unpaired_difference(*sides))
        elif len(values) > 1:
            abstained, judged = (sum(column) for column in zip(*sides, strict=True))
            largest = sorted(range(len(values)), key=lambda i: -sides[i][1])[:MAX_COMPARED]
            for i in sorted(largest):
                rest = abstained - sides[i][0], judged - sides[i][1]
                yield _Contrast(field, values[i].value, REST, unpaired_difference(sides[i], rest))
