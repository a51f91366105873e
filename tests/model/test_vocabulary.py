"""The vocabulary: frozen, ordered where it says so, and honest about not knowing."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil

import msgspec
import pytest

import demur.model
from demur.model.claim import AuditorRun, AuditorStatus, Claim, ClaimType, Decision, Effect, FiredRule, Phase
from demur.model.estimate import Difference, Interval, Rate
from demur.model.passport import Commitment, Passport, PhaseRecord
from demur.model.verdict import NormalText, Span

MODULES = [importlib.import_module(f"demur.model.{m.name}") for m in pkgutil.iter_modules(demur.model.__path__)]
OWN = [v for m in MODULES for v in vars(m).values() if isinstance(v, type) and v.__module__ == m.__name__]
VALUES = [value for value in OWN if dataclasses.is_dataclass(value) or issubclass(value, msgspec.Struct)]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
def test_values_never_change(value: type) -> None:
    """Every value of the vocabulary is frozen, dataclass or struct, so that a stage cannot reach into another's."""
    made_by = "__struct_config__" if issubclass(value, msgspec.Struct) else "__dataclass_params__"
    assert getattr(value, made_by).frozen


def test_the_strongest_effect_wins() -> None:
    """Effects are ordered from allow to deny, and say their word."""
    rules = (FiredRule("log-all", Effect.LOG), FiredRule("no-attacks", Effect.DENY, "attack"))
    assert max(rule.effect for rule in rules) is Effect.DENY
    assert [effect.word for effect in sorted(Effect)] == ["allow", "log", "warn", "redact", "review", "deny"]


def test_a_passport_holds_no_text() -> None:
    """What was said appears as a digest and a length; what decided is all there."""
    claim = Claim("toxic_content", ClaimType.SCORE_NORMALIZED, 0.45, Phase.REQUEST, "safety-checker")
    turn = AuditorRun("safety-checker", "1", AuditorStatus.TIMEOUT, 250_000, "closed")
    phase = PhaseRecord(Phase.REQUEST, (claim,), Decision(Effect.DENY, errors=("timeout",)), (turn,))
    record = Passport("s", 0, "2026-01-01T00:00:00Z", "m", "m", "c", "p", Commitment("00", 12), None, (phase,))
    assert record.phases[0].auditors[0].failure_mode == "closed"
    assert set(Commitment.__struct_fields__) == {"digest", "size_bytes"}


def test_no_rate_is_known_of_nothing() -> None:
    """A rate over nothing has no value, and a difference carries its doubt."""
    unknown = Interval(0.0, 1.0, "wilson")
    assert Rate(0, 0, unknown).value is None
    assert Rate(1, 4, unknown).value == 0.25
    assert Difference(0.1, unknown, 0.04, 50).interval.level == 0.95


def test_spans_map_back() -> None:
    """Without a map a stretch is itself; with one it is the smallest original stretch, empty ones included."""
    assert NormalText("abc", "abc").span(1, 2) == Span(1, 2)
    folded = NormalText("a\u200bbc", "abc", (0, 2, 3), (1, 3, 4))
    assert (folded.span(0, 2), folded.span(3, 3), folded.span(1, 1)) == (Span(0, 3), Span(4, 4), Span(2, 2))
    assert Span(1, 3).of("abcd") == "bc"
