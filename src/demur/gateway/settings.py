"""What can be set about the gateway, within which bounds, with its defaults.

The defaults are safe and work without a file. Every setting is one field here with its sentence; the page of settings, the
environment variables and the flags are made from it. A secret is never a setting: a setting names the variable that holds it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from demur.errors import UsageError
from demur.http.upstream import origin_of
from demur.io.settings import Setting, SettingsSource
from demur.model.passport import Durability, SigningMode

__all__ = [
    "GATEWAY_SETTINGS",
    "OBSERVE_ONLY",
    "AuditorsPart",
    "DashboardPart",
    "DenyStyle",
    "DisclosurePart",
    "Durability",
    "FailurePart",
    "GatewaySettings",
    "KeyHeader",
    "KeysPart",
    "LimitsPart",
    "ListenPart",
    "LogFormat",
    "LogLevel",
    "LogPart",
    "MetricsPart",
    "OnFailure",
    "OtherPaths",
    "PolicyDefault",
    "PolicyPart",
    "RoutePart",
    "SessionsPart",
    "SigningPart",
    "StorePart",
    "StreamWord",
    "StreamingPart",
    "TimeoutsPart",
    "UpstreamPart",
]


OBSERVE_ONLY = "observe-only"
"""The pack that holds where no policy is named."""


class OtherPaths(StrEnum):
    """What is done with paths that are no chat."""

    PASS = "pass"  # noqa: S105 — to let pass, no password
    REFUSE = "refuse"


class DenyStyle(StrEnum):
    """How a denied exchange is answered: as an error of the API, or as a refusal in the provider's shape."""

    ERROR = "error"
    REFUSAL = "refusal"


class StreamWord(StrEnum):
    """How streamed answers are scanned; `auto` takes the mildest that the policies allow."""

    AUTO = "auto"
    PASS = "pass"  # noqa: S105 — to let pass, no password
    WINDOW = "window"
    BUFFER = "buffer"


class OnFailure(StrEnum):
    """What a failure of ours does: deny, or go on with the gap on record."""

    CLOSED = "closed"
    OPEN = "open"


class PolicyDefault(StrEnum):
    """What holds where no rule fires."""

    ALLOW = "allow"
    DENY = "deny"


class KeyHeader(StrEnum):
    """Where the provider's key is written; `auto` goes by the path (`x-api-key` for Anthropic's)."""

    AUTO = "auto"
    AUTHORIZATION = "authorization"
    X_API_KEY = "x-api-key"


