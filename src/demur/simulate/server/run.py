"""How the simulator is started and stopped: from the command line, or beside a test in the same process."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from demur.http.serve import run_app, serve_in_thread
from demur.simulate.engine import Simulator
from demur.simulate.scenario import scenario_named
from demur.simulate.server.app import SimulatorApp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.simulate.engine import Simulated, Truth

__all__ = ["RunningSimulator", "running_simulator", "serve_simulator"]


@dataclass(slots=True)
class RunningSimulator:
    """A simulator that answers at `url`; the other addresses are what each provider's client wants to be given."""

    app: SimulatorApp
    url: str
    replies: list[Simulated]

    @property
    def truths(self) -> list[Truth]:
        """The truth of each reply since the simulator was last exchanged."""
        return [reply.truth for reply in self.replies]

    @property
    def openai_url(self) -> str:
        """The base URL for OpenAI's client."""
        return f"{self.url}/v1"

    def use(self, simulator: Simulator) -> None:
        """Answer by another simulator from the next request on, and forget the replies so far."""
        self.app.simulator = simulator
        self.replies.clear()

    def refuse_by(self, scenario: str) -> None:
        """Answer by a scenario that ships with Demur, as `refuse-soft`, from the next request on."""
        settings = replace(self.app.simulator.settings, scenario=scenario_named(scenario))
        self.use(replace(self.app.simulator, settings=settings))

    def environment(self) -> dict[str, str]:
        """Return the variables by which the official clients find this server and do without real keys and proxies."""
        host = self.url.removeprefix("http://").rpartition(":")[0].strip("[]")
        proxied = {name: os.environ.get(name, "") for name in ("NO_PROXY", "no_proxy")}
        past_proxies = {name: f"{hosts},{host}" if hosts else host for name, hosts in proxied.items()}
        return past_proxies | {
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": "simulated",
            "AZURE_OPENAI_ENDPOINT": self.url,
            "AZURE_OPENAI_API_KEY": "simulated",
            "OPENAI_API_VERSION": "2024-10-21",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "simulated",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_KEY": "simulated",
            "GOOGLE_API_KEY": "simulated",
            "GOOGLE_GENAI_USE_VERTEXAI": "false",
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": self.url,
            "AWS_ACCESS_KEY_ID": "simulated",
            "AWS_SECRET_ACCESS_KEY": "simulated",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@contextmanager
def running_simulator(
    simulator: Simulator | None = None, *, host: str = "127.0.0.1", port: int = 0
) -> Iterator[RunningSimulator]:
    """Yield a simulator that runs in a thread of this process."""
    replies: list[Simulated] = []
    app = SimulatorApp(simulator or Simulator(), replies.append)
    # A program that runs a simulator decides itself what becomes of its log.
    _set_up_log(logging.NullHandler())
    with serve_in_thread(app, host=host, port=port) as url:
        yield RunningSimulator(app, url, replies)


def serve_simulator(app: SimulatorApp, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; `ready` is called with the URL once connections are taken."""
    shown = logging.StreamHandler()
    shown.setFormatter(logging.Formatter("demur: %(message)s"))
    _set_up_log(shown)
    # Same request, same bytes: a Date header would change with the clock.
    run_app(app, host=host, port=port, started=ready, dated=False)


def _set_up_log(handler: logging.Handler) -> None:
    log = logging.getLogger("demur.simulator")
    if not log.handlers:
        log.addHandler(handler)
    # A response that is cut on purpose is no error here, but uvicorn logs it as one.
    logging.getLogger("uvicorn.error").propagate = False
