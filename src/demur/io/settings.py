"""Settings from a file, the environment and the command line, for every command that has settings.

    demur.toml   [<table>], parts as tables below it
    environment  DEMUR_<TABLE>_<NAME>, parts joined by underscores; a list is written with commas
    flags        by the dotted name of the setting

A settings class is a frozen dataclass. Each of its fields is annotated with a `Setting`, or is itself such a dataclass (a part).
Each later source wins over the earlier ones, setting by setting, and every error names the place of what is wrong.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from itertools import chain
from math import inf, isfinite
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_type_hints

from demur.errors import ShapeError, UsageError
from demur.io.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["DEFAULT_FILE", "Declared", "LoadedSettings", "Setting", "SettingsSource", "secret_of"]

DEFAULT_FILE = "demur.toml"

T = TypeVar("T")

_TABLES = ("columns", "gateway", "simulator")
"""The tables that a command reads; any other is a mistake that would leave every default in force."""
_TOML_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")
# A secret is never written in a file or a flag; its setting names the variable that holds it.
_SECRET_NAMES = {"api_key": "api_key_env", "key": "api_key_env", "token": "token_env"}
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
# The words of YAML 1.1 and of most tools, since settings come from compose files and shells too.
_WORDS = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """What a setting is for, its bounds, its flag on the command line if it has one, and another tool's variable for the same.

    Our own variable wins over the other tool's.
    """

    what: str
    low: float | None = None
    high: float | None = None
    flag: str | None = None
    also: str | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """One setting: its dotted name, its type, its sentence and bounds, its default, its environment variable."""

    name: str
    kind: type | GenericAlias
    about: Setting
    default: object
    variable: str


@dataclass(frozen=True, slots=True)
class LoadedSettings(Generic[T]):
    """The settings in force and, for each that was set, by what."""

    settings: T
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as a source has it; `file` is None for the environment and flags."""

    value: object
    origin: str
    file: str | None = None
    line: int | None = None


