"""Which prompts are examples of what?

Laws: `attack` and `harm` are 1, 0, or None where a set does not say; a plain harmful request is a negative for attacks; sets
that may only be measured never train; the same prompt stands in a set once.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from demur_train.data import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur_train.data import Row

__all__ = ["MEASURED", "OWN", "PINS", "Example", "read_examples"]

OWN = "own"
"""The set of harmless prompts written for this project."""
MEASURED = frozenset(("alpaca", "malicious_instruct"))
"""Sets whose licence lets us measure, not train."""
_SHORTEST = 10
_EVERY = 7

PINS = {
    "train/benign_prompts": "e29362ae9432cb67a600f094c2ee7420936082b92f9f36dca1398dfeac8e2b1e",
    "train/chatgpt_refusals": "20b57ff9fc065162f1cd2e4ff15d1f71edd6a5b690dbbdefd819a8650838e718",
    "train/deepset_injections": "72c747908c4560ab50448662f379ee8f76b14a3c908a723a19604ade8b5903de",
    "train/harmful_prompts": "ef3c5296619bfba9268d17226dfb3fbe834042bd8ddbf5f723f91f4fab0a8a39",
    "train/jbb_artifacts": "82ad0b01c2ca618ff60db31725b01a28542c5e751e5c45ea1eee164fdd798ff0",
    "train/notinject": "820c80bfe352243df9aa4261b0617ba305b61cd3d49f66ac8bc418c7e7303ed6",
    "train/openai_moderation": "22857ec077229696a2c85b97e9291dd92d5a112b5fb86c93c90ebde8024379b8",
    "train/wild_jailbreaks": "63fdc9c56faa6e53047c084f8bc3e6a03e0c346305a02040e5479c99af340904",
}
"""The SHA-256 digests of the sets that the pack was trained on."""


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt, the set it is from, and what it is an example of."""

    source: str
    text: str
    attack: int | None
    harm: int | None

    @property
    def trains(self) -> bool:
        """Whether the set's licence lets it train what ships."""
        return self.source not in MEASURED


def read_examples(folder: Path) -> list[Example]:
    """Return every example, set by set."""
    found = [*_attacks(folder), *_harmful(folder), *_benign(folder), *_own()]
    return list(dict.fromkeys(found))


def _attacks(folder: Path) -> Iterator[Example]:
    for row in read_rows(folder, "train/deepset_injections"):
        benign = row.label == "benign"
        yield Example("deepset", _text(row), int(not benign), 0 if benign else None)
    for row in read_rows(folder, "train/wild_jailbreaks"):
        yield Example("wild", _text(row), 1, None)
    for row in read_rows(folder, "train/jbb_artifacts"):
        yield Example(str(row.meta["method"]), _text(row), 1, 1)


def _harmful(folder: Path) -> Iterator[Example]:
    names = {"advbench": "advbench", "xstest_prompts": "xstest", "simplesafetytests": "simple_safety"}
    for row in read_rows(folder, "train/openai_moderation"):
        benign = row.label == "benign"
        yield Example("moderation", _text(row), 0 if benign else None, int(not benign))
    for row in read_rows(folder, "train/harmful_prompts"):
        yield Example(names[row.source], _text(row), 0, int(row.label != "benign"))
    for row in read_rows(folder, "measure/malicious_instruct"):
        yield Example("malicious_instruct", _text(row), 0, 1)


def _benign(folder: Path) -> Iterator[Example]:
    for row in read_rows(folder, "train/notinject"):
        yield Example("notinject", _text(row), 0, 0)
    for row in read_rows(folder, "train/benign_prompts"):
        yield Example("arena", _text(row), 0, 0)
    for row in read_rows(folder, "train/chatgpt_refusals"):
        if len(_text(row)) > _SHORTEST:
            yield Example("refusals", _text(row), 0, 0 if row.label == "compliance" else None)
    for row in read_rows(folder, "measure/benign_prompts"):
        yield Example("alpaca", _text(row), 0, 0)


def _own() -> Iterator[Example]:
    path = Path(__file__).with_name("negatives.toml")
    read: dict[str, list[str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    personas = product(read["openings"], read["roles"], read["tasks"])
    for index, (opening, role, task) in enumerate(personas):
        if index % _EVERY == 0:
            yield Example(OWN, f"{opening} {role}. {task}", 0, 0)
    for text in read["tricky"]:
        yield Example(OWN, text, 0, 0)


def _text(row: Row) -> str:
    return row.prompt or ""
