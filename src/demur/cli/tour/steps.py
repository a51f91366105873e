"""What happens at each step of the tour? One function a step; each says what it does, does it by a command, and returns what came of it.

Laws: whatever is done by Demur is done by a command that is shown, so that a reader can do the same; what should come out is known
beforehand, and what did not is returned, never passed over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from demur.cli.tour.records import copy_with_flipped_bit, exported_records
from demur.cli.tour.script import tour_script
from demur.cli.tour.talk import TourClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.cli.tour.processes import Processes, ServedAt
    from demur.cli.tour.records import Flipped, TourRecord
    from demur.cli.tour.screen import TourScreen
    from demur.cli.tour.script import TourFolder, TourPrompt
    from demur.cli.tour.talk import Heard

__all__ = ["Checked", "Compared", "Said", "Stage", "check_passports", "compare_runs", "start", "start_gateway", "talk"]

_SERVERS = {"simulate": r"^simulating at (\S+)", "gateway": r"^gateway at (\S+)"}
"""How each says its address, in its last line before it serves."""
_HEAD = ("kind", "prompt", "verdict", "decision", "rules", "record")
_WIDTHS = (9, 21, 9, 8, 17, 6)


@dataclass(frozen=True, slots=True)
class Stage:
    """What every step needs: where to show, where to write, and the books of processes."""

    screen: TourScreen
    folder: TourFolder
    processes: Processes

    def call(self, *words: str, unseen: bool = False) -> int:
        """Show a command, run it, and return its exit code; one that is unseen writes files and prints into nothing."""
        self.screen.command(words, after="> /dev/null" if unseen else "")
        code = self.processes.call(words, quiet=self.screen.quiet or unseen)
        if not unseen:
            self.screen.others_printed()
        return code

    def serve(self, *words: str) -> ServedAt:
        """Show a server's command, start it, and show where it is."""
        self.screen.command(words, after="&")
        server = self.processes.serve(words, self.folder.output(words[0]), address=_SERVERS[words[0]])
        self.screen.text(_where_it_is(server.said))
        return server


@dataclass(frozen=True, slots=True)
class Said:
    """A prompt, what came back and what stands on record about it."""

    prompt: TourPrompt
    heard: Heard
    record: TourRecord

    @property
    def as_expected(self) -> bool:
        """Whether the policy decided what it should."""
        return self.record.decision == self.prompt.decision


@dataclass(frozen=True, slots=True)
class Compared:
    """How the diff ended, and how many each run refused: by the detector, and by the simulator's own word."""

    exit_code: int
    pairs: int
    found: tuple[int, int]
    truth: tuple[int, int]

    @property
    def as_expected(self) -> bool:
        """Whether the gate failed, as it has to."""
        return self.exit_code == 1


@dataclass(frozen=True, slots=True)
class Checked:
    """How the log verified, as it is and with one bit flipped."""

    exit_code: int
    flipped: Flipped
    flipped_exit_code: int

    @property
    def as_expected(self) -> bool:
        """Whether the log holds and the copy does not."""
        return (self.exit_code, self.flipped_exit_code) == (0, 1)


def _where_it_is(said: str) -> str:
    """Return what a server says at its start, without what is true only of one that a reader has started."""
    # Ctrl-C would end the whole tour; the dashboard's address would be dead as soon as the tour ends its gateway.
    lines = [line for line in said.splitlines() if not line.startswith("dashboard at ")]
    return "\n".join(line.removesuffix("; stop with Ctrl-C") for line in lines)


def start(stage: Stage, *, port: int) -> tuple[ServedAt, ServedAt]:
    """Start the model and the gateway; return both."""
    stage.screen.heading(
        "1. A model that says no, and a gateway in front of it",
        "The simulator stands in for a provider: no key, no network, and we know what it did. The gateway stands where "
        "an application would call the provider; it decides by policy and signs a record of every exchange.",
    )
    stage.call("policy", "check", str(stage.folder.policy))
    simulator = stage.serve("simulate", "--port", "0", "--config", str(stage.folder.settings))
    return simulator, start_gateway(stage, simulator, port=port)


def start_gateway(stage: Stage, simulator: ServedAt, *, port: int) -> ServedAt:
    """Start the gateway in front of the simulator."""
    folder = stage.folder
    where = ("--upstream", simulator.url, "--port", str(port))
    files = ("--policy", str(folder.policy), "--store", str(folder.log), "--config", str(folder.settings))
    return stage.serve("gateway", *where, *files)


