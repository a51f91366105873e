"""What is said on the tour, and where does what it makes lie?

Laws: what is said is data (`tour.toml`); nothing that was there before is written over.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from demur.errors import UsageError

__all__ = ["TourFolder", "TourPrompt", "TourQuestion", "TourScript", "made_folder", "tour_script"]

_DEFAULT = "demur-tour"
_MOST_TOURS = 1000


class TourPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One prompt: what kind it is, where it stands in the corpus, and what the tour's policy has to decide."""

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
    """A question of the two runs."""

    id: str
    category: str
    text: str


class TourScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is said; the two runs ask the same questions of two models."""

    baseline: str
    candidate: str
    talk: tuple[TourPrompt, ...]
    questions: dict[str, tuple[str, ...]]

    def asked(self) -> tuple[TourQuestion, ...]:
        """Return the questions of the runs, each with an id that pairs them."""
        found = [(category, text) for category, texts in self.questions.items() for text in texts]
        return tuple(TourQuestion(f"q{number:03}", category, text) for number, (category, text) in enumerate(found, 1))


@cache
def tour_script() -> TourScript:
    """Return what is said on the tour."""
    return msgspec.convert(tomllib.loads(_shipped("tour.toml")), TourScript)


def _shipped(name: str) -> str:
    return resources.files("demur.cli.tour").joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class TourFolder:
    """One folder for everything; its parts are named here and nowhere else."""

    root: Path

    @property
    def policy(self) -> Path:
        """The rules of the gateway."""
        return self.root / "policy.cedar"

    @property
    def settings(self) -> Path:
        """The gateway's settings that have no flag."""
        return self.root / "gateway.toml"

    @property
    def log(self) -> Path:
        """The records, their keys and checkpoints."""
        return self.root / "log"

    @property
    def flipped(self) -> Path:
        """The copy of the log in which one bit is another."""
        return self.root / "log-flipped"

    @property
    def records(self) -> Path:
        """The records as JSON lines."""
        return self.root / "records.jsonl"

    @property
    def report(self) -> Path:
        """The page of the diff."""
        return self.root / "report.html"

    @property
    def comparison(self) -> Path:
        """The diff for machines."""
        return self.root / "diff.json"

    def run(self, name: str) -> Path:
        """Return where one of the two runs is recorded."""
        return self.root / f"{name}.jsonl"

    def output(self, name: str) -> Path:
        """Return where what a server says is kept."""
        return self.root / f"{name}.out"


def made_folder(given: str | None) -> TourFolder:
    """Return a folder of our own with the policy and the settings in it; one that holds anything is not touched."""
    root = _free_name() if given is None else Path(given)
    try:
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise UsageError(f"`{root}` is not empty", hint="name another folder with --out, or empty it yourself")
        folder = TourFolder(root)
        folder.policy.write_text(_shipped("policy.cedar"), encoding="utf-8")
        folder.settings.write_text(_shipped("gateway.toml"), encoding="utf-8")
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{root}` cannot be used: {what}", hint="name another folder with --out") from exc
    return folder


def _free_name() -> Path:
    """Return the first name that is free: an earlier tour stays as it was left."""
    names = (_DEFAULT if number == 1 else f"{_DEFAULT}-{number}" for number in range(1, _MOST_TOURS))
    free = next((Path(name) for name in names if not Path(name).exists()), None)
    if free is None:
        raise UsageError(f"`{_DEFAULT}` and {_MOST_TOURS - 2} more are taken", hint="delete some, or give --out")
    return free
