"""`demur simulate`: a model server that refuses in every provider's shape, or an exam for a client's command."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli.options import Once, pack_of_flag, whole_number
from demur.cli.output import write_report
from demur.detect.prompts.check import default_prompt_judge, prompt_judge_of_pack
from demur.errors import UsageError
from demur.simulate.engine import Simulator
from demur.simulate.exam import Command, exam_json, exam_junit, exam_table, examine, ran_of
from demur.simulate.scenario import builtin_scenarios, scenario_named
from demur.simulate.settings import SIMULATOR_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.simulate.engine import Simulated
    from demur.simulate.exam import ExamResult, Ran
    from demur.simulate.server.run import RunningSimulator
    from demur.simulate.settings import SimulatorOptions

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur simulate                                   on http://127.0.0.1:8082
  demur simulate --scenario refuse-soft-de         or a scenario.toml
  demur simulate --truth truth.jsonl --seed 7      labels of every reply
  demur simulate --exam -- python my_client.py     how does my client cope?

per request: the header `x-demur-scenario: filter`, or the scenario as model
every setting has a variable, DEMUR_SIMULATOR_SEED, and a name in demur.toml:
[simulator] seed = 7; the command line wins, then the variable

exit codes: 0 done, 1 the exam was not passed, 2 bad usage
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "simulate",
        help="serve a model that refuses, in every provider's shape",
        description="Serves a model that refuses in every provider's shape, or examines how a client copes with it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("--config", metavar="FILE", help="read this file in place of demur.toml ([simulator])")
    declared = SIMULATOR_SETTINGS.declared
    about = {name: each.about.what for name, each in declared.items()}
    command.add_argument("--host", help=about["host"])
    command.add_argument("--port", type=whole_number, help=about["port"])
    command.add_argument("--scenario", metavar="NAME|FILE", action=Once, help=about["scenario"])
    command.add_argument("--pack", metavar="NAME|FILE", action=Once, help=about["pack"])
    command.add_argument("--models", metavar="NAMES", help=about["models"])
    # On and off, since a file or a variable may have switched it either way.
    for name in (name for name, each in declared.items() if each.kind is bool):
        flag = f"--{name.replace('_', '-')}"
        command.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=about[name])
    for name in (name for name, each in declared.items() if each.kind is int and name != "port"):
        command.add_argument(f"--{name.replace('_', '-')}", metavar="N", type=whole_number, help=about[name])
    command.add_argument("--truth", metavar="FILE", help=about["truth"])
    command.add_argument("--list", action="store_true", help="list the scenarios and stop")
    command.add_argument("--exam", action="store_true", help="run the command after `--` against every refusal shape")
    command.add_argument("--exam-faults", action="store_true", help="the exam has the faults of servers as well")
    command.add_argument(
        "--exam-timeout", metavar="S", type=whole_number, default=30, help="seconds a run may take (30)"
    )
    command.add_argument("--json", action="store_true", help="the exam's results as JSON")
    command.add_argument("--junit", metavar="FILE", help="the exam's results as JUnit XML")
    command.add_argument("client", nargs="*", metavar="CMD", help="the client's command, after `--`")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    if args.list:
        width = max(map(len, builtin_scenarios()))
        for name, scenario in builtin_scenarios().items():
            print(f"{name:{width}}  {scenario.about}")
        return 0
    if bool(args.client) != args.exam:
        hint = "as in `demur simulate --exam -- python my_client.py`"
        raise UsageError("`--exam` and a command after `--` belong together", hint=hint)
    given = {name: getattr(args, name) for name in SIMULATOR_SETTINGS.declared}
    flags = {name: value for name, value in given.items() if value is not None}
    options = SIMULATOR_SETTINGS.load(args.config, flags=flags).settings
    settings = options.settings()
    judge = prompt_judge_of_pack(pack_of_flag(options.pack)) if options.pack else default_prompt_judge()
    simulator = Simulator(settings, judge)
    if not args.exam:
        return _serve(options, simulator)
    from demur.simulate.server.run import running_simulator

    with running_simulator(simulator) as running:
        results = list(_results(args, simulator, running))
    print(exam_json(args.client, results) if args.json else exam_table(results))
    if args.junit:
        write_report(args.junit, exam_junit(results))
    return 0 if all(result.passed for result in results) else 1


def _serve(options: SimulatorOptions, simulator: Simulator) -> int:
    from demur.simulate.server.app import SimulatorApp
    from demur.simulate.server.run import serve_simulator

    with ExitStack() as stack:
        note = _truth_log(options.truth, stack) if options.truth else None
        # The pack is loaded before the port is named, so that the first answer is as quick as the others.
        simulator.judge.judge("")
        app = SimulatorApp(simulator, note)

        def announce(url: str) -> None:
            print(f"simulating at {url} (OpenAI: {url}/v1); stop with Ctrl-C", file=sys.stderr, flush=True)

        serve_simulator(app, host=options.host, port=options.port, ready=announce)
    return 0


def _truth_log(name: str, stack: ExitStack) -> Callable[[Simulated], None]:
    """Return what writes a label, a line at a time, so that whoever follows the file reads whole lines."""
    try:
        # Unbuffered, and appended to: whoever follows the file reads whole lines, and a restart loses none.
        log = stack.enter_context(Path(name).open("ab", buffering=0))  # noqa: SIM115 — closed with the stack
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{name}` cannot be written: {what}", hint="check the folder") from exc

    reported: set[str] = set()

    def note(simulated: Simulated) -> None:
        try:
            log.write(simulated.truth.line())
        except OSError as exc:
            # A full disk is no fault of the client's: it is answered, and whoever started the simulator is told once.
            what = (exc.strerror or "it cannot be written").lower()
            if what not in reported:
                reported.add(what)
                print(f"demur: `{name}` loses truths: {what}", file=sys.stderr, flush=True)

    return note


def _results(args: argparse.Namespace, simulator: Simulator, running: RunningSimulator) -> Iterator[ExamResult]:
    """Yield how the client coped with each case."""
    command = Command(args.client, args.exam_timeout)

    def ran_with(scenario: str) -> Ran:
        running.use(replace(simulator, settings=replace(simulator.settings, scenario=scenario_named(scenario))))
        code, output = command.run(running.environment())
        return ran_of(code, output, running.replies)

    return examine(" ".join(args.client), ran_with, faults=args.exam_faults)