def talk(stage: Stage, gateway: ServedAt) -> tuple[Said, ...]:
    """Send prompts of every kind, and show what became of each."""
    prompts = tour_script().talk
    stage.screen.heading(
        "2. What was asked, what came back, what was decided",
        f"{len(prompts)} prompts by OpenAI's own Python client, of which only the base URL is changed: "
        f'openai.OpenAI(base_url="{gateway.url}/v1", api_key="none")',
    )
    heard: list[Heard] = []
    with TourClient(gateway.url, stage.processes) as client:
        for prompt in prompts:
            stage.screen.waiting("asking", f" {len(heard)} of {len(prompts)}")
            heard.append(client.say(prompt))
    stage.call("passport", "export", str(stage.folder.log), "--out", str(stage.folder.records))
    records = exported_records(stage.folder.records)
    said = tuple(Said(p, h, records[h.passport]) for p, h in zip(prompts, heard, strict=True))
    stage.screen.gap()
    stage.screen.table(_HEAD, [_table_row(each) for each in said], _WIDTHS)
    counts = Counter(each.record.decision for each in said)
    stage.screen.gap()
    stage.screen.note(
        f"{counts['deny']} of {len(said)} were denied and never reached the model, disguised ones among them; the harmless "
        "base64 passed. Where the model itself declined, in whatever shape, the policy warns. `record` is the place in the "
        "signed log."
    )
    return said


def _table_row(said: Said) -> Sequence[str]:
    prompt, record = said.prompt, said.record
    most = _WIDTHS[1]
    begun = prompt.text if len(prompt.text) <= most else prompt.text[: most - 1] + "…"
    return (prompt.kind, begun, record.verdict, record.decision, ", ".join(record.rules), str(record.index))


def compare_runs(stage: Stage, gateway: ServedAt) -> Compared:
    """Ask two models the same questions, and show whether the second refuses more."""
    script, questions = tour_script(), tour_script().asked()
    stage.screen.heading(
        f"3. Did it change? {len(questions)} harmless questions to two models",
        f"{script.baseline} refuses one harmless question in a hundred, {script.candidate} one in eight: that is the truth, and "
        "the diff has to find it from the answers alone. This is what would gate a pull request.",
    )
    truth = {}
    with TourClient(gateway.url, stage.processes) as client:
        for name, model in (("baseline", script.baseline), ("candidate", script.candidate)):

            def reached(number: int, name: str = name) -> None:
                stage.screen.waiting(f"asking the {name}", f" {number} of {len(questions)}")

            truth[name] = client.record(questions, model, stage.folder.run(name), reached=reached)
    runs = [str(stage.folder.run(name)) for name in truth]
    code = stage.call("diff", *runs, "--show", "1", "--json", str(stage.folder.comparison))
    told = truth["baseline"], truth["candidate"]
    compared = Compared(code, len(questions), _found_in(stage.folder), told)
    stage.screen.exit_code(
        code,
        f"the gate failed, and a pull request would wait for a person. The simulator's own word is {told[0]} and {told[1]} "
        f"refusals; the diff found {compared.found[0]} and {compared.found[1]}.",
        as_expected=compared.as_expected,
    )
    stage.screen.note("The same as a page for the browser, with every flipped exchange side by side:")
    stage.call("diff", *runs, "--show", str(len(questions)), "--html", str(stage.folder.report), unseen=True)
    return compared


class _Rate(msgspec.Struct):
    count: int


class _Comparison(msgspec.Struct):
    baseline: _Rate
    candidate: _Rate


def _found_in(folder: TourFolder) -> tuple[int, int]:
    """Return how many refusals the diff found in each run."""
    read = msgspec.json.decode(folder.comparison.read_bytes(), type=_Comparison)
    return read.baseline.count, read.candidate.count


def check_passports(stage: Stage, gateway: ServedAt, said: Sequence[Said]) -> Checked:
    """End the gateway, verify its log, and verify a copy in which one bit is another."""
    folder, screen = stage.folder, stage.screen
    screen.heading(
        "4. Can it be proven? One flipped bit",
        "Every record is signed and a leaf of a tree. A gateway that ends signs the tree as well, so we end it first; "
        "then anybody with the public key can check the log, without asking the one who wrote it.",
    )
    screen.typed(["kill", str(gateway.process.pid)])
    stage.processes.stop(gateway)
    policy = ("--policy", str(folder.policy))
    code = stage.call("passport", "verify", str(folder.log), *policy)
    attack = next(each for each in said if each.record.decision == "deny")
    screen.gap()
    screen.note(
        f"What the record of the first denied attack says, number {attack.record.index}; its text is not in it:"
    )
    stage.call("passport", "show", str(folder.log), str(attack.record.index))
    flipped = copy_with_flipped_bit(folder.log, folder.flipped, attack.record)
    screen.gap()
    screen.note(
        f"Now somebody would like that attack to have looked harmless. In a copy of the log, {folder.flipped}, one bit is "
        f"flipped: byte {flipped.at_byte:,} of log.db was a 9 and is a 1, so the score {flipped.before} reads {flipped.after}."
    )
    flipped_code = stage.call("passport", "verify", str(folder.flipped), *policy)
    checked = Checked(code, flipped, flipped_code)
    screen.exit_code(
        flipped_code,
        f"the copy does not hold, and record {flipped.record} is the first that is named.",
        as_expected=checked.as_expected,
    )
    return checked