class LogLevel(StrEnum):
    """From which level on a line is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line is written."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ListenPart:
    """Where the gateway listens."""

    host: Annotated[str, Setting("the address to listen on", flag="--host")] = "127.0.0.1"
    port: Annotated[int, Setting("the port; 0 takes a free one", low=0, high=65535, flag="--port")] = 8080
    uds: Annotated[str, Setting("a Unix socket to listen on in place of host and port")] = ""
    workers: Annotated[int, Setting("processes that serve", low=1, high=256, flag="--workers")] = 1


@dataclass(frozen=True, slots=True)
class UpstreamPart:
    """The provider that is asked where no route names another."""

    url: Annotated[
        str, Setting("the provider's address, without the path of the API; empty: a simulated model", flag="--upstream")
    ] = ""
    api_key_env: Annotated[
        str,
        Setting(
            "the environment variable that holds the provider's key; empty: the client's own goes on",
            flag="--api-key-env",
        ),
    ] = ""
    api_key_header: Annotated[KeyHeader, Setting("the header that takes the provider's key")] = KeyHeader.AUTO
    ca_file: Annotated[str, Setting("certificates to trust in place of the system's (PEM)")] = ""
    verify: Annotated[bool, Setting("check the provider's certificate")] = True


@dataclass(frozen=True, slots=True)
class RoutePart:
    """Another provider, for the paths that begin with one of `paths`."""

    paths: Annotated[tuple[str, ...], Setting("beginnings of paths, such as /v1/messages")] = ()
    url: Annotated[str, Setting("the provider's address")] = ""
    api_key_env: Annotated[str, Setting("the environment variable that holds its key")] = ""
    api_key_header: Annotated[KeyHeader, Setting("the header that takes its key")] = KeyHeader.AUTO
    ca_file: Annotated[str, Setting("certificates to trust (PEM)")] = ""
    verify: Annotated[bool, Setting("check its certificate")] = True


@dataclass(frozen=True, slots=True)
class TimeoutsPart:
    """How long is waited."""

    connect_s: Annotated[float, Setting("for a connection to the provider, TLS included", low=0.001)] = 10.0
    read_s: Annotated[float, Setting("for the provider's headers, then between two pieces", low=0.001)] = 300.0
    total_s: Annotated[float, Setting("for a whole exchange", low=0.001)] = 1800.0
    idle_s: Annotated[float, Setting("how long an unused connection to the provider is kept", low=0.001)] = 30.0
    record_s: Annotated[float, Setting("for a record, before `failure.store` decides", low=0.001)] = 10.0
    slow_client_s: Annotated[float, Setting("for a client that does not take its answer", low=0.001)] = 60.0
    shutdown_s: Annotated[float, Setting("for running exchanges at the end", low=0.0)] = 30.0


@dataclass(frozen=True, slots=True)
class LimitsPart:
    """How much is taken."""

    body_bytes: Annotated[int, Setting("the largest request body", low=1)] = 16 * 1024 * 1024
    header_bytes: Annotated[int, Setting("the headers of a request or an answer, together", low=256)] = 64 * 1024
    decoded_bytes: Annotated[int, Setting("the largest answer that is read, once decompressed", low=1)] = (
        64 * 1024 * 1024
    )
    sse_line_bytes: Annotated[int, Setting("the longest line of a stream", low=256)] = 1024 * 1024
    requests: Annotated[int, Setting("exchanges at once in a worker; more are answered with 503", low=1)] = 1000
    idle_connections: Annotated[int, Setting("unused connections to the provider that are kept in a worker", low=0)] = (
        100
    )


@dataclass(frozen=True, slots=True)
class StreamingPart:
    """How streams are scanned."""

    mode: Annotated[
        StreamWord, Setting("auto, pass (scan afterwards), window (scan ahead) or buffer", flag="--streaming")
    ] = StreamWord.AUTO
    window_chars: Annotated[int, Setting("characters held back in `window`", low=1, high=1_000_000)] = 200


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """What is decided."""

    paths: Annotated[
        tuple[str, ...],
        Setting(
            "files, folders or packs of Cedar policies; empty: observe-only, which blocks nothing", flag="--policy"
        ),
    ] = (OBSERVE_ONLY,)
    shadow: Annotated[
        tuple[str, ...], Setting("policies that are asked too, counted beside those in force, and never acted on")
    ] = ()
    default: Annotated[PolicyDefault, Setting("what holds where no rule fires")] = PolicyDefault.ALLOW
    reload_s: Annotated[float, Setting("how often the files are looked at; 0: never", low=0.0)] = 2.0

    def __post_init__(self) -> None:
        """Take the pack that blocks nothing if none is named: no policy at all would be an error."""
        if not self.paths:
            object.__setattr__(self, "paths", (OBSERVE_ONLY,))


@dataclass(frozen=True, slots=True)
class AuditorsPart:
    """Who is asked."""

    file: Annotated[str, Setting("the chain (auditors.yaml); empty: the built-in auditor alone", flag="--auditors")] = (
        ""
    )


@dataclass(frozen=True, slots=True)
class StorePart:
    """Where records are kept."""

    url: Annotated[str, Setting("a folder, a `.db` file or postgresql://…", flag="--store")] = field(
        default="demur-log",
        repr=False,  # an address of a database may hold its password
    )
    folder: Annotated[str, Setting("where keys and checkpoints are, if not beside the records")] = ""
    origin: Annotated[
        str, Setting("the log's name, as checkpoints and those who verify call it; empty: made when the log is")
    ] = ""
    durability: Annotated[Durability, Setting("async: only a denial waits for its record; sync: every answer does")] = (
        Durability.ASYNC
    )


@dataclass(frozen=True, slots=True)
class SigningPart:
    """How records are signed."""

    mode: Annotated[SigningMode, Setting("ed25519, or none, which is then stamped on every record")] = (
        SigningMode.ED25519
    )
    key_file: Annotated[str, Setting("the private key (PEM); empty: the one beside the records")] = ""


@dataclass(frozen=True, slots=True)
class DisclosurePart:
    """Whether texts are kept, apart from the records and erasable."""

    on: Annotated[bool, Setting("keep salts and texts, so that records can be opened later")] = False
    retention_days: Annotated[int, Setting("after how many days they are erased", low=1)] = 30


@dataclass(frozen=True, slots=True)
class FailurePart:
    """What a failure does, kind by kind."""

    upstream: Annotated[OnFailure, Setting("an answer that was cut off: end it as an error, or pass what came")] = (
        OnFailure.CLOSED
    )
    auditors: Annotated[OnFailure, Setting("the chain as a whole cannot be asked")] = OnFailure.CLOSED
    store: Annotated[
        OnFailure, Setting("a record cannot be written: open goes on and counts the gap, closed answers with 503")
    ] = OnFailure.OPEN
    policy_reload: Annotated[
        OnFailure, Setting("changed policies do not load: open goes on with the last good ones, closed denies")
    ] = OnFailure.OPEN


@dataclass(frozen=True, slots=True)
class SessionsPart:
    """How exchanges are put together."""

    headers: Annotated[tuple[str, ...], Setting("headers that name a session, the first present wins")] = (
        "x-demur-session",
        "x-session-id",
    )


@dataclass(frozen=True, slots=True)
class KeysPart:
    """Who may ask."""

    file: Annotated[str, Setting("the clients' hashed keys; empty: no key is asked for", flag="--keys")] = ""
    open: Annotated[bool, Setting("let anyone on the network use the provider's key")] = False


@dataclass(frozen=True, slots=True)
class MetricsPart:
    """What is seen from outside."""

    on: Annotated[bool, Setting("serve figures for Prometheus at /metrics")] = True
    folder: Annotated[str, Setting("where workers share their figures; empty: a temporary folder")] = ""
    otel: Annotated[bool, Setting("send spans by OpenTelemetry (needs the extra `otel`)")] = False


@dataclass(frozen=True, slots=True)
class LogPart:
    """What is logged; never a text, a prompt or a key."""

    level: Annotated[LogLevel, Setting("debug, info, warning or error", flag="--log-level")] = LogLevel.INFO
    format: Annotated[LogFormat, Setting("json or text", flag="--log-format")] = LogFormat.JSON


@dataclass(frozen=True, slots=True)
class DashboardPart:
    """The page for people."""

    on: Annotated[bool, Setting("serve the dashboard under `/-/`")] = True
    token_env: Annotated[
        str,
        Setting("the environment variable that holds its token; empty: a new one is made and printed at every start"),
    ] = ""
    texts: Annotated[bool, Setting("show the texts that `disclosure.on` keeps to everyone with the token")] = False


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Everything that holds for one gateway."""

    listen: ListenPart = ListenPart()
    upstream: UpstreamPart = UpstreamPart()
    routes: tuple[RoutePart, ...] = ()
    timeouts: TimeoutsPart = TimeoutsPart()
    limits: LimitsPart = LimitsPart()
    streaming: StreamingPart = StreamingPart()
    policy: PolicyPart = PolicyPart()
    auditors: AuditorsPart = AuditorsPart()
    store: StorePart = StorePart()
    signing: SigningPart = SigningPart()
    disclosure: DisclosurePart = DisclosurePart()
    failure: FailurePart = FailurePart()
    sessions: SessionsPart = SessionsPart()
    keys: KeysPart = KeysPart()
    metrics: MetricsPart = MetricsPart()
    log: LogPart = LogPart()
    dashboard: DashboardPart = DashboardPart()
    other_paths: Annotated[
        OtherPaths, Setting("paths that are no chat: pass them on unread, or refuse them", flag="--other-paths")
    ] = OtherPaths.PASS
    deny: Annotated[
        DenyStyle, Setting("how a denial is answered: error, or refusal in the provider's shape", flag="--deny")
    ] = DenyStyle.ERROR

    def __post_init__(self) -> None:
        """Raise if settings contradict each other, before anything listens."""
        providers: tuple[UpstreamPart | RoutePart, ...] = (self.upstream, *self.routes)
        for part in providers:
            if part.url or part is not self.upstream:
                origin_of(part.url)
        for route in self.routes:
            if not route.paths or not all(path.startswith("/") for path in route.paths):
                raise UsageError(f"the route to `{route.url}` has no paths", hint='write paths = ["/v1/messages"]')
        if any(char.isspace() or char == "+" or not char.isprintable() for char in self.store.origin):
            raise UsageError(
                f"a log cannot be called `{self.store.origin}`", hint="a name without blanks and +, as example.com/log"
            )
        # With the provider's key in the gateway, whoever reaches it spends the operator's money.
        lends_a_key = any(part.api_key_env for part in providers)
        if lends_a_key and not self.keys.file and not self.keys.open and not self._is_local():
            raise UsageError(
                f"anyone who reaches `{self.listen.host}` could use the provider's key",
                hint="set keys.file, or keys.open = true where the network is trusted",
            )

    def _is_local(self) -> bool:
        """Return whether only this machine can reach the gateway."""
        if self.listen.uds or self.listen.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.listen.host).is_loopback
        except ValueError:
            return False

    def provider_of(self, path: str) -> UpstreamPart | RoutePart:
        """Return who is asked for a path: the route with the longest beginning that fits, else the upstream."""
        fitting = [(len(start), route) for route in self.routes for start in route.paths if path.startswith(start)]
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else self.upstream


GATEWAY_SETTINGS = SettingsSource(GatewaySettings, "gateway", page="docs/settings.md", rows={"routes": RoutePart})
"""Where the gateway's settings come from."""
