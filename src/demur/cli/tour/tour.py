"""`demur tour`: everything that Demur does, on this machine, in a minute.

The steps are data (`tour.toml`); this module runs them, by commands that it shows. Results that differ from the expected ones are reported.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.cli.options import whole_number
from demur.cli.output import has_colour
from demur.cli.passport.words import print_object
from demur.cli.tour.processes import Processes
from demur.cli.tour.script import packaged_text, tour_script
from demur.errors import UsageError
from demur.report.columns import columns, padded, printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demur.cli.tour.client import Completion, FlippedBit, TourRecord
    from demur.cli.tour.processes import Server
    from demur.cli.tour.script import Action

__all__ = ["TourScreen", "add_parser", "make_folder"]

_EXAMPLES = """\
examples:
  demur tour                     into demur-tour/, or demur-tour-2/, …
  demur tour --out first-look    into a folder of your own, new or empty
  demur tour --stay              and look around in the dashboard afterwards
  demur tour --json              what came of it, for machines

A simulated model and a gateway are started on free ports of this machine, asked
by OpenAI's own client, and ended again. Nothing leaves the machine, no key is
needed, and only the folder is written to. docs/tour.md explains every step.

exit codes: 0 everything came out as it should, 1 something did not, 2 it could
not be done, 130 interrupted
"""
# All that the tour's commands import at some point: a package that is missing must not end it half-way.
_NEEDED = ("openai", "cedarpy", "cryptography", "httptools", "uvicorn", "yaml")
_PORTS = 65_536
_DEFAULT_FOLDER = "demur-tour"
# Enough for anybody, and an end to the search where every name is taken.
_MAX_TOURS = 1000
_WIDTH = 80
_REFRESH_S = 0.1
_RESET, _BOLD, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
_WORD_COLOURS = {
    "deny": "\x1b[1;31m",
    "refused": "\x1b[1;31m",
    "filtered": "\x1b[1;35m",
    "warn": "\x1b[1;33m",
    "partial": "\x1b[1;33m",
    "allow": "\x1b[1;32m",
    "complied": "\x1b[1;32m",
}
# How each server says its address, in its last line before it serves.
_ADDRESSES = {"simulate": r"^simulating at (\S+)", "gateway": r"^gateway at (\S+)"}
_HEADS = ("kind", "prompt", "verdict", "decision", "rules", "record")
_WIDTHS = (9, 21, 9, 8, 17, 6)


def make_folder(given: str | None) -> dict[str, Path]:
    """Make a folder with the policy and the settings in it, and return what lies where; one that holds anything is not touched."""
    # Without a name the first free one is taken: an earlier tour stays as it was left.
    names = [_DEFAULT_FOLDER, *(f"{_DEFAULT_FOLDER}-{number}" for number in range(2, _MAX_TOURS))]
    root = Path(given) if given is not None else next((Path(n) for n in names if not Path(n).exists()), None)
    if root is None:
        raise UsageError(f"`{_DEFAULT_FOLDER}` and {_MAX_TOURS - 2} more are taken", hint="delete some, or give --out")
    paths = {
        "report": root / "report.html",
        "comparison": root / "diff.json",
        "baseline": root / "baseline.jsonl",
        "candidate": root / "candidate.jsonl",
        "log": root / "log",
        "flipped": root / "log-flipped",
        "records": root / "records.jsonl",
        "policy": root / "policy.cedar",
        "settings": root / "gateway.toml",
        "gateway_output": root / "gateway.out",
        "simulator_output": root / "simulate.out",
    }
    try:
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise UsageError(f"`{root}` is not empty", hint="name another folder with --out, or empty it yourself")
        for name in ("policy", "settings"):
            paths[name].write_text(packaged_text(paths[name].name), encoding="utf-8")
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{root}` cannot be used: {what}", hint="name another folder with --out") from exc
    return paths


# --- the screen ---


class TourScreen:
    """Prints the tour in 80 columns; a quiet one prints nothing but the waiting line of a terminal."""

    def __init__(self, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.quiet = quiet
        self._clock = clock
        self._colour = has_colour()
        # Waiting lines go to a terminal only: in a file or a CI log their control codes would be litter.
        self._waits = sys.stderr is not None and sys.stderr.isatty()
        self._since = self._last = 0.0
        self._is_waiting = False
        self._what = ""
        self._is_blank = True

    def title(self, text: str) -> None:
        """Begin a step."""
        self._gap()
        self._print(self._in(_BOLD, text))

    def note(self, text: str) -> None:
        """Print a paragraph."""
        self._gap()
        self.text(" ".join(text.split()))
        self._gap()

    def _gap(self) -> None:
        if not self._is_blank:
            self._print("")

    def command(self, words: Sequence[str], *, after: str = "") -> None:
        """Show a command as a reader would type it, over several lines where it is long; `after` is for the shell."""
        lines, line = [], "$"
        for word in [*map(shlex.quote, words), *([after] if after else [])]:
            if columns(line) + 1 + columns(word) > _WIDTH - 2:
                lines.append(f"{line} \\")
                line = "   "
            line = f"{line} {word}"
        for each in [*lines, line]:
            self._print(self._in(_BOLD, each))

    def text(self, text: str) -> None:
        """Print lines as they are, those that are too long over several."""
        for line in text.splitlines():
            for piece in [line] if columns(line) <= _WIDTH else wrapped(line, _WIDTH):
                self._print(piece)

    def others_printed(self) -> None:
        """Take note that a command has printed something, of which we know nothing."""
        self._is_blank = False

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
        """Print rows under their heads; what does not fit is shortened and says so."""
        self._gap()
        for number, row in enumerate((heads, *rows)):
            cells = []
            for cell, width in zip(row, widths, strict=True):
                fitted = padded(printable(cell, most=width), width)
                cells.append(self._in(_WORD_COLOURS[cell], fitted) if number and cell in _WORD_COLOURS else fitted)
            line = "  ".join(cells).rstrip()
            self._print(line if number else self._in(_DIM, line))

    def loading(self, what: str) -> None:
        """Say on a terminal what is done next, where nothing can be said while it is done."""
        if self._waits:
            self._is_waiting = True
            print(f"\r  {what} …\x1b[K", end="", file=sys.stderr, flush=True)

    def waiting(self, what: str, reached: str = "") -> None:
        """Say on a terminal what is waited for, how far it is and how long already, from a second on."""
        now = self._clock()
        if what != self._what:
            self._since, self._what = now, what
        if self._waits and now - self._since >= 1 and now - self._last >= _REFRESH_S:
            self._last, self._is_waiting = now, True
            print(f"\r  {what}{reached} … {now - self._since:.0f} s\x1b[K", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        """Take the waiting line away."""
        if self._is_waiting:
            self._is_waiting = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _in(self, style: str, text: str) -> str:
        return f"{style}{text}{_RESET}" if self._colour else text

    def _print(self, line: str) -> None:
        if not self.quiet:
            self.done()
            self._is_blank = not line
            print(line, flush=True)


# --- the run ---


@dataclass
class _Tour:
    """One tour: runs the actions of the script, and keeps what came of them for the texts and for the result."""

    screen: TourScreen
    paths: dict[str, Path]
    processes: Processes
    port: int
    began: float
    completions: list[Completion] = field(default_factory=list)
    records: list[TourRecord] = field(default_factory=list)
    servers: dict[str, Server] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    bit: FlippedBit | None = None

    def walk(self) -> None:
        script = tour_script()
        self.screen.note(self._filled(script.opening))
        for step in script.step:
            self.screen.title(self._filled(step.title))
            self.screen.note(self._filled(step.why))
            for action in step.actions:
                self._act(action)
        # The script knows what should come out, so that a tour which shows something else does not pass for a good one.
        for sentence in self.unexpected():
            self.screen.note(f"NOT AS IT SHOULD BE: {sentence}")

    def _filled(self, text: str) -> str:
        """Return a text of the script with everything filled in that is known by now."""
        known: dict[str, object] = {
            **self.paths,
            **{name: server.url for name, server in self.servers.items()},
            **self.refusals,
            "root": self.paths["report"].parent,
            "port": self.port,
            "prompts": len(tour_script().talk),
            "questions": len(tour_script().numbered()),
            "seconds": f"{time.monotonic() - self.began:.0f}",
            "where_demur_is": "" if shutil.which("demur") else f" (here `demur` is {Path(sys.argv[0])})",
        }
        known |= {f"{name}_model": model for name, model in tour_script().models.items()}
        if self.records:
            denied = [record for record in self.records if record.decision == "deny"]
            known |= {"denied": len(denied), "attack": denied[0].index if denied else "?"}
        if self.bit is not None:
            known |= {"at_byte": f"{self.bit.at_byte:,}", "before": self.bit.before, "after": self.bit.after}
        return text.format(**known)

    def _act(self, action: Action) -> None:
        run, serve, suggest = (
            [self._filled(word) for word in words] for words in (action.run, action.serve, action.suggest)
        )
        if run:
            # Whatever Demur does is done by a command that is shown, so that a reader can type the same.
            self.screen.command(["demur", *run], after="> /dev/null" if action.quiet else "")
            code = self.processes.call(run, quiet=self.screen.quiet or action.quiet)
            if not action.quiet:
                self.screen.others_printed()
            self.codes |= {action.name: code} if action.name else {}
        elif serve:
            self.serve(serve)
        elif action.stop:
            server = self.servers[action.stop]
            self.screen.command(["kill", str(server.process.pid)])
            self.processes.stop(server)
        elif action.call:
            calls: dict[str, Callable[[], None]] = {
                "ask_prompts": self._ask_prompts,
                "show_decisions": self._show_decisions,
                "record_runs": self._record_runs,
                "read_comparison": self._read_comparison,
                "flip_bit": self._flip_bit,
            }
            calls[action.call]()
        elif action.explain:
            code = self.codes[action.explain]
            meaning = (
                self._filled(action.meaning) if code == action.expected else "this is not what should have come out"
            )
            self.screen.note(f"exit code {code}: {meaning}")
        elif action.path:
            width = len(str(self.paths["candidate"]))
            self.screen.text(f"  {self._filled(action.path):<{width}}  {action.what}")
        elif suggest:
            self.screen.command(["demur", *suggest])
        else:
            self.screen.note(self._filled(action.note))

    def serve(self, words: Sequence[str]) -> None:
        """Show a server's command, start it, and show where it is."""
        name = words[0]
        self.screen.command(["demur", *words], after="&")
        output = self.paths["simulator_output" if name == "simulate" else f"{name}_output"]
        self.servers[name] = server = self.processes.serve(words, output, address=_ADDRESSES[name])
        # Ctrl-C would end the whole tour; the dashboard's address would be dead as soon as the tour ends its gateway.
        lines = [line for line in server.said.splitlines() if not line.startswith("dashboard at ")]
        self.screen.text("\n".join(line.removesuffix("; stop with Ctrl-C") for line in lines))

    def stay(self) -> None:
        """Start the gateway again, and say where it and its dashboard are."""
        (words,) = (a.serve for step in tour_script().step for a in step.actions if a.serve[:1] == ("gateway",))
        self.serve([self._filled(word) for word in words])
        self.screen.note(f"dashboard at {self.servers['gateway'].dashboard}")
        self.screen.note(self._filled(tour_script().staying))

    def _ask_prompts(self) -> None:
        from demur.cli.tour.client import TourClient

        prompts = tour_script().talk
        with TourClient(self.servers["gateway"].url, self.processes) as client:
            for number, prompt in enumerate(prompts):
                self.screen.waiting("asking", f" {number} of {len(prompts)}")
                self.completions.append(client.say(prompt))

    def _show_decisions(self) -> None:
        from demur.cli.tour.client import exported_records

        by_passport = exported_records(self.paths["records"])
        self.records = [by_passport[completion.passport] for completion in self.completions]
        most = _WIDTHS[1]
        rows = []
        for prompt, record in zip(tour_script().talk, self.records, strict=True):
            begin = prompt.text if len(prompt.text) <= most else prompt.text[: most - 1] + "…"
            rules = ", ".join(record.rules)
            rows.append((prompt.kind, begin, record.verdict, record.decision, rules, str(record.index)))
        self.screen.table(_HEADS, rows, _WIDTHS)

    def _record_runs(self) -> None:
        from demur.cli.tour.client import TourClient

        questions = tour_script().numbered()
        with TourClient(self.servers["gateway"].url, self.processes) as client:
            for name, model in tour_script().models.items():

                def reached(number: int, name: str = name) -> None:
                    self.screen.waiting(f"asking the {name}", f" {number} of {len(questions)}")

                self.refusals[f"{name}_truth"] = client.record(questions, model, self.paths[name], reached=reached)

    def _read_comparison(self) -> None:
        found = msgspec.json.decode(self.paths["comparison"].read_bytes(), type=_Comparison)
        # What the simulator says it did is known from its headers; the diff has seen the texts alone.
        self.refusals |= {"baseline_found": found.baseline.count, "candidate_found": found.candidate.count}

    def _flip_bit(self) -> None:
        from demur.cli.tour.client import copy_with_flipped_bit

        # A denied attack has the score that the flipped bit lowers: the record one would most like to change.
        attack = next(record for record in self.records if record.decision == "deny")
        self.bit = copy_with_flipped_bit(self.paths["log"], self.paths["flipped"], attack)

    def unexpected(self) -> tuple[str, ...]:
        """Return what did not come out as it should, a sentence each."""
        judged = zip(tour_script().talk, self.records, strict=True)
        wrong = [
            f"`{prompt.corpus}` should be decided as {prompt.decision}, and was as {record.decision}"
            for prompt, record in judged
            if prompt.decision != record.decision
        ]
        diff, whole, flipped = (self.codes[name] for name in ("diff", "verify", "verify_flipped"))
        if diff != 1:
            wrong.append(f"the diff should end with 1, and did with {diff}")
        if (whole, flipped) != (0, 1):
            wrong.append(f"verifying should end with 0, and with 1 for the copy, and did with {whole} and {flipped}")
        return tuple(wrong)

    def as_object(self, *, seconds: float, stays: bool) -> dict[str, object]:
        """Return what came of the tour, for machines; the addresses are there while the servers stay."""
        gateway = self.servers["gateway"] if stays else None
        judged = zip(tour_script().talk, self.completions, self.records, strict=True)
        return {
            "ok": not self.unexpected(),
            "unexpected": self.unexpected(),
            "seconds": round(seconds, 1),
            "folder": str(self.paths["report"].parent),
            "paths": {name: str(path) for name, path in self.paths.items()},
            "exchanges": [
                {
                    "kind": prompt.kind,
                    "corpus": prompt.corpus,
                    "prompt": prompt.text,
                    "model": prompt.model,
                    "streamed": prompt.stream,
                    "session": prompt.session,
                    "status": completion.status,
                    "verdict": record.verdict,
                    "decision": record.decision,
                    "expected": prompt.decision,
                    "rules": record.rules,
                    "record": record.index,
                    "passport": completion.passport,
                }
                for prompt, completion, record in judged
            ],
            "diff": {
                "exit_code": self.codes["diff"],
                "pairs": len(tour_script().numbered()),
                **{
                    name: {"refused": self.refusals[f"{name}_found"], "truth": self.refusals[f"{name}_truth"]}
                    for name in ("baseline", "candidate")
                },
            },
            "passports": {
                "exit_code": self.codes["verify"],
                "flipped": msgspec.to_builtins(self.bit) | {"exit_code": self.codes["verify_flipped"]},
            },
            "gateway": gateway and gateway.url,
            "dashboard": gateway and gateway.dashboard,
        }


