"""The script of the tour: what is said, asked and done, step by step, read from `tour.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

__all__ = ["Action", "Script", "Step", "TourPrompt", "TourQuestion", "packaged_text", "tour_script"]


# Unknown fields are an error in all of these: a misspelt one in `tour.toml` would silently change the tour.
class TourPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One prompt: its kind, its id in the corpus, and what the tour's policy has to decide."""

    kind: str
    corpus: str
    text: str
    decision: Literal["allow", "warn", "deny"]
    model: str = "chat"
    stream: bool = False

    @property
    def session(self) -> str:
        """The session that it belongs to."""
        return f"tour-{self.kind}"


@dataclass(frozen=True, slots=True)
class TourQuestion:
    """A question of the two runs; its id pairs the responses."""

    id: str
    category: str
    text: str


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of `run`, `serve`, `stop`, `call`, `explain`, `note`, `path` and `suggest`, with what belongs to it."""

    run: tuple[str, ...] = ()
    name: str = ""
    quiet: bool = False
    serve: tuple[str, ...] = ()
    stop: str = ""
    call: str = ""
    explain: str = ""
    expected: int = 0
    meaning: str = ""
    note: str = ""
    path: str = ""
    what: str = ""
    suggest: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of the tour: what it is about, and what is done in it."""

    title: str
    why: str
    actions: tuple[Action, ...]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is said and done; the two runs ask the same questions of two models."""

    opening: str
    staying: str
    step: tuple[Step, ...]
    models: dict[str, str]
    talk: tuple[TourPrompt, ...]
    questions: dict[str, tuple[str, ...]]

    def numbered(self) -> tuple[TourQuestion, ...]:
        """Return the questions of the runs with their ids."""
        # Numbered in the order of the file, so that both runs have the same ids and can be paired.
        found = [(category, text) for category, texts in self.questions.items() for text in texts]
        return tuple(TourQuestion(f"q{number:03}", category, text) for number, (category, text) in enumerate(found, 1))


@cache
def tour_script() -> Script:
    """Return what the tour says and does."""
    return msgspec.convert(tomllib.loads(packaged_text("tour.toml")), Script)


def packaged_text(name: str) -> str:
    """Return a file that ships with the tour."""
    return resources.files("demur.cli.tour").joinpath(name).read_text(encoding="utf-8")