class SettingsSource(Generic[T]):
    """Where the settings of one class come from.

    `table` names it in the file and the environment, `page` is the document that lists its settings. A field named in `rows` is a
    list of tables, each of that class, which only the file can set. `qualified` puts the table before the names in errors.
    """

    def __init__(
        self, kind: type[T], table: str, *, page: str, rows: Mapping[str, type] | None = None, qualified: bool = False
    ) -> None:
        self._kind = kind
        self._table = table
        self._prefix = f"DEMUR_{table.upper()}_"
        self._page = page
        self._rows = rows or {}
        self._shown_before = f"{table}." if qualified else ""

    @cached_property
    def declared(self) -> dict[str, Declared]:
        """Every setting by its dotted name, but for those in rows."""
        return {each.name: each for each in self._declared_in(self._kind, "")}

    def _declared_in(self, kind: type, before: str) -> Iterator[Declared]:
        hints = get_type_hints(kind, include_extras=True)
        for each in fields(kind):
            hint, name = hints[each.name], f"{before}{each.name}"
            about = next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Setting)), None)
            if about is not None:
                variable = self._prefix + name.replace(".", "_").upper()
                yield Declared(name, get_args(hint)[0], about, each.default, variable)
            elif is_dataclass(hint) and isinstance(hint, type):
                yield from self._declared_in(hint, f"{name}.")

    def load(
        self,
        file: str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, object] | None = None,
    ) -> LoadedSettings[T]:
        """Return the settings in force; without a name, `demur.toml` is read if it exists."""
        env = os.environ if environ is None else environ
        given: dict[str, _Given] = {}
        rows: dict[str, tuple[Any, ...]] = {}
        if file is not None or os.path.exists(DEFAULT_FILE):  # noqa: PTH110 — a name, as users write it
            given, rows = self._read_file(file or DEFAULT_FILE)
        for each in self.declared.values():
            for variable in filter(None, (each.about.also, each.variable)):
                # An empty variable counts as unset: a compose file passes on what its user did not set as empty.
                if value := env.get(variable, "").strip():
                    given[each.name] = _Given(value, f"the variable {variable}")
        for name, flag in (flags or {}).items():
            if name not in self.declared:
                raise UsageError(f"`{name}` is no setting", hint=self._suggest(name, self.declared))
            given[name] = _Given(flag, f"the flag for {name}")
        values = {name: self._value(self.declared[name], one) for name, one in given.items()}
        parts: dict[str, dict[str, object]] = {}
        for name, typed in values.items():
            part, _, last = name.rpartition(".")
            parts.setdefault(part, {})[last] = typed
        own, kinds = parts.pop("", {}), get_type_hints(self._kind)
        settings = self._kind(**rows, **{part: kinds[part](**found) for part, found in parts.items()}, **own)
        holders = {str(value) for name, value in values.items() if name.endswith("_env")}
        for row in chain.from_iterable(rows.values()):
            holders.update(getattr(row, each.name) for each in fields(row) if each.name.endswith("_env"))
        # Last, since a variable with our prefix may be one that a setting names as the holder of a secret.
        self._check_variables(env, holders)
        return LoadedSettings(settings, {name: one.origin for name, one in given.items()})

    def _read_file(self, name: str) -> tuple[dict[str, _Given], dict[str, tuple[Any, ...]]]:
        text = read_text(name)
        try:
            loaded = tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            place, what = _TOML_PLACE.search(str(exc)), _TOML_PLACE.sub("", str(exc))
            line = int(place[1]) if place else None
            raise ShapeError(f"not TOML: {what[:1].lower()}{what[1:]}", source=name, line=line) from exc
        for other in loaded:
            if other in _TABLES:
                continue
            near = get_close_matches(other, _TABLES, n=1, cutoff=0.6)
            hint = f"did you mean [{near[0]}]?" if near else f"there are {', '.join(f'[{t}]' for t in _TABLES)}"
            if other in self._rows or any(each.startswith(f"{other}.") for each in self.declared):
                hint = f"did you mean [{self._table}.{other}]?"
            elif other in self.declared:
                hint = f"write it under [{self._table}]"
            raise ShapeError(f"`{other}` is no table of ours", source=name, line=_line_of(text, other), hint=hint)
        table = loaded.get(self._table, {})
        if not isinstance(table, dict):
            raise ShapeError(f"`{self._table}` is no table", source=name, hint=f"write [{self._table}]")
        # Taken out first: what is left of the table is settings and parts of them only.
        rows = {key: self._read_rows(key, table.pop(key), name) for key in self._rows if key in table}
        given = {
            key: _Given(value, name, name, _line_of(text, f"{self._table}.{key}"))
            for key, value in self._flatten(table, "", name, text)
        }
        return given, rows

    def _flatten(self, table: dict[str, Any], before: str, name: str, text: str) -> Iterator[tuple[str, object]]:
        for key, value in table.items():
            dotted = f"{before}{key}"
            if dotted in self.declared:
                yield dotted, value
            elif isinstance(value, dict) and any(each.startswith(f"{dotted}.") for each in self.declared):
                yield from self._flatten(value, f"{dotted}.", name, text)
            else:
                line = _line_of(text, f"{self._table}.{dotted}")
                hint = self._suggest(dotted, self.declared)
                raise ShapeError(f"`{self._shown_before}{dotted}` is no setting", source=name, line=line, hint=hint)

    def _read_rows(self, key: str, rows: object, name: str) -> tuple[Any, ...]:
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ShapeError(f"`{key}` is no list of tables", source=name, hint=f"write [[{self._table}.{key}]]")
        known = {each.name: each for each in self._declared_in(self._rows[key], "")}
        built = []
        for row in rows:
            unknown = next((field for field in row if field not in known), None)
            if unknown is not None:
                hint = self._suggest(unknown, known)
                raise ShapeError(f"`{key}.{unknown}` is no setting", source=name, hint=hint)
            values = {field: self._value(known[field], _Given(value, name, name)) for field, value in row.items()}
            built.append(self._rows[key](**values))
        return tuple(built)

    def _check_variables(self, environ: Mapping[str, str], holders: set[str]) -> None:
        """Raise if a variable of ours sets nothing, unless a setting names it as the holder of a secret."""
        known = {each.variable for each in self.declared.values()}
        for variable in environ:
            if not variable.startswith(self._prefix) or variable in known or variable in holders:
                continue
            near = get_close_matches(variable, known, n=1, cutoff=0.6)
            hint = f"did you mean `{near[0]}`?" if near else f"see {self._page}"
            if f"{variable}_ENV" in known:
                hint = f"set `{variable}_ENV` to the name of the variable that holds it"
            raise UsageError(f"`{variable}` is no setting", hint=hint)

    def _suggest(self, dotted: str, known: Mapping[str, Declared]) -> str:
        """Return what to write in place of an unknown name."""
        before, _, last = dotted.rpartition(".")
        secret = f"{before}.{_SECRET_NAMES.get(last, '')}".lstrip(".")
        if secret in known:
            return f"set `{secret}` to the name of the variable that holds it"
        near = get_close_matches(dotted, list(known), n=1, cutoff=0.6)
        # A bare `port` is most likely `listen.port`.
        guess = near or [each for each in known if each.rpartition(".")[2] == last]
        return f"did you mean `{guess[0]}`?" if guess else f"see {self._page}"

    def _value(self, declared: Declared, given: _Given) -> object:
        """Return the value in its own type; raise with its place if it is of another or out of bounds."""
        try:
            return _convert(declared, given.value)
        except ValueError as exc:
            # In place of a variable's name, or in a URL, there may be a secret: it is not repeated.
            secret = declared.name.endswith(("_env", "url"))
            shown = "not what it should be" if secret else f"`{given.value}`"
            hint = f"expected {exc}"
            if given.file is None:
                raise UsageError(f"`{declared.name}` is {shown} in {given.origin}", hint=hint) from exc
            what = f"`{self._shown_before}{declared.name}` is {shown}"
            raise ShapeError(what, source=given.file, line=given.line, hint=hint) from exc

    def as_toml(self, loaded: LoadedSettings[T], *, redact: Callable[[str], str]) -> str:
        """Return the settings as a `demur.toml` that can be read again, each with its origin; `redact` hides passwords."""
        tables: dict[str, list[str]] = {}
        for name in self.declared:
            part, _, last = name.rpartition(".")
            value = getattr(getattr(loaded.settings, part) if part else loaded.settings, last)
            origin = loaded.origins.get(name)
            comment = f"  # from {origin}" if origin else ""
            tables.setdefault(part, []).append(f"{last} = {_toml_value(value, redact)}{comment}")
        blocks = [f"[{self._table}]", *tables.pop("")]
        for part, lines in tables.items():
            blocks += ["", f"[{self._table}.{part}]", *lines]
        for key in self._rows:
            for row in getattr(loaded.settings, key):
                blocks += ["", f"[[{self._table}.{key}]]"]
                blocks += [f"{each.name} = {_toml_value(getattr(row, each.name), redact)}" for each in fields(row)]
        return "\n".join(blocks) + "\n"

    def as_markdown(self) -> str:
        """Return the table of all settings as the documents show it."""
        rows = [f"| in `[{self._table}]` | variable | flag | default | meaning |", "|---|---|---|---|---|"]
        for each in self.declared.values():
            flag = f"`{each.about.flag}`" if each.about.flag else ""
            default = _toml_value(each.default, str).strip('"')
            shown = f"`{default}`" if default else ""
            rows.append(f"| `{each.name}` | `{each.variable}` | {flag} | {shown} | {each.about.what} |")
        return "\n".join(rows) + "\n"


