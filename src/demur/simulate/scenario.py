"""Scenarios: which prompts are refused, in which way, how often, and what goes wrong besides.

A scenario is rules, tried in order: the first that covers the prompt's topic and whose draw falls within its rate decides the way of
the answer; if none does, the prompt is answered. A persona is rates by topic, one rule each.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated

import msgspec

from demur.errors import ShapeError, UsageError
from demur.model.exchange import Shape  # noqa: TC001 — msgspec reads the annotation
from demur.simulate.phrasebook import LANGUAGES, STYLES, TOPICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.simulate.phrasebook import Dice

__all__ = [
    "ANY",
    "Fault",
    "Rule",
    "Scenario",
    "Way",
    "builtin_scenarios",
    "parse_scenario",
    "scenario_named",
    "scenario_of_model",
]

ANY = "any"
_HARM = "harm"
_SHOWN_CHARS = 60
_NOT_HARM = ("jailbreak", "benign")


class Way(StrEnum):
    """How a prompt is answered."""

    ANSWER = "answer"
    """Text, as asked for."""
    REFUSAL = "refusal"
    """The provider's own refusal: a field, a stop reason, a block where the provider has nothing else."""
    TEXT = "text"
    """A refusal that is nothing but text."""
    PARTIAL = "partial"
    """One half is answered, the other declined, in text."""
    FILTER = "filter"
    """A filter cuts the answer off."""
    BLOCK = "block"
    """A filter blocks the prompt."""
    EMPTY = "empty"
    """Nothing is said, and nothing says why."""


class Fault(StrEnum):
    """What goes wrong on the way, in the order in which it is drawn."""

    RATE_LIMIT = "rate_limit"
    SERVER_ERROR = "server_error"
    OVERLOADED = "overloaded"
    CONTENT_TYPE = "content_type"
    MALFORMED = "malformed"
    CUT = "cut"
    STALL = "stall"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of answering: for which topics, how often, in which words; `contains` narrows it to prompts with a word."""

    on: tuple[str, ...]
    way: Way
    rate: float = 1.0
    style: str = "soft"
    language: str = "en"
    category: str | None = None
    contains: tuple[str, ...] = ()

    def covers(self, topic: str, prompt: str) -> bool:
        """Return whether this rule is about such a prompt."""
        # `harm` stands for every harmful topic, also those of a detector that knows more of them.
        harmful = _HARM in self.on and topic not in _NOT_HARM
        if not (harmful or ANY in self.on or topic in self.on):
            return False
        return not self.contains or any(word.lower() in prompt.lower() for word in self.contains)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Rules and faults under a name; `dialect` is the shape in which OpenAI's paths answer."""

    name: str
    rules: tuple[Rule, ...] = ()
    faults: tuple[tuple[Fault, float], ...] = ()
    about: str = ""
    seed: int | None = None
    piece_chars: int | None = None
    dialect: Shape | None = None

    def rule_for(self, topic: str, prompt: str, *, dice: Dice) -> Rule | None:
        """Return the rule that answers a prompt, None where it is simply answered."""
        for position, rule in enumerate(self.rules):
            # A certain rule needs no draw.
            if rule.covers(topic, prompt) and (rule.rate >= 1 or dice.chance(f"rule {position}") < rule.rate):
                return rule
        return None

    def fault_for(self, dice: Dice) -> Fault | None:
        """Return what goes wrong with a request, None where nothing does."""
        drawn = (fault for fault, rate in self.faults if dice.chance(f"fault {fault}") < rate)
        return next(drawn, None)


Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _RuleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    way: Way
    on: list[str] = msgspec.field(default_factory=lambda: ["harm", "jailbreak"])
    rate: Rate = 1.0
    style: str = "soft"
    language: str = "en"
    category: str | None = None
    contains: list[str] = msgspec.field(default_factory=list)


class _ScenarioTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = ""
    about: str = ""
    seed: int | None = None
    piece_chars: Annotated[int, msgspec.Meta(ge=0)] | None = None
    dialect: Shape | None = None
    way: Way = Way.REFUSAL
    rules: list[_RuleTable] = msgspec.field(default_factory=list)
    persona: dict[str, Rate] = msgspec.field(default_factory=dict)
    faults: dict[Fault, Rate] = msgspec.field(default_factory=dict)


def parse_scenario(text: str, *, source: str) -> Scenario:
    """Return the scenario in a TOML text; `source` names it in errors, and where it does not name itself."""
    try:
        return _scenario(tomllib.loads(text), source)
    except tomllib.TOMLDecodeError as exc:
        raise ShapeError(f"not TOML: {str(exc).lower()}", source=source) from exc


