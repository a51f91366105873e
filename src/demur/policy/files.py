"""Policies on disk: files, folders and packs; their fixtures, vocabularies and recorded contexts.

A folder is its `.cedar` files in the order of their names, and its `.yaml` files are its fixtures.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from demur.errors import (
    DemurError,
    EmptyInputError,
    InputError,
    JsonError,
    PolicyError,
    ShapeError,
    SizeLimitError,
    UsageError,
)
from demur.io.files import bounded_lines, input_limits, open_source, read_text
from demur.model.claim import ClaimSpec, ClaimType, Effect, Phase, Vocabulary
from demur.model.passport import Passport
from demur.policy.cases import PolicyCase, RecordedDecision, boundary_results, case_results
from demur.policy.cedar import PolicySource
from demur.policy.gate import Ask, Default, PolicyGate, load_gate
from demur.policy.lint import ProblemKind, problems_of
from demur.policy.rules import nearest
from demur.policy.values import SAFETY_VOCABULARY
from demur.record.seal import open_sealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "POLICY_PACKS",
    "PolicyFiles",
    "PolicyFolder",
    "Reload",
    "ask_of",
    "builtin_policies",
    "read_cases",
    "read_policies",
    "read_policy_file",
    "read_recorded",
    "read_vocabulary",
]

_CEDAR = ".cedar"
_YAML = (".yaml", ".yml")
_EFFECTS = {effect.word: effect for effect in Effect}


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """The texts of a policy set, and the names and texts of its fixtures."""

    sources: tuple[PolicySource, ...]
    fixtures: tuple[PolicySource, ...] = ()

    def cases(self) -> tuple[PolicyCase, ...]:
        """Return the cases of all fixtures."""
        return tuple(case for text in self.fixtures for case in read_cases(text))


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of a change on disk: the digest in force, whether it is new, and the messages."""

    digest: str
    swapped: bool
    said: tuple[str, ...] = ()


def read_policies(names: Sequence[str]) -> PolicyFiles:
    """Return the texts of each name: a file, a folder, or a pack that ships with Demur."""
    parts = [_files_named(name) for name in names]
    sources = tuple(source for part in parts for source in part.sources)
    return PolicyFiles(sources, tuple(fixture for part in parts for fixture in part.fixtures))


def _files_named(name: str) -> PolicyFiles:
    path = Path(name)
    try:
        if path.is_dir():
            inside = sorted(entry for entry in path.iterdir() if entry.is_file())
            found = tuple(read_policy_file(str(entry)) for entry in inside if entry.suffix == _CEDAR)
            # An empty set would decide nothing, and a mistyped folder must not switch a gate off.
            if not found:
                raise PolicyError(f"no `{_CEDAR}` file in the folder `{path}`", hint="write a rule or name a pack")
            fixtures = tuple(read_policy_file(str(entry)) for entry in inside if entry.suffix in _YAML)
            return PolicyFiles(found, fixtures)
        if path.exists() or path.suffix == _CEDAR:
            return PolicyFiles((read_policy_file(name),))
    except OSError as exc:
        what = (exc.strerror or "cannot be read").lower()
        raise InputError(what, source=name, hint="check the path and its permissions") from exc
    return PolicyFiles((builtin_policies(name),))


def read_policy_file(name: str) -> PolicySource:
    """Return the text of a policy or fixture file, under its name."""
    try:
        return PolicySource(name, read_text(name).removeprefix("\ufeff"))
    except InputError as exc:
        raise exc.at(name) from exc


