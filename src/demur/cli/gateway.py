"""`demur gateway`: audit, decide and record, in front of any model."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from demur.errors import UsageError

if TYPE_CHECKING:
    from demur.gateway.settings import GatewaySettings
    from demur.gateway.worker import Worker
    from demur.http.asgi import App
    from demur.io.settings import LoadedSettings

__all__ = ["MountedDashboard", "add_parser"]

_EXAMPLES = """\
examples:
  demur gateway                     a simulated model, nothing blocked
  demur gateway --upstream https://api.openai.com --policy block-attacks
  demur gateway --policy policies/ --store log/ --workers 2
  demur gateway --print-config      what holds, and where it came from

Point a client at it by its base URL: http://127.0.0.1:8080/v1 for OpenAI's,
http://127.0.0.1:8080 for Anthropic's. Settings come from demur.toml, the
environment (DEMUR_GATEWAY_...) and flags, each winning over the one before.

The dashboard is at /-/, behind a token that is made and printed at every
start unless dashboard.token_env names a variable that holds one.

exit codes: 0 ended as told, 2 bad settings, an address in use, or records
that could not be written by the end
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "gateway",
        help="audit, decide and record, in front of any model",
        description="A reverse proxy that audits every exchange, decides by policy, and records.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("--config", metavar="FILE", help="read this file in place of demur.toml")
    command.add_argument("--print-config", action="store_true", help="print the settings that hold, and stop")
    # Every setting that declares a flag has it here, so that the two lists cannot differ.
    from demur.gateway.settings import GATEWAY_SETTINGS

    found = GATEWAY_SETTINGS.declared.items()
    flags = {name: (each.about.flag, each.about.what) for name, each in found if each.about.flag}
    for name, (flag, what) in flags.items():
        command.add_argument(flag, dest=f"set:{name}", metavar="VALUE", help=what)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    from demur.gateway.settings import GATEWAY_SETTINGS
    from demur.record.store.postgres_address import without_password

    given = {key.removeprefix("set:"): value for key, value in vars(args).items() if key.startswith("set:")}
    flags = {name: value for name, value in given.items() if value is not None}
    loaded = GATEWAY_SETTINGS.load(args.config, flags=flags)
    if args.print_config:
        print(GATEWAY_SETTINGS.as_toml(loaded, redact=without_password), end="")
        return 0
    try:
        _serve_settings(loaded)
    except ModuleNotFoundError as exc:
        raise UsageError(f"the gateway needs `{exc.name}`", hint="pip install 'demur[gateway]'") from exc
    return 0


@dataclass(frozen=True, slots=True)
class MountedDashboard:
    """Makes the dashboard of one worker; all workers are handed the same token, so that a login holds for all of them."""

    token: str = field(repr=False)

    def __call__(self, worker: Worker) -> App:
        """Return it over the log that this worker writes, with the policies that it decides by."""
        from demur.dashboard.app import DashboardSettings, dashboard_app
        from demur.dashboard.values import ShadowCount
        from demur.gateway.request import DASHBOARD_PREFIX
        from demur.record.store.location import log_place

        settings = worker.settings
        place = log_place(settings.store.url, settings.store.folder or None)

        def shadow_counts() -> list[ShadowCount]:
            # Read from the board that all workers share, so every worker's page shows the sum.
            found = worker.metrics.board.read("demur_shadow_total")
            return [ShadowCount(phase, live, shadow, round(n)) for (phase, live, shadow), n in found.items()]

        shown = DashboardSettings(
            self.token,
            DASHBOARD_PREFIX,
            settings.dashboard.texts,
            replays=worker.policy.replays,
            shadow=shadow_counts if settings.policy.shadow else None,
        )
        return dashboard_app(place, shown)


def _serve_settings(loaded: LoadedSettings[GatewaySettings]) -> None:
    from demur.cli.dashboard import login_token
    from demur.gateway.run import serve_gateway

    settings = loaded.settings
    part = settings.dashboard
    pages = MountedDashboard(login_token(part.token_env)) if part.on else None
    # A token that was made here is shown here, and nowhere else.
    token = f"login#{pages.token}" if pages and not part.token_env else ""

    def announce(url: str) -> None:
        # What stands after the # never leaves the browser; the login page takes it from there.
        dashboard = f"dashboard at {url}/-/{token}\n" if pages else ""
        # In one piece, so that no line of the log comes in between.
        sys.stderr.write(f"{dashboard}gateway at {url} (OpenAI: {url}/v1); stop with Ctrl-C\n")
        sys.stderr.flush()

    with ExitStack() as stack:
        if not settings.upstream.url:
            from demur.simulate.server.run import running_simulator

            simulator = stack.enter_context(running_simulator())
            settings = replace(settings, upstream=replace(settings.upstream, url=simulator.url))
            print("no --upstream: a simulated model answers", file=sys.stderr, flush=True)
        serve_gateway(settings, started=announce, dashboard=pages)
