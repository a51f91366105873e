"""`demur gateway`: audit, decide and record, in front of any model."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from demur.errors import UsageError

if TYPE_CHECKING:
    from demur.adapters.settings_source import LoadedSettings

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur gateway                                  a simulated model, nothing blocked
  demur gateway --upstream https://api.openai.com --policy block-attacks
  demur gateway --policy policies/ --store log/ --workers 2
  demur gateway --print-config                   what holds, and where it came from

Point a client at it by its base URL: http://127.0.0.1:8080/v1 for OpenAI's,
http://127.0.0.1:8080 for Anthropic's. Settings come from demur.toml, the
environment (DEMUR_GATEWAY_...) and flags, each winning over the one before.

exit codes: 0 ended as told, 2 bad settings or an address in use
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "gateway",
        help="audit, decide and record, in front of any model",
        description="A reverse proxy that audits every exchange with a model, decides by policy, and records.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("--config", metavar="FILE", help="read this file in place of demur.toml")
    command.add_argument("--print-config", action="store_true", help="print the settings that hold, and stop")
    for name, (flag, what) in _setting_flags().items():
        command.add_argument(flag, dest=f"set:{name}", metavar="VALUE", help=what)
    command.set_defaults(run=run)


def _setting_flags() -> dict[str, tuple[str, str]]:
    from demur.adapters.settings_source import declared_settings

    found = declared_settings().items()
    return {name: (each.about.flag, each.about.what) for name, each in found if each.about.flag}


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    from demur.adapters.settings_source import load_settings, shown_settings

    given = {key.removeprefix("set:"): value for key, value in vars(args).items() if key.startswith("set:")}
    flags = {name: value for name, value in given.items() if value is not None}
    loaded = _with_first_steps(load_settings(args.config, flags=flags))
    if args.print_config:
        print(shown_settings(loaded), end="")
        return 0
    try:
        _serve_settings(loaded)
    except ModuleNotFoundError as exc:
        raise UsageError(f"the gateway needs `{exc.name}`", hint="pip install 'demur[gateway]'") from exc
    return 0


def _with_first_steps(loaded: LoadedSettings) -> LoadedSettings:
    """Return the settings of a first look: where no policy is named, nothing is blocked."""
    if "policy.paths" in loaded.origins:
        return loaded
    policy = replace(loaded.settings.policy, paths=("observe-only",))
    return replace(loaded, settings=replace(loaded.settings, policy=policy))


def _serve_settings(loaded: LoadedSettings) -> None:
    from demur.servers.gateway_run import serve_gateway

    settings = loaded.settings
    with ExitStack() as stack:
        if "upstream.url" not in loaded.origins and not settings.routes:
            from demur.servers.simulator_run import running_simulator

            simulator = stack.enter_context(running_simulator())
            settings = replace(settings, upstream=replace(settings.upstream, url=simulator.url))
            print("no --upstream: a simulated model answers", file=sys.stderr, flush=True)
        serve_gateway(settings, started=_say_address)


def _say_address(url: str) -> None:
    print(f"gateway at {url} (OpenAI: {url}/v1); stop with Ctrl-C", file=sys.stderr, flush=True)