class PolicyFolder:
    """The gate of some files, kept up to date: call `poll` as often as changes should be noticed."""

    def __init__(
        self, names: Sequence[str], *, default: Default = "allow", vocabulary: Vocabulary = SAFETY_VOCABULARY
    ) -> None:
        self._names = tuple(names)
        self._default: Default = default
        self._vocabulary = vocabulary
        self._seen: PolicyFiles | str = read_policies(self._names)
        self.gate, self.warnings = self._build(self._seen)

    def poll(self) -> Reload | None:
        """Return the result of a change, None where nothing has changed since the last call."""
        found: PolicyFiles | str
        try:
            found = read_policies(self._names)
        except DemurError as exc:
            found = str(exc)
        if found == self._seen:
            return None
        # Remembered even if it is broken, so that each change is reported once and not at every poll.
        self._seen = found
        if isinstance(found, str):
            return Reload(self.gate.digest, swapped=False, said=(found,))
        try:
            gate, warnings = self._build(found)
        except DemurError as exc:
            return Reload(self.gate.digest, swapped=False, said=(str(exc),))
        self.gate, self.warnings = gate, warnings
        return Reload(gate.digest, swapped=True, said=warnings)

    def _build(self, files: PolicyFiles) -> tuple[PolicyGate, tuple[str, ...]]:
        """Return the gate of some texts and the warnings about it; raise where it must not be used."""
        # A set that does not load, is invalid or fails its fixtures must never replace one that works.
        gate = load_gate(files.sources, default=self._default, vocabulary=self._vocabulary)
        problems = problems_of(gate, self._vocabulary)
        wrong = [str(problem) for problem in problems if problem.severity is ProblemKind.ERROR]
        wrong += [
            f"case `{result.case.name}`: {result.why}" for result in case_results(gate, files.cases()) if result.why
        ]
        wrong += [f"`{b.threshold}` at {b.score} is not as it says" for b in boundary_results(gate) if not b.passed]
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise PolicyError(f"{wrong[0]}{more}", hint="see `demur policy check` and `demur policy test`")
        return gate, tuple(str(problem) for problem in problems)


class _CaseFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    decision: str
    claims: dict[str, Any] = {}
    phase: Phase = Phase.REQUEST
    fired: tuple[str, ...] | None = None
    session: str = ""
    model: str = ""
    labels: tuple[str, ...] = ()
    extras: dict[str, bool | int | str | tuple[str, ...]] = {}

    def ask(self) -> Ask:
        return Ask(self.phase, self.claims, self.session, self.model, self.labels, self.extras)


def read_cases(text: PolicySource) -> tuple[PolicyCase, ...]:
    """Return the cases of a YAML text: a list of them, or one under `cases`."""
    try:
        import yaml
    except ModuleNotFoundError as exc:
        raise UsageError("fixtures need a YAML reader", hint="pip install 'demur[gateway]'") from exc
    try:
        loaded = yaml.safe_load(text.text)
        rows = loaded.get("cases") if isinstance(loaded, dict) else loaded
        cases = msgspec.convert(rows, tuple[_CaseFile, ...])
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        what = getattr(exc, "problem", None) or "it cannot be read"
        line = mark.line + 1 if mark else None
        raise PolicyError(f"not YAML ({what})", source=text.name, line=line, hint="quote texts with colons") from exc
    except msgspec.ValidationError as exc:
        what = str(exc)[:1].lower() + str(exc)[1:]
        hint = "a case is a name, claims and the decision expected"
        raise PolicyError(f"no fixtures: {what}", source=text.name, hint=hint) from exc
    if not cases:
        raise PolicyError("no case in it", source=text.name, hint="an empty fixture would pass anything")
    for row in cases:
        if row.decision not in _EFFECTS:
            near = nearest(row.decision, _EFFECTS)
            hint = f"did you mean `{near}`?" if near else f"choose from {', '.join(_EFFECTS)}"
            raise PolicyError(f"case `{row.name}`: `{row.decision}` is no decision", source=text.name, hint=hint)
    return tuple(PolicyCase(row.name, row.ask(), _EFFECTS[row.decision], row.fired) for row in cases)


class _SpecFile(msgspec.Struct, frozen=True):
    name: str
    type: ClaimType
    phase: Phase
    auditor: str | None = None
    sensitive: bool = False
    description: str = ""


class _VocabularyFile(msgspec.Struct, frozen=True):
    claims: tuple[_SpecFile, ...]
    auditor: str | None = None
    auditor_id: str | None = None


def read_vocabulary(name: str) -> Vocabulary:
    """Return the vocabulary in a JSON file: what `GET /vocabulary` answers, of one auditor or a list of several."""
    try:
        loaded = msgspec.json.decode(read_text(name))
        parts = msgspec.convert(loaded if isinstance(loaded, list) else [loaded], tuple[_VocabularyFile, ...])
    except msgspec.DecodeError as exc:
        what = str(exc)[:1].lower() + str(exc)[1:]
        raise ShapeError(f"no vocabulary: {what}", source=name, hint="expected what GET /vocabulary answers") from exc
    specs = [(spec, part.auditor_id or part.auditor or "") for part in parts for spec in part.claims]
    if not specs:
        raise EmptyInputError("no claim in it", source=name, hint="expected what GET /vocabulary answers")
    return Vocabulary(
        tuple(
            ClaimSpec(s.name, s.type, s.phase, s.auditor or owner, sensitive=s.sensitive, description=s.description)
            for s, owner in specs
        )
    )