def secret_of(variable: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return what a variable holds, None if no variable is named; one that is named and empty is an error."""
    if not variable:
        return None
    value = (os.environ if environ is None else environ).get(variable, "").strip()
    if not value:
        raise UsageError(f"the variable `{variable}` is not set", hint="set it, or name another in the settings")
    return value


def _convert(declared: Declared, given: object) -> object:
    """Return a value in its setting's type; raise `ValueError` with the words for what was expected."""
    value = _typed(declared.kind, given)
    low = -inf if declared.about.low is None else declared.about.low
    high = inf if declared.about.high is None else declared.about.high
    if isinstance(value, int | float) and not low <= value <= high:
        raise ValueError(f"a number of {low:g} or more" if high == inf else f"a number from {low:g} to {high:g}")
    # A key in place of its variable's name would be printed with the settings.
    if declared.name.endswith("_env") and value and not _ENV_NAME.fullmatch(str(value)):
        raise ValueError("the name of a variable, not what it holds")
    return value


def _typed(kind: type | GenericAlias, value: object) -> object:
    """Return a value in a type; texts are read as people write them, whichever source they come from."""
    if isinstance(kind, GenericAlias):
        items = [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise ValueError("a list of texts")
        return tuple(items)
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            raise ValueError(f"one of {', '.join(kind)}")
        return kind(str(value))
    if kind is bool and str(value).lower() in _WORDS:
        return _WORDS[str(value).lower()]
    if kind is int and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,100}", value):
        return int(value)
    # A whole number is a number, but true is none, although Python's bool is an int.
    if kind is float and (type(value) in (int, float) or re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]+)?", str(value))):
        value = float(str(value))
    if type(value) is not kind or (isinstance(value, float) and not isfinite(value)):
        raise ValueError(_KINDS[kind])
    return value


def _line_of(text: str, wanted: str) -> int | None:
    """Return the line of a dotted name, as a table or a key, None if it cannot be told."""
    # tomllib keeps no places, so the text is searched; a key within a string of several lines may be found in its place.
    inside = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if table := re.match(r"\s*\[+\s*([\w.\s\"'-]+?)\s*\]+", line):
            inside = found = re.sub(r"[\s\"']", "", table[1])
        elif key := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            found = f"{inside}.{key[1]}".lstrip(".")
        else:
            continue
        if found == wanted or found.startswith(f"{wanted}."):
            return number
    return None


def _toml_value(value: object, redact: Callable[[str], str]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_toml_value(item, redact) for item in value)}]"
    if isinstance(value, str):
        escaped = redact(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)
