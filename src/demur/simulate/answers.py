"""What does the simulator say where it answers?

Laws: the words are data (`answers.toml`) and never the prompt's own; the same draw gives the same text; each choice of a
response has a draw of its own.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from demur.simulate.dice import Dice

__all__ = ["answer_text"]


class _Answers(msgspec.Struct, frozen=True):
    openings: list[str]
    middles: list[str]
    ends: list[str]


@cache
def _answers() -> _Answers:
    text = resources.files("demur.simulate").joinpath("answers.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Answers)


def answer_text(dice: Dice, choice: int) -> str:
    """Return a plausible answer to a harmless prompt."""
    words = _answers()
    parts = (("opening", words.openings), ("middle", words.middles), ("end", words.ends))
    return " ".join(dice.pick(f"{name} {choice}", part) for name, part in parts)