@cache
def builtin_scenarios() -> Mapping[str, Scenario]:
    """Return the scenarios that ship with Demur."""
    text = resources.files("demur.simulate").joinpath("scenarios.toml").read_text(encoding="utf-8")
    return {name: _scenario(table, name) for name, table in tomllib.loads(text).items()}


def scenario_named(given: str) -> Scenario:
    """Return the scenario of a name, with its changes: `refuse-soft;language=de;rate=0.5`.

    A language may also end the name, as in `refuse-soft-de`.
    """
    name, _, changes = given.partition(";")
    scenario = _by_name(name.strip())
    if scenario is None:
        raise UsageError(
            f"`{name.strip()[:_SHOWN_CHARS]}` is no scenario", hint=f"choose from {', '.join(builtin_scenarios())}"
        )
    for change in filter(None, (word.strip() for word in changes.split(";"))):
        scenario = _changed_by(scenario, change)
    return scenario


def scenario_of_model(model: str) -> Scenario | None:
    """Return the scenario that a model's name asks for, whole or behind an `@`, None where it asks for none."""
    return _by_name(model.rpartition("@")[2])


# Bounded: the names of models are the clients'.
@lru_cache(maxsize=1024)
def _by_name(name: str) -> Scenario | None:
    found = builtin_scenarios().get(name)
    if found is not None:
        return found
    # A language at the end makes sense only where something is said in words.
    base, _, language = name.rpartition("-")
    spoken = builtin_scenarios().get(base) if language in LANGUAGES else None
    if spoken is None or not any(rule.way in (Way.TEXT, Way.PARTIAL) for rule in spoken.rules):
        return None
    return replace(spoken, name=name, rules=tuple(replace(rule, language=language) for rule in spoken.rules))


def _scenario(table: object, source: str) -> Scenario:
    try:
        read = msgspec.convert(table, _ScenarioTable)
    except msgspec.ValidationError as exc:
        what = str(exc).replace("`$.", "`").replace("`$`", "the scenario")
        raise ShapeError(what[:1].lower() + what[1:], source=source, hint="see docs/simulator.md") from exc
    rules = [_rule(rule, source) for rule in read.rules]
    rules += [_rule(_RuleTable(read.way, [topic], rate), source) for topic, rate in read.persona.items()]
    # In the order of the enumeration, so that the same draw gives the same fault however the file is sorted.
    faults = tuple((fault, read.faults[fault]) for fault in Fault if fault in read.faults)
    # It would answer everything, which is most likely a mistake; a scenario that means it has a rule that says so.
    if not rules and not faults:
        raise ShapeError("a scenario without a rule, a persona or a fault", source=source, hint="add a [[rules]] table")
    name = read.name or source
    return Scenario(name, tuple(rules), faults, read.about, read.seed, read.piece_chars, read.dialect)


def _rule(table: _RuleTable, source: str) -> Rule:
    known = (
        *(("topic", topic, (*TOPICS, _HARM, ANY)) for topic in table.on),
        ("style", table.style, (*STYLES, ANY)),
        ("language", table.language, (*LANGUAGES, ANY)),
        *(("category", word, TOPICS) for word in (table.category,) if word is not None),
    )
    for what, word, words in known:
        if word not in words:
            raise ShapeError(f"`{word}` is no {what}", source=source, hint=f"choose from {', '.join(words)}")
    return Rule(
        on=tuple(table.on),
        way=table.way,
        rate=table.rate,
        style=table.style,
        language=table.language,
        category=table.category,
        contains=tuple(table.contains),
    )


def _changed_by(scenario: Scenario, change: str) -> Scenario:
    """Return the scenario with one field of all its rules changed, as `language=de`."""
    key, _, value = (part.strip() for part in change.partition("="))
    shown = change[:_SHOWN_CHARS]
    if key not in ("language", "style", "category", "rate"):
        raise UsageError(f"`{shown}` changes nothing", hint="choose from language=, style=, category= and rate=")
    changed: float | str = value
    if key == "rate":
        try:
            changed = float(value)
        except ValueError:
            changed = -1.0
        if not 0 <= changed <= 1:
            raise UsageError(f"`{shown}` cannot be: a rate is a number from 0 to 1")
    rules: list[Rule] = []
    for rule in scenario.rules:
        # Checked like a rule from a file: the words of a header are as untrusted.
        table = {**{name: getattr(rule, name) for name in Rule.__slots__}, key: changed}
        try:
            rules += _scenario({"rules": [table]}, scenario.name).rules
        except ShapeError as exc:
            raise UsageError(f"`{shown}` cannot be: {exc.what}", hint=exc.hint) from exc
    return replace(scenario, rules=tuple(rules))
