"""The pack as a file: an untrained one to read features with, the trained one to ship."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
from ahocorasick_rs import AhoCorasick

from demur.detect.refusal.pack import CUES, RefusalPack, Zone, parse_refusal_pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur_train.refusals.grammar import Grammar

__all__ = ["pack_bytes", "untrained"]

_DIGITS = 4


def untrained(grammar: Grammar) -> RefusalPack:
    """Return a pack whose weights are all zero: good for reading features."""
    partial = {"bias": 0.0, "features": {}, "bands": [0.0] * 5, "instead_of_refused": 1.0, "instead_of_complied": 1.0}
    return parse_refusal_pack(pack_bytes(grammar, {}, bias=0.0, calibration=(1.0, 0.0), partial=partial, trained_on={}))


def pack_bytes(
    grammar: Grammar,
    weights: Mapping[str, float],
    *,
    bias: float,
    calibration: tuple[float, float],
    partial: dict[str, Any],
    trained_on: dict[str, str],
    sample: Sequence[str] = (),
) -> bytes:
    """Return the JSON of a pack; its screen is chosen to pass few texts like those of the sample."""
    classes = [
        {
            "name": c.name,
            "reason": c.reason,
            "roles": list(c.roles),
            "weights": [round(weights.get(f"{c.name}|{zone.name.lower()}", 0.0), _DIGITS) for zone in Zone],
        }
        for c in grammar.classes
    ]
    cues = {cue: round(weights.get(f"#{cue}", 0.0), _DIGITS) for cue in CUES}
    body = {
        "format": 1,
        "trained_on": trained_on,
        "bias": round(bias, _DIGITS),
        "calibration": [round(value, _DIGITS) for value in calibration],
        "classes": classes,
        "cues": {cue: weight for cue, weight in cues.items() if weight},
        "partial": partial,
        "screen": "\n".join(_screen(grammar, sample)),
        "groups": grammar.groups,
        "frames": sorted(grammar.frames),
        "phrases": _phrases(grammar),
    }
    return msgspec.json.encode(body)


def _screen(grammar: Grammar, sample: Sequence[str]) -> list[str]:
    """Return the screen's phrases without those that contain another of them."""
    ordered = sorted(grammar.screen(sample))
    automaton = AhoCorasick(ordered)
    return [
        phrase
        for phrase in ordered
        if all(ordered[i] == phrase for i, _, _ in automaton.find_matches_as_indexes(phrase, overlapping=True))
    ]


def _phrases(grammar: Grammar) -> list[dict[str, Any]]:
    """Return the phrases by group, language and edges, so that none of these is written twice."""
    keyed = sorted(((e.group, e.lang, e.left + 2 * e.right), e.text) for e in grammar.entries)
    return [
        {"group": group, "lang": lang, "edges": edges, "texts": "\n".join(text for _, text in some)}
        for (group, lang, edges), some in groupby(keyed, key=lambda pair: pair[0])
    ]
