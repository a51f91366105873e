"""How is the simulator started and stopped: for good from the command line, or beside a test in the same process?

Laws: the port is bound before anything is said about it, so port 0 gives a free one and nobody races for it; whoever is
given a running simulator has one that answers; it is gone afterwards.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.http.serve import listening_socket, run_app
from demur.simulate.engine import Simulator
from demur.simulate.scenario import scenario_named
from demur.simulate.server.app import SimulatorApp

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    import uvicorn

    from demur.simulate.truth import Truth

__all__ = ["RunningSimulator", "running_simulator", "serve_simulator"]

_START_S = 10
_GRACE_S = 1


@dataclass(slots=True)
class RunningSimulator:
    """A simulator that answers at `url`; the other addresses are what each provider's client wants to be given."""

    app: SimulatorApp
    url: str
    truths: list[Truth]

    @property
    def openai_url(self) -> str:
        """The base URL for OpenAI's client."""
        return f"{self.url}/v1"

    def use(self, simulator: Simulator) -> None:
        """Answer by another simulator from the next request on, and forget the truths so far."""
        self.app.simulator = simulator
        self.truths.clear()

    def refuse_by(self, scenario: str) -> None:
        """Answer by a scenario that ships with Demur, as `refuse-soft`, from the next request on."""
        settings = replace(self.app.simulator.settings, scenario=scenario_named(scenario))
        self.use(replace(self.app.simulator, settings=settings))

    def environment(self) -> dict[str, str]:
        """Return the variables by which the official clients find this server and do without real keys and proxies."""
        host = self.url.removeprefix("http://").rpartition(":")[0].strip("[]")
        past_proxies = {name: _with_host(os.environ.get(name, ""), host) for name in ("NO_PROXY", "no_proxy")}
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
    truths: list[Truth] = []
    app = SimulatorApp(simulator or Simulator(), truths.append)
    listener = listening_socket(host, port)
    server = _uvicorn_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True, name="demur-simulator")
    thread.start()
    try:
        # The socket listens already: a client that comes before the loop runs waits in its queue.
        yield RunningSimulator(app, _url(listener), truths)
    finally:
        server.should_exit = True
        thread.join(_START_S)
        listener.close()


def serve_simulator(app: SimulatorApp, *, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; `ready` is told the address once connections are taken."""
    _need_uvicorn()
    # Same request, same bytes: a clock has no place in them.
    run_app(app, host=host, port=port, started=ready, dated=False)


def _with_host(hosts: str, host: str) -> str:
    """Return a list of hosts that are reached without a proxy, this one among them."""
    return f"{hosts},{host}" if hosts else host


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _need_uvicorn() -> None:
    """Load the server, and silence what it would log: cut answers are no mistakes here."""
    try:
        importlib.import_module("uvicorn")
    except ModuleNotFoundError as exc:
        raise UsageError("the simulator needs `uvicorn`", hint="pip install 'demur[gateway]'") from exc
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


def _uvicorn_server(app: SimulatorApp) -> uvicorn.Server:
    """Return the server for a thread; it sends no date, so that the same request gives the same bytes."""
    _need_uvicorn()
    import uvicorn

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    return uvicorn.Server(config)
