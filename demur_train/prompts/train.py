"""Which weights does the pack ship, and how good are they on a set that they never saw?

Features come from the product's own modules, so that what is trained is what is served. Attack and harm are fitted apart, each
around the hand-set weights. A set is judged by a model fitted, and a threshold chosen, without it.

Laws: deterministic; measured sets train nothing; the calibration is fitted on margins of sets left out.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from demur.detect.prompts.check import windows
from demur.detect.prompts.features import attack_features, harm_features
from demur.detect.prompts.pack import LinearModel, PackFile, compile_pack, find_evidence
from demur.text.normalise import normalise
from demur_train.fit import Bounded, balanced_weights, fit_map, platt, quantile_threshold
from demur_train.prompts.grammar import read_grammar
from demur_train.prompts.sets import PINS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from demur.detect.prompts.pack import Domain
    from demur_train.prompts.grammar import Grammar
    from demur_train.prompts.sets import Example

    Floats = NDArray[np.float64]

__all__ = ["LEFT_OUT", "Lab", "make_pack", "open_lab"]

HERE = Path(__file__).parent
_PULL = {"attack": 25.0, "harm": 10.0}
_RATE = {"attack": 0.003, "harm": 0.018}
"""The share of training negatives above the threshold."""
_NEGATIVES = 2.0
_FLOOR, _STRONG_FLOOR = 0.15, 0.6
"""The share of its prior that an attack's or a harm's weight keeps in any case."""
_REPEATED = Bounded(0.4, 0.0, 1.5)
_NO_MODEL = LinearModel(0.0, 0.0, 1.0, 0.0, {})
_SHARED_GOALS = frozenset(("advbench", "PAIR", "GCG"))
LEFT_OUT: Mapping[Domain, Mapping[str, frozenset[str]]] = {
    "attack": {},
    "harm": dict.fromkeys(_SHARED_GOALS, _SHARED_GOALS),
}
"""Sets that are left out together, since they share their goals; any other set is left out alone."""


@dataclass(frozen=True)
class Lab:
    """The examples with their features, by domain."""

    grammar: Grammar
    examples: Sequence[Example]
    features: Mapping[Domain, Sequence[Collection[str]]]
    known: Mapping[Domain, Mapping[str, Bounded]]

    @cached_property
    def sets(self) -> NDArray[np.str_]:
        """The set of each example."""
        return np.array([example.source for example in self.examples])

    @cached_property
    def trains(self) -> NDArray[np.bool_]:
        """Whether each example may train."""
        return np.array([example.trains for example in self.examples])

    def labels(self, domain: Domain) -> Floats:
        """Return the label of each example, NaN where its set does not say."""
        return np.array(
            [np.nan if (label := getattr(e, domain)) is None else label for e in self.examples], dtype=float
        )

    @cached_property
    def designs(self) -> Mapping[Domain, Floats]:
        """One row an example, one column a weight."""
        return {domain: _design(self.features[domain], list(known)) for domain, known in self.known.items()}

    def fit(self, domain: Domain, *, without: Collection[str] = ()) -> LinearModel:
        """Return the model, without calibration, of all training sets but those named."""
        labels = self.labels(domain)
        chosen = self.trains & ~np.isnan(labels) & ~np.isin(self.sets, list(without))
        design, known, sets = self.designs[domain][chosen], self.known[domain], self.sets[chosen].tolist()
        weights = balanced_weights(sets, labels[chosen], negatives=_NEGATIVES)
        fitted = fit_map(
            design, labels[chosen], row_weights=weights, known=list(known.values()), strength=_PULL[domain]
        )
        negative = labels[chosen] == 0
        scores = fitted.scores(design)[negative]
        threshold = quantile_threshold(scores, self.sets[chosen][negative].tolist(), rate=_RATE[domain])
        named = {name: round(float(w), 3) for name, w in zip(known, fitted.weights, strict=True)}
        return LinearModel(round(fitted.bias, 3), round(threshold, 3), 1.0, 0.0, named)

    def margins(self, domain: Domain, model: LinearModel) -> Floats:
        """Return how far each example is above the threshold."""
        weights = np.array([model.weights[name] for name in self.known[domain]])
        return np.asarray(self.designs[domain] @ weights + model.bias - model.threshold)

    def left_out_margins(self, domain: Domain) -> Floats:
        """Return the margin of each example by the model that never saw its set."""
        margins = np.full(len(self.examples), np.nan)
        for name in sorted(set(self.sets.tolist())):
            without = LEFT_OUT[domain].get(name, frozenset((name,)))
            mine = self.sets == name
            margins[mine] = self.margins(domain, self.fit(domain, without=without))[mine]
        return margins

    def calibrated(self, domain: Domain, margins: Floats) -> LinearModel:
        """Return the model of all training sets, calibrated on the margins of sets left out.

        The slope is learned, the offset is set: one half stands at the threshold, so that a flag and a probability never
        contradict each other. That is the probability where attacks are as rare as the threshold supposes.
        """
        model, labels = self.fit(domain), self.labels(domain)
        chosen = self.trains & ~np.isnan(labels)
        weights = balanced_weights(self.sets[chosen].tolist(), labels[chosen], negatives=_NEGATIVES)
        slope, _ = platt(margins[chosen], labels[chosen], row_weights=weights)
        return LinearModel(model.bias, model.threshold, round(slope, 3), 0.0, model.weights)


def open_lab(examples: Sequence[Example], *, folder: Path = HERE / "grammar") -> Lab:
    """Return the lab for these examples and the grammar in a folder."""
    grammar = read_grammar(folder)
    pack = compile_pack(make_pack(grammar, _NO_MODEL, _NO_MODEL))
    attack: list[Collection[str]] = []
    harm: list[Collection[str]] = []
    for example in examples:
        normal = normalise(example.text)
        _, seen = next(windows(normal))
        evidence = find_evidence(seen, normal.span(0, len(seen)).of(example.text), pack)
        attack.append(frozenset(attack_features(evidence, pack)))
        harm.append(frozenset(harm_features(evidence, pack)))
    known: dict[Domain, dict[str, Bounded]] = {d: _known(grammar, d) for d in ("attack", "harm")}
    return Lab(grammar, examples, {"attack": attack, "harm": harm}, known)


def make_pack(grammar: Grammar, attack: LinearModel, harm: LinearModel) -> PackFile:
    """Return the pack of a grammar and its two models."""
    groups = {name: tuple(phrases) for name, phrases in grammar.groups.items()}
    return PackFile(PINS, groups, grammar.classes, tuple(grammar.frames), attack, harm)


def _known(grammar: Grammar, domain: Domain) -> dict[str, Bounded]:
    """Return what is known of every weight of a domain."""
    read = tomllib.loads((HERE / "cues.toml").read_text(encoding="utf-8"))
    caps: dict[str, float] = read["caps"]
    known: dict[str, Bounded] = {}
    for name, kind in grammar.classes.items():
        if kind.domain != domain:
            continue
        if kind.family == "benign":
            known[name] = Bounded(kind.prior, None, 0.0)
            continue
        floor = (_STRONG_FLOOR if kind.strong else _FLOOR) * kind.prior
        known[name] = Bounded(kind.prior, floor, caps.get(name))
        known[f"{name}+"] = Bounded(_REPEATED.prior, _REPEATED.lower, caps.get(f"{name}+", _REPEATED.upper))
    for name, bounds in read[domain].items():
        known[f"cue:{name}"] = Bounded(**bounds)
    return known


def _design(features: Sequence[Collection[str]], names: list[str]) -> Floats:
    column = {name: index for index, name in enumerate(names)}
    design = np.zeros((len(features), len(names)))
    for row, found in enumerate(features):
        design[row, [column[name] for name in found]] = 1.0
    return design
