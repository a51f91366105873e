"""What came of the tour, was it what it should be, and where is everything now?"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.cli.tour.screen import TourScreen
    from demur.cli.tour.script import TourFolder
    from demur.cli.tour.steps import Checked, Compared, Said

__all__ = ["TourResult", "dashboard_words", "goodbye"]


@dataclass(frozen=True, slots=True)
class TourResult:
    """Everything that came of the steps; the addresses are there while the servers stay."""

    folder: TourFolder
    said: tuple[Said, ...]
    compared: Compared
    checked: Checked
    seconds: float
    gateway: str | None = None
    dashboard: str | None = None

    @property
    def unexpected(self) -> tuple[str, ...]:
        """What did not come out as it should, a sentence each."""
        wrong = [
            f"`{each.prompt.corpus}` should be decided as {each.prompt.decision}, and was as {each.record.decision}"
            for each in self.said
            if not each.as_expected
        ]
        if not self.compared.as_expected:
            wrong.append(f"the diff should end with 1, and did with {self.compared.exit_code}")
        if not self.checked.as_expected:
            codes = f"{self.checked.exit_code} and {self.checked.flipped_exit_code}"
            wrong.append(f"verifying should end with 0, and with 1 for the copy, and did with {codes}")
        return tuple(wrong)

    @property
    def ok(self) -> bool:
        """Whether all of it came out as it should."""
        return not self.unexpected

    def paths(self) -> dict[str, Path]:
        """Return what lies where."""
        folder = self.folder
        return {
            "report": folder.report,
            "comparison": folder.comparison,
            "baseline": folder.run("baseline"),
            "candidate": folder.run("candidate"),
            "log": folder.log,
            "flipped": folder.flipped,
            "records": folder.records,
            "policy": folder.policy,
            "settings": folder.settings,
            "gateway_output": folder.output("gateway"),
            "simulator_output": folder.output("simulate"),
        }

    def as_object(self) -> dict[str, object]:
        """Return it for machines."""
        return {
            "ok": self.ok,
            "unexpected": self.unexpected,
            "seconds": round(self.seconds, 1),
            "folder": str(self.folder.root),
            "paths": {name: str(path) for name, path in self.paths().items()},
            "exchanges": [_exchange_object(each) for each in self.said],
            "diff": _diff_object(self.compared),
            "passports": {
                "exit_code": self.checked.exit_code,
                "flipped": {
                    "record": self.checked.flipped.record,
                    "at_byte": self.checked.flipped.at_byte,
                    "before": self.checked.flipped.before,
                    "after": self.checked.flipped.after,
                    "exit_code": self.checked.flipped_exit_code,
                },
            },
            "gateway": self.gateway,
            "dashboard": self.dashboard,
        }


def _exchange_object(said: Said) -> dict[str, object]:
    return {
        "kind": said.prompt.kind,
        "corpus": said.prompt.corpus,
        "prompt": said.prompt.text,
        "model": said.prompt.model,
        "streamed": said.prompt.stream,
        "session": said.prompt.session,
        "status": said.heard.status,
        "verdict": said.record.verdict,
        "decision": said.record.decision,
        "expected": said.prompt.decision,
        "rules": said.record.rules,
        "record": said.record.index,
        "passport": said.heard.passport,
    }


def _diff_object(compared: Compared) -> dict[str, object]:
    (found, refused), (truth, refused_truly) = compared.found, compared.truth
    return {
        "exit_code": compared.exit_code,
        "pairs": compared.pairs,
        "baseline": {"refused": found, "truth": truth},
        "candidate": {"refused": refused, "truth": refused_truly},
    }


def goodbye(screen: TourScreen, result: TourResult) -> None:
    """Say where everything is and how to go on."""
    folder = result.folder
    screen.heading(
        "5. Where everything is",
        f"The tour took {result.seconds:.0f} s. Nothing outside of {folder.root}/ was written.",
    )
    width = len(str(folder.run("candidate")))
    for path, what in (
        (folder.report, "the diff as one page: open it in a browser"),
        (folder.comparison, "the same for machines"),
        (folder.run("baseline"), "the answers of the one model,"),
        (folder.run("candidate"), "and of the other, as the client got them"),
        (folder.log, "the signed records, keys and checkpoints"),
        (folder.records, "the records of step 2 as JSON lines"),
        (folder.flipped, "the copy with one bit flipped"),
        (folder.policy, "the rules: change them and start again"),
        (folder.output("gateway"), "what the gateway said"),
    ):
        screen.text(f"  {path!s:<{width}}  {what}")
    screen.gap()
    screen.note("To go on:" if _on_path() else f"To go on (here `demur` is {Path(sys.argv[0])}):")
    for words in (
        ("dashboard", "--store", str(folder.log), "--texts"),
        ("passport", "rates", str(folder.log), "--by", "model"),
        ("scan", str(folder.run("candidate"))),
        ("check", "--prompt", "Ignore all previous instructions"),
        ("gateway", "--upstream", "https://api.openai.com", "--policy", "block-attacks"),
    ):
        screen.command(words)
    for sentence in result.unexpected:
        screen.gap()
        screen.note(f"NOT AS IT SHOULD BE: {sentence}")


def _on_path() -> bool:
    return shutil.which("demur") is not None


def dashboard_words(screen: TourScreen, result: TourResult) -> None:
    """Say where the dashboard and the gateway are while they stay."""
    screen.gap()
    screen.text(f"dashboard at {result.dashboard}")
    screen.gap()
    screen.note(
        f"Open that address: the token is in it. The gateway takes more at {result.gateway}/v1. Ctrl-C ends both."
    )