def ask_of(given: dict[str, Any]) -> Ask:
    """Return the ask in a plain object: phase, claims, session, model, labels, extras, all but the claims optional."""
    try:
        row = msgspec.convert({"name": "", "decision": "", **given}, _CaseFile)
    except msgspec.ValidationError as exc:
        what = str(exc)[:1].lower() + str(exc)[1:]
        raise ShapeError(f"no context: {what}", hint="expected claims by name, and the phase") from exc
    return row.ask()


def read_recorded(name: str, gate: PolicyGate) -> Iterator[RecordedDecision | InputError]:
    """Yield each recorded context of a JSON-lines file; a line that holds none yields its error."""
    source = "<stdin>" if name == "-" else name
    try:
        with open_source(name) as stream:
            for number, line in bounded_lines(stream, input_limits()):
                if isinstance(line, SizeLimitError):
                    yield line.at(source, number)
                elif line.strip():
                    yield from _records(line, gate, source=source, number=number)
    except OSError as exc:
        yield InputError((exc.strerror or "cannot be read").lower(), source=source, hint="check the path")


def _records(line: bytes, gate: PolicyGate, *, source: str, number: int) -> Iterator[RecordedDecision | InputError]:
    place = f"{source}:{number}"
    try:
        row = json.loads(line)
        if isinstance(row, dict) and "envelope" in row:
            # The sealed envelope, not the readable part beside it, which leaves out what the envelope repeats.
            entry = open_sealed(bytes(msgspec.json.decode(line, type=_ExportedLine).envelope)).entry
            for phase in entry.phases if isinstance(entry, Passport) else ():
                context = json.loads(phase.context)
                gate.replay(context)
                yield RecordedDecision(place, context, phase.decision.effect)
            return
        for held in _phase_rows(row):
            yield _recorded_row(held, gate, place=place)
    except InputError as exc:
        yield exc.at(source, number)
    except (ValueError, RecursionError) as exc:
        error = JsonError("not JSON", source=source, line=number, hint="one record a line")
        error.__cause__ = exc
        yield error


class _ExportedLine(msgspec.Struct):
    envelope: msgspec.Raw


def _phase_rows(row: object) -> list[dict[str, Any]]:
    """Return the parts of a record that hold a context: the record itself, or the phases of a passport."""
    if isinstance(row, dict):
        if row.get("kind") in ("export", "rotation", "erasure", "restart"):
            return []
        if isinstance(row.get("context"), dict):
            return [row]
        for holder in (row, row.get("predicate")):
            phases = holder.get("phases") if isinstance(holder, dict) else None
            if isinstance(phases, list):
                return [part for part in phases if isinstance(part, dict) and isinstance(part.get("context"), dict)]
    raise ShapeError("no recorded context in it", hint='expected {"context": …, "decision": …} or a passport')


def _recorded_row(row: dict[str, Any], gate: PolicyGate, *, place: str) -> RecordedDecision:
    context = row["context"]
    if "auditors" in row and "action" not in context:
        raise ShapeError("a passport without its envelope", hint="give the lines of `demur passport export` whole")
    if "action" not in context:
        context = gate.context_of(ask_of(context))
    recorded = row.get("decision")
    word = (recorded.get("effect") or recorded.get("decision")) if isinstance(recorded, dict) else recorded
    if word is not None and word not in _EFFECTS:
        raise ShapeError(f"`{word}` is no decision", hint=f"expected one of {', '.join(_EFFECTS)}")
    # Raises here, where the line is known, and not in the middle of a backtest.
    gate.replay(context)
    return RecordedDecision(place, context, _EFFECTS[word] if word else None)


POLICY_PACKS = ("observe-only", "block-attacks", "strict")


def builtin_policies(name: str) -> PolicySource:
    """Return a pack's text; raise `PolicyError` for a name that is none."""
    if name not in POLICY_PACKS:
        near = nearest(name, POLICY_PACKS)
        hint = f"did you mean `{near}`?" if near else f"choose {', '.join(POLICY_PACKS)}, or name a file"
        raise PolicyError(f"no policy pack and no file is called `{name}`", hint=hint)
    text = resources.files("demur.policy.packs").joinpath(f"{name}.cedar").read_text(encoding="utf-8")
    return PolicySource(f"{name}.cedar", text)
