"""The chain of auditors: `auditors.yaml`, and the classes that it names.

    budget_ms: 2000
    chain:
      - name: safety-checker        # a bare image and port: loopback at that port
        image: "lucid/safety-refusals:v1"
        port: 8085
      - name: ours
        python: package.module:Class
        on_error: {request: closed, response: warn}

A failure is closed unless the file says otherwise, and an empty chain is an error: both would let everything pass.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from demur.audit.breaker import BreakerSettings
from demur.errors import EmptyInputError, InputError, UsageError
from demur.io.files import read_text
from demur.io.yaml import load_yaml, typed_yaml
from demur.model.claim import FailureMode, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

__all__ = [
    "DEFAULT_PORT",
    "AuditorSettings",
    "ChainSettings",
    "Sent",
    "importing",
    "load_class",
    "parse_chain",
    "port_of_auditor",
    "read_chain",
]

DEFAULT_PORT = 8085
"""Where an auditor listens that no chain gives a port: the one of Lucid's example."""

_IMPORTING: ContextVar[bool] = ContextVar("demur_importing_an_auditor", default=False)
_CHAIN_FILE = "auditors.yaml"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DEFAULT_PHASES = (Phase.REQUEST, Phase.RESPONSE)


class Sent(StrEnum):
    """What a remote auditor gets as `input` and `output`."""

    MAPPING = "mapping"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class AuditorSettings:
    """One auditor of the chain: where it is (`url`, or `python` within the process) and on what terms it is asked.

    `auditor_id` is what a remote one has to call itself; where it is not given, the first answer tells.
    """

    name: str
    url: str | None = None
    python: str | None = None
    version: str = "unknown"
    phases: tuple[Phase, ...] | None = None
    timeout_s: float = 1.0
    on_error: Mapping[Phase, FailureMode] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    blocking: bool | None = None
    sent: Sent = Sent.MAPPING
    breaker: BreakerSettings | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Mapping[str, Any] | None = None
    auditor_id: str | None = None

    def mode(self, phase: Phase) -> FailureMode:
        """Return what a failure in a phase does."""
        return self.on_error.get(phase, FailureMode.CLOSED)

    def asked_in(self, phase: Phase, able: tuple[Phase, ...] | None = None) -> bool:
        """Return whether it is asked in a phase, by the file, or else by what it is able to do."""
        return phase in (self.phases or able or _DEFAULT_PHASES)


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """All auditors, in stages: those of a stage are asked together, once the stage before has ended."""

    stages: tuple[tuple[AuditorSettings, ...], ...]
    budget_s: float = 2.0

    @property
    def auditors(self) -> tuple[AuditorSettings, ...]:
        """All auditors, in the order in which they are asked."""
        return tuple(auditor for stage in self.stages for auditor in stage)


class _BreakerRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    failures: int = 5
    reset_ms: int = 30_000


# An unknown field is an error: a misspelt `on_error` must not fail open.
class _AuditorRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    description: str = ""
    image: str | None = None
    port: int | None = None
    env: dict[str, Any] | list[Any] | None = None
    labels: dict[str, Any] | list[Any] | None = None
    url: str | None = None
    python: str | None = None
    version: str | None = None
    phases: tuple[Phase, ...] | None = None
    timeout_ms: int = 1_000
    on_error: FailureMode | dict[Phase, FailureMode] = FailureMode.CLOSED
    after: str | tuple[str, ...] = ()
    blocking: bool | None = None
    send: Sent = Sent.MAPPING
    breaker: _BreakerRow | bool | None = None
    config: dict[str, Any] = {}
    vocabulary: dict[str, Any] | None = None
    auditor_id: str | None = None


class _ChainFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    chain: tuple[_AuditorRow, ...]
    budget_ms: int = 2_000
    version: str | int | float | None = None


def read_chain(name: str) -> ChainSettings:
    """Return the chain in a file."""
    try:
        return parse_chain(read_text(name))
    except InputError as exc:
        raise exc.at(name, exc.line) from exc


def port_of_auditor(auditor_id: str) -> int:
    """Return where an auditor listens: the port that `auditors.yaml` in the working folder gives it, else 8085."""
    if not Path(_CHAIN_FILE).is_file():
        return DEFAULT_PORT
    for auditor in read_chain(_CHAIN_FILE).auditors:
        place = urlsplit(auditor.url or "")
        # One on another machine is asked there; its port says nothing of this one.
        if auditor_id in (auditor.name, auditor.auditor_id) and place.hostname in _LOOPBACK and place.port:
            return place.port
    return DEFAULT_PORT


def parse_chain(text: str) -> ChainSettings:
    """Return the chain in a YAML text; raise `ShapeError` or `UsageError` with what is wrong in it."""
    loaded = load_yaml(text, needed_by="a chain")
    if isinstance(loaded, dict) and loaded.get("chain") in (None, []):
        raise EmptyInputError("no auditor in the chain", hint="an empty chain would pass anything")
    hint = "expected `chain:` and a list of auditors"
    file = typed_yaml(loaded, _ChainFile, what="no chain of auditors", hint=hint, known=_AuditorRow.__struct_fields__)
    return ChainSettings(_staged(tuple(_settings(row) for row in file.chain)), _seconds(file.budget_ms, "budget_ms"))


