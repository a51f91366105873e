"""Where do the gateway's settings come from, and which of several sources wins?

    demur.toml   [gateway] and its tables; `[[gateway.routes]]` for further providers
    environment  DEMUR_GATEWAY_<PART>_<NAME>; a list is written with commas
    flags        those that the command line has, by the dotted name of the setting

Laws: each later source wins over the ones before, setting by setting; an unknown name is refused with the nearest known
one, a value of the wrong kind with what was expected, both with their place; a key that was written where its
variable's name belongs is refused without being repeated; what is shown holds no secret.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from demur.errors import DemurError, ShapeError, UsageError
from demur.gateway.settings import GatewaySettings, RoutePart, Setting
from demur.io.config_tables import check_tables
from demur.io.files import read_text
from demur.record.store.postgres_address import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "DEFAULT_FILE",
    "Declared",
    "LoadedSettings",
    "declared_settings",
    "load_settings",
    "secret_of",
    "settings_page",
    "shown_settings",
]

DEFAULT_FILE = "demur.toml"
_PREFIX = "DEMUR_GATEWAY_"
_TABLE = "gateway"
_ROUTES = "routes"
_TOML_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")
_SECRET_NAMES = {"api_key": "api_key_env", "key": "api_key_env", "token": "token_env"}
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_WORDS = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Declared:
    """One setting: its dotted name, its type, its sentence and bounds, its default."""

    name: str
    kind: type | GenericAlias
    about: Setting
    default: object

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return _PREFIX + self.name.replace(".", "_").upper()


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in force and, for each that was set, by what."""

    settings: GatewaySettings
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as it stands in a source; `text` where it is still to be read."""

    value: object
    origin: str
    text: bool
    line: int | None = None


def _declared_in(kind: type, before: str) -> Iterator[Declared]:
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        hint = hints[each.name]
        about = next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Setting)), None)
        if about is not None:
            yield Declared(f"{before}{each.name}", get_args(hint)[0], about, each.default)
        elif is_dataclass(hint) and isinstance(hint, type):
            yield from _declared_in(hint, f"{before}{each.name}.")


@cache
def declared_settings() -> dict[str, Declared]:
    """Return every setting by its dotted name; those of further providers aside."""
    return {each.name: each for each in _declared_in(GatewaySettings, "")}


def load_settings(
    file: str | None = None, *, environ: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
) -> LoadedSettings:
    """Return what holds; without a name, `demur.toml` is read where it exists."""
    env = os.environ if environ is None else environ
    given: dict[str, _Given] = {}
    routes: tuple[RoutePart, ...] = ()
    if file is not None or os.path.exists(DEFAULT_FILE):  # noqa: PTH110 — a name, as users write it
        found, routes = _of_file(file or DEFAULT_FILE)
        given |= found
    given |= _of_environment(env) | _of_flags(flags or {})
    values = {name: _setting_value(declared_settings()[name], one) for name, one in given.items()}
    settings = _built_settings(values, routes)
    _check_names(env, settings)
    return LoadedSettings(settings, {name: one.origin for name, one in given.items()})


def _of_file(name: str) -> tuple[dict[str, _Given], tuple[RoutePart, ...]]:
    text = read_text(name)
    try:
        loaded = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        place = _TOML_PLACE.search(str(exc))
        what = _TOML_PLACE.sub("", str(exc))
        line = int(place[1]) if place else None
        raise ShapeError(f"not TOML: {what[:1].lower()}{what[1:]}", source=name, line=line) from exc
    check_tables(loaded, name, text=text, parts={each.partition(".")[0] for each in declared_settings()} | {_ROUTES})
    table = loaded.get(_TABLE, {})
    if not isinstance(table, dict):
        raise ShapeError(f"`{_TABLE}` is no table", source=name, hint=f"write [{_TABLE}]")
    routes = table.pop(_ROUTES, [])
    given = {
        key: _Given(value, name, text=False, line=_line_of(text, key))
        for key, value in _settings_in(table, "", name, text)
    }
    return given, _routes_of(routes, name)


def _settings_in(table: dict[str, Any], before: str, name: str, text: str) -> Iterator[tuple[str, object]]:
    known = declared_settings()
    for key, value in table.items():
        dotted = f"{before}{key}"
        if dotted in known:
            yield dotted, value
        elif isinstance(value, dict) and any(each.startswith(f"{dotted}.") for each in known):
            yield from _settings_in(value, f"{dotted}.", name, text)
        else:
            raise ShapeError(
                f"`{dotted}` is no setting", source=name, line=_line_of(text, dotted), hint=_instead(dotted, known)
            )


def _instead(dotted: str, known: Mapping[str, Declared]) -> str:
    """Return what is to be written in place of an unknown name."""
    before, _, last = dotted.rpartition(".")
    secret = f"{before}.{_SECRET_NAMES.get(last, '')}".lstrip(".")
    if secret in known:
        return f"set `{secret}` to the name of the variable that holds it"
    near = get_close_matches(dotted, list(known), n=1, cutoff=0.6)
    same = [each for each in known if each.rpartition(".")[2] == last]
    guess = near or same
    return f"did you mean `{guess[0]}`?" if guess else "see docs/settings.md"


def _line_of(text: str, dotted: str) -> int | None:
    """Return the line of a setting, where it stands under its own table or with its dots; None where it cannot be told."""
    inside = ""
    wanted = f"{_TABLE}.{dotted}"
    for number, line in enumerate(text.splitlines(), start=1):
        if table := re.match(r"\s*\[+\s*([\w.\s\"'-]+?)\s*\]+", line):
            inside = re.sub(r"[\s\"']", "", table[1])
            if inside == wanted:
                return number
        elif (key := re.match(r"\s*([\w.\"'-]+)\s*=", line)) and f"{inside}.{key[1]}".lstrip(".") == wanted:
            return number
    return None


def _routes_of(rows: object, name: str) -> tuple[RoutePart, ...]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ShapeError(f"`{_ROUTES}` is no list of tables", source=name, hint=f"write [[{_TABLE}.{_ROUTES}]]")
    known = {each.name: each for each in _declared_in(RoutePart, "")}
    made = []
    for row in rows:
        for key in row:
            if key not in known:
                raise ShapeError(f"`{_ROUTES}.{key}` is no setting", source=name, hint=_instead(key, known))
        values: dict[str, Any] = {key: _setting_value(known[key], _Given(row[key], name, text=False)) for key in row}
        made.append(RoutePart(**values))
    return tuple(made)


def _of_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    found = [(each, environ.get(each.variable, "").strip()) for each in declared_settings().values()]
    return {each.name: _Given(value, f"the variable {each.variable}", text=True) for each, value in found if value}


def _check_names(environ: Mapping[str, str], settings: GatewaySettings) -> None:
    """Raise where a variable of ours sets nothing, unless a setting names it as the holder of a secret."""
    known = {each.variable: each for each in declared_settings().values()}
    holders = {settings.upstream.api_key_env, settings.dashboard.token_env, *(r.api_key_env for r in settings.routes)}
    for variable in environ:
        if not variable.startswith(_PREFIX) or variable in known or variable in holders:
            continue
        if f"{variable}_ENV" in known:
            hint = f"set `{variable}_ENV` to the name of the variable that holds it"
        else:
            near = get_close_matches(variable, list(known), n=1, cutoff=0.6)
            hint = f"did you mean `{near[0]}`?" if near else "see docs/settings.md"
        raise UsageError(f"`{variable}` is no setting", hint=hint)


def _of_flags(flags: Mapping[str, str]) -> dict[str, _Given]:
    unknown = next((name for name in flags if name not in declared_settings()), None)
    if unknown is not None:
        raise UsageError(f"`{unknown}` is no setting", hint=_instead(unknown, declared_settings()))
    return {name: _Given(value, f"the flag for {name}", text=True) for name, value in flags.items()}


def _setting_value(declared: Declared, given: _Given) -> object:
    """Return the value in its own type; raise with its place where it is of another or out of bounds."""
    try:
        value = _typed(declared.kind, given.value, text=given.text)
    except ValueError as exc:
        raise _misfit(declared, given, f"expected {exc}") from exc
    low, high = declared.about.low, declared.about.high
    if isinstance(value, int | float) and ((low is not None and value < low) or (high is not None and value > high)):
        bounds = f"from {low:g} to {high:g}" if low is not None and high is not None else f"of {low or 0:g} or more"
        raise _misfit(declared, given, f"expected a number {bounds}")
    if declared.name.endswith("_env") and value and not _ENV_NAME.fullmatch(str(value)):
        raise _misfit(declared, given, "expected the name of a variable, not what it holds")
    return value


def _misfit(declared: Declared, given: _Given, hint: str) -> DemurError:
    # What should have been a variable's name may be the secret itself, so that it is not repeated.
    shown = "not what it should be" if declared.name.endswith(("_env", "url")) else f"`{given.value}`"
    what = f"`{declared.name}` is {shown}"
    if given.text:
        return UsageError(f"{what} in {given.origin}", hint=hint)
    return ShapeError(what, source=given.origin, line=given.line, hint=hint)


def _typed(kind: type | GenericAlias, value: object, *, text: bool) -> object:
    """Return a value of a type; raise `ValueError` with the words for what was expected."""
    if isinstance(kind, GenericAlias):
        items = [item.strip() for item in str(value).split(",") if item.strip()] if text else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise ValueError("a list of texts")
        return tuple(items)
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            raise ValueError(f"one of {', '.join(kind)}")
        return kind(str(value))
    return _plain_value(kind, value, text=text)


def _plain_value(kind: type, value: object, *, text: bool) -> object:
    if text and isinstance(value, str):
        if kind is bool and value.lower() in _WORDS:
            return _WORDS[value.lower()]
        if kind is int and re.fullmatch(r"-?\d{1,18}", value):
            return int(value)
        if kind is float and re.fullmatch(r"-?\d{1,18}(\.\d+)?", value):
            return float(value)
        if kind is str:
            return value
    elif kind is float and type(value) in (int, float):
        found = float(str(value))
        if found == found and abs(found) != float("inf"):  # noqa: PLR0124 — not a number is not itself
            return found
    elif type(value) is kind:
        return value
    raise ValueError(_KINDS[kind])


def _built_settings(values: Mapping[str, object], routes: tuple[RoutePart, ...]) -> GatewaySettings:
    parts: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        part, _, last = name.rpartition(".")
        parts.setdefault(part, {})[last] = value
    own = parts.pop("", {})
    kinds = get_type_hints(GatewaySettings)
    made = {part: kinds[part](**found) for part, found in parts.items()}
    return GatewaySettings(routes=routes, **made, **own)  # type: ignore[arg-type]  # each value was read by its field's type


def secret_of(variable: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return what a variable holds, None where no variable is named; one that is named and empty is an error."""
    if not variable:
        return None
    value = (os.environ if environ is None else environ).get(variable, "").strip()
    if not value:
        raise UsageError(f"the variable `{variable}` is not set", hint="set it, or name another in the settings")
    return value


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, str):
        escaped = without_password(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


def shown_settings(loaded: LoadedSettings) -> str:
    """Return the settings as a `demur.toml` that could be read again, with where each came from; secrets are left out."""
    tables: dict[str, list[str]] = {}
    for name in declared_settings():
        part, _, last = name.rpartition(".")
        value = getattr(getattr(loaded.settings, part) if part else loaded.settings, last)
        origin = loaded.origins.get(name)
        comment = f"  # from {origin}" if origin else ""
        tables.setdefault(part, []).append(f"{last} = {_toml_value(value)}{comment}")
    blocks = [f"[{_TABLE}]", *tables.pop("")]
    for part, lines in tables.items():
        blocks += ["", f"[{_TABLE}.{part}]", *lines]
    for route in loaded.settings.routes:
        blocks += ["", f"[[{_TABLE}.{_ROUTES}]]"]
        blocks += [f"{each.name} = {_toml_value(getattr(route, each.name))}" for each in fields(route)]
    return "\n".join(blocks) + "\n"


def settings_page() -> str:
    """Return the table of all settings as the documents show it."""
    rows = ["| in `[gateway]` | variable | flag | default | meaning |", "|---|---|---|---|---|"]
    for each in declared_settings().values():
        flag = f"`{each.about.flag}`" if each.about.flag else ""
        default = _toml_value(each.default).strip('"')
        rows.append(
            f"| `{each.name}` | `{each.variable}` | {flag} | {f'`{default}`' if default else ''} | {each.about.what} |"
        )
    return "\n".join(rows) + "\n"