class _Rate(msgspec.Struct):
    count: int


class _Comparison(msgspec.Struct):
    baseline: _Rate
    candidate: _Rate


# --- the command ---


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "tour",
        help="all of it on this machine in a minute",
        description="Shows what Demur does: a model that refuses, a gateway that decides and records,\na diff with its gate, and a record that does not survive one flipped bit.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("--out", metavar="DIR", help="a new or empty folder for everything (demur-tour)")
    command.add_argument("--stay", action="store_true", help="leave gateway and dashboard up until Ctrl-C")
    command.add_argument("--port", metavar="N", type=whole_number, default=0, help="the gateway's port (any free one)")
    command.add_argument("--json", action="store_true", help="print one JSON object in place of the tour")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    if args.port >= _PORTS:
        raise UsageError(f"`{args.port}` is no port", hint="give one below 65536, or none for any free one")
    screen = TourScreen(quiet=args.json)
    try:
        _load_extras(screen)
        paths = make_folder(args.out)
        try:
            return _walk_through(screen, paths, args)
        # `Processes` has ended everything by now; what was written stays for the reader to look at.
        except (KeyboardInterrupt, SystemExit):
            screen.done()
            root = paths["report"].parent
            print(f"demur: stopped; nothing runs on, and `{root}` stays as far as it came", file=sys.stderr)
            raise
    finally:
        screen.done()


def _load_extras(screen: TourScreen) -> None:
    """Load what the extra brings, or raise, before anything is made."""
    screen.loading("loading OpenAI's client")
    missing = next((name for name in _NEEDED if find_spec(name) is None), None)
    if missing is None:
        try:
            import_module("demur.cli.tour.client")
        except ModuleNotFoundError as exc:
            missing = exc.name
    if missing is not None:
        raise UsageError(f"the tour needs `{missing}`", hint="pip install 'demur[tour]'")


def _walk_through(screen: TourScreen, paths: dict[str, Path], args: argparse.Namespace) -> int:
    with Processes(screen.waiting) as processes:
        tour = _Tour(screen, paths, processes, args.port, time.monotonic())
        tour.walk()
        # Taken before the servers stay: how long somebody looks around is not part of the tour.
        seconds = time.monotonic() - tour.began
        if args.stay:
            tour.stay()
        if args.json:
            print_object(tour.as_object(seconds=seconds, stays=args.stay))
        if args.stay:
            sys.stdout.flush()
            # Somebody says that it is enough: a good end.
            with suppress(KeyboardInterrupt, SystemExit):
                processes.wait()
        return 1 if tour.unexpected() else 0
