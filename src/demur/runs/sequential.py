"""Pairs in the order in which they were asked, for a comparison that may be looked at after each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.measure.sequential import flip_evidence
from demur.model.comparison import GateMode

if TYPE_CHECKING:
    from demur.model.comparison import DiffSettings, Tally
    from demur.model.estimate import Evidence
    from demur.runs.counting import CountingEngine

__all__ = ["check_sequential", "read_evidence"]

# Pairs are numbered in the order of the baseline's rows, which is fixed before the candidate answers.
_FLIPS = (
    "SELECT number, cs = 'a' FROM (SELECT row_number() OVER (ORDER BY base) AS number, bs, cs FROM pairs "
    "WHERE bs IN ('a', 'n') AND cs IN ('a', 'n')) AS numbered WHERE bs <> cs ORDER BY number"
)


def check_sequential(settings: DiffSettings, *, labels: bool, axes: bool, unpaired: bool) -> None:
    """Raise where a comparison at every look is asked for together with what is for one look alone."""
    shadow = settings.gate is GateMode.SEED
    others = {"labels": labels, "further axes": axes, "runs without pairs": unpaired, "Shadow's gate": shadow}
    named = next((name for name, given in others.items() if given), None)
    if named is not None:
        raise UsageError(f"{named} cannot be looked at after every pair", hint="drop it, or the sequential comparison")


def read_evidence(engine: CountingEngine, tally: Tally, *, alpha: float) -> Evidence:
    """Return what the pairs in an engine say one after another; they must be independent of each other."""
    grouped = sum(cluster.count for cluster in tally.clusters if cluster.pairs > 1)
    if grouped:
        what = f"{grouped:,} groups of pairs by {tally.cluster_field or 'question'} move together"
        hint = "keep one pair of each, or compare once without the sequential test"
        raise UsageError(f"{what}, and a sequential comparison needs independent pairs", hint=hint)
    flips = ((int(number), bool(is_rise)) for number, is_rise in engine.ask(_FLIPS))
    return flip_evidence(flips, tally.counts.n, alpha=alpha)