def _settings(row: _AuditorRow) -> AuditorSettings:
    url = _auditor_url(row)
    if row.python is not None and row.send is not Sent.MAPPING:
        raise _misfit(row.name, "`send` is for remote auditors", "drop it")
    if row.python is not None and row.auditor_id is not None:
        raise _misfit(row.name, "`auditor_id` is for remote auditors", "drop it")
    # The breaker is on unless the file says otherwise; only calls that do not come back open it.
    breaker = row.breaker if isinstance(row.breaker, _BreakerRow) else _BreakerRow()
    if row.breaker is not False and breaker.failures < 1:
        raise _misfit(row.name, "a breaker that opens after no failure", "give `failures` of 1 or more")
    every = dict.fromkeys(Phase, row.on_error) if isinstance(row.on_error, FailureMode) else row.on_error
    tag = row.image.rpartition(":")[2] if row.image and ":" in row.image else None
    return AuditorSettings(
        name=row.name,
        url=url,
        python=row.python,
        version=row.version or tag or "unknown",
        phases=row.phases,
        timeout_s=_seconds(row.timeout_ms, "timeout_ms"),
        on_error=every,
        after=(row.after,) if isinstance(row.after, str) else row.after,
        blocking=row.blocking,
        sent=row.send,
        breaker=None
        if row.breaker is False
        else BreakerSettings(breaker.failures, _seconds(breaker.reset_ms, "reset_ms")),
        config=row.config,
        vocabulary=row.vocabulary,
        auditor_id=row.auditor_id,
    )


def _auditor_url(row: _AuditorRow) -> str | None:
    """Return where an auditor is asked, None for one in the process; it has to be exactly one place."""
    if not row.name.strip():
        raise UsageError("an auditor without a name", hint="give each its `name`")
    if row.python is not None and (row.url is not None or row.port is not None):
        raise _misfit(row.name, "both `python` and a place on the network are given", "keep one of them")
    if row.python is not None:
        return None
    if row.url is None and row.port is None:
        raise _misfit(row.name, "no place to ask it", "give a `port`, a `url`, or `python: module:Class`")
    url = (row.url or f"http://127.0.0.1:{row.port}").rstrip("/")
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        sound = sound and not (parts.query or parts.fragment)
    except ValueError:
        # A port beyond 65535, or half a bracket.
        sound = False
    if not sound:
        raise _misfit(row.name, f"`{url}` is no address of an auditor", "write http://host:port")
    return url


def _staged(rows: tuple[AuditorSettings, ...]) -> tuple[tuple[AuditorSettings, ...], ...]:
    """Return the auditors in stages: each as early as those that it comes after allow."""
    if not rows:
        raise EmptyInputError("no auditor in the chain", hint="an empty chain would pass anything")
    names = [row.name for row in rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two auditors are called `{twice}`", hint="rename one of them")
    for row in rows:
        unknown = next((name for name in row.after if name not in names), None)
        if unknown is not None:
            raise _misfit(row.name, f"it comes after `{unknown}`, which is not in the chain", "check the name")
    stages: list[tuple[AuditorSettings, ...]] = []
    done: set[str] = set()
    while len(done) < len(rows):
        stage = tuple(row for row in rows if row.name not in done and done.issuperset(row.after))
        if not stage:
            left = ", ".join(f"`{row.name}`" for row in rows if row.name not in done)
            raise UsageError(f"{left} come after each other", hint="break the circle of `after`")
        stages.append(stage)
        done.update(row.name for row in stage)
    return tuple(stages)


def _seconds(milliseconds: int, name: str) -> float:
    if milliseconds < 1:
        raise UsageError(f"`{name}` is `{milliseconds}`", hint="give a number of milliseconds above 0")
    return milliseconds / 1000


def _misfit(name: str, what: str, hint: str) -> UsageError:
    return UsageError(f"auditor `{name}`: {what}", hint=hint)


def importing() -> bool:
    """Return whether a module is being imported for an auditor in it, so that it must not start to serve."""
    return _IMPORTING.get()


def load_class(spec: str) -> type[object]:
    """Return the class that `module:Class` or `path/to/file.py:Class` names."""
    module_name, _, class_name = spec.rpartition(":")
    if not module_name or not class_name.isidentifier():
        raise UsageError(f"`{spec}` names no class", hint="write module:Class or file.py:Class")
    # A module that serves its auditor when it is run must not do so when it is only imported.
    token = _IMPORTING.set(True)
    try:
        module = _file_module(module_name) if module_name.endswith(".py") else _named_module(module_name)
    finally:
        _IMPORTING.reset(token)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise UsageError(f"`{module_name}` has no class `{class_name}`", hint="check the name")
    return found


def _named_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        # An installed command does not import from the working folder, `python -m` does: users mean the module beside them.
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise UsageError(
            f"the module `{name}` cannot be imported: {exc}", hint="check its name and what it needs"
        ) from exc


def _file_module(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise UsageError(f"no file `{path}`", hint="check the path")
    name = f"demur_auditor_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"`{path}` is no Python file", hint="write file.py:Class")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError) as exc:
        raise UsageError(f"`{path}` cannot be imported: {exc}", hint="check it and what it needs") from exc
    return module
