"""How good is the pack on sets that it never saw, in a table that people read?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from demur.detect.prompts.pack import Domain, LinearModel
    from demur_train.prompts.train import Lab

    Floats = NDArray[np.float64]

__all__ = ["Line", "brier", "lines", "markdown"]

_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Line:
    """One set, or one class of it: how many texts, and how many were flagged as an attack, as harm, as either."""

    name: str
    n: int
    attack: int
    harm: int
    either: int


def lines(lab: Lab, margins: Mapping[Domain, Floats]) -> list[Line]:
    """Return a line for each set; a set that holds both classes has one for each."""
    attack, harm = margins["attack"] > 0, margins["harm"] > 0
    found = []
    for name in dict.fromkeys(lab.sets.tolist()):
        mine = lab.sets == name
        labels = lab.labels("attack") if name == "deepset" else lab.labels("harm")
        for suffix, chosen in _classes(mine, labels):
            counts = [int(flags[chosen].sum()) for flags in (attack, harm, attack | harm)]
            found.append(Line(f"{name}{suffix}", int(chosen.sum()), *counts))
    return found


def _classes(mine: NDArray[np.bool_], labels: Floats) -> list[tuple[str, NDArray[np.bool_]]]:
    both = [(label, mine & (labels == value)) for label, value in (("/positive", 1.0), ("/benign", 0.0))]
    return both if all(chosen.any() for _, chosen in both) else [("", mine)]


def brier(lab: Lab, domain: Domain, *, margins: Floats, model: LinearModel) -> float:
    """Return the mean squared error of the probability on sets left out, where both classes count the same."""
    labels = lab.labels(domain)
    known = lab.trains & ~np.isnan(labels)
    error = (1.0 / (1.0 + np.exp(-(model.slope * margins + model.offset))) - labels) ** 2
    return float(np.mean([error[known & (labels == value)].mean() for value in (0.0, 1.0)]))


def markdown(found: Sequence[Line]) -> str:
    """Return the lines as a table, with 95 % Wilson intervals for attacks and harm."""
    rows = [
        f"| {line.name} | {line.n} | {_share(line.attack, line.n)} | {_share(line.harm, line.n)} | {line.either / line.n:.3f} |"
        for line in found
    ]
    return "\n".join(["| set | n | attack | harm | either |", "|---|---|---|---|---|", *rows])


def _share(hits: int, n: int) -> str:
    p, z = hits / n, _Z
    middle, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * spread) / (1 + z * z / n) for sign in (-1, 1))
    return f"{p:.3f} [{max(0.0, low):.3f}, {high:.3f}]"
