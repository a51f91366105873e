"""How a claim's value becomes a Cedar value, by its declared type; and the built-in auditor's declarations.

A value that its type does not allow is an error with a reason, never a guess; an absent or null claim is absent, never zero.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from demur.model.claim import ClaimSpec, ClaimType, Phase, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "SAFETY_AUDITOR",
    "SAFETY_VOCABULARY",
    "CedarKind",
    "CedarValue",
    "cedar_kind",
    "cedar_value",
    "decimal_value",
    "is_cedar_value",
    "score_range",
    "unlabelled_value",
]

# What a claim is in the context: a boolean, a text, a set of texts, or a decimal as Cedar's JSON writes it.
CedarValue: TypeAlias = bool | int | str | list[str] | dict[str, dict[str, str]]
_SCORE, _BOOLEAN = ClaimType.SCORE_NORMALIZED, ClaimType.BOOLEAN
_CATEGORY, _CATEGORIES = ClaimType.CATEGORY, ClaimType.CATEGORY_LIST
_STEP: Final = Decimal("0.0001")
_PLACES: Final = 4  # the most that a Cedar decimal holds
_HALF_STEPS: Final = 20_000
_NEAR: Final = 1e-9
_FAR: Final = Decimal("922337203685477.5807")
_RANGES: Final[Mapping[ClaimType, tuple[Decimal, Decimal]]] = {
    ClaimType.SCORE_BINARY: (Decimal(0), Decimal(1)),
    ClaimType.SCORE_NORMALIZED: (Decimal(0), Decimal(1)),
    ClaimType.SCORE_PERCENTAGE: (Decimal(0), Decimal(100)),
}


class CedarKind(StrEnum):
    """The four kinds of value that a claim can have in a policy, in the words of a Cedar schema."""

    BOOL = "Bool"
    DECIMAL = "decimal"
    TEXT = "String"
    TEXTS = "Set<String>"


_KINDS: Final[Mapping[ClaimType, CedarKind]] = {
    ClaimType.SCORE_BINARY: CedarKind.DECIMAL,
    ClaimType.SCORE_NORMALIZED: CedarKind.DECIMAL,
    ClaimType.SCORE_PERCENTAGE: CedarKind.DECIMAL,
    ClaimType.BOOLEAN: CedarKind.BOOL,
    ClaimType.CONFORMITY: CedarKind.BOOL,
    ClaimType.CATEGORY_LIST: CedarKind.TEXTS,
    ClaimType.CATEGORY: CedarKind.TEXT,
    ClaimType.POLICY_VIOLATION: CedarKind.TEXT,
}


def cedar_kind(declared: ClaimType) -> CedarKind:
    """Return what a policy may do with a claim of a type."""
    return _KINDS[declared]


def score_range(declared: ClaimType) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest value of a score."""
    return _RANGES[declared]


def cedar_value(value: object, declared: ClaimType) -> CedarValue:
    """Return a value as Cedar's JSON; raise `ValueError` with the reason where the declared type does not allow it."""
    # The commonest values take this short way: claims are converted for every decision.
    if type(value) is float:
        text = _rounded_text(value) if declared is _SCORE and 0.0 <= value <= 1.0 else None
        return _by_its_kind(value, declared) if text is None else {"__extn": {"fn": "decimal", "arg": text}}
    if type(value) is bool:
        return value if declared is _BOOLEAN else _by_its_kind(value, declared)
    if type(value) is str and declared is _CATEGORY and value.isascii():
        return value
    if type(value) is tuple and declared is _CATEGORIES and not value:
        return []
    return _by_its_kind(value, declared)


def _by_its_kind(value: object, declared: ClaimType) -> CedarValue:
    """Return a value by the rules of its kind, the commonest ones included."""
    match _KINDS[declared]:
        case CedarKind.BOOL:
            if not isinstance(value, bool):
                raise ValueError(f"{_kind_of_thing(value)} is not true or false")  # noqa: TRY004 — callers catch one kind of error for every bad value
            return value
        case CedarKind.TEXT:
            return _unicode_text(value)
        case CedarKind.TEXTS:
            if not isinstance(value, list | tuple):
                raise ValueError(f"{_kind_of_thing(value)} is not a list of texts")  # noqa: TRY004 — as above
            return sorted({_unicode_text(element) for element in value}) if value else []
        case CedarKind.DECIMAL:
            score = _quantised(value, binary=declared is ClaimType.SCORE_BINARY)
            low, high = _RANGES[declared]
            if not low <= score <= high or (declared is ClaimType.SCORE_BINARY and score not in (low, high)):
                raise ValueError(f"{score.normalize():f} is outside {low} to {high}")
            return decimal_value(score)


def unlabelled_value(value: object) -> CedarValue:
    """Return a value that nobody has declared, by what it is itself: a number is a score without a range."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        score = _quantised(value, binary=False)
        if abs(score) > _FAR:
            raise ValueError("a number too large")
        return decimal_value(score)
    if isinstance(value, list | tuple):
        return sorted({_unicode_text(element) for element in value})
    return _unicode_text(value)


def is_cedar_value(value: object) -> bool:
    """Return whether a value is of a form that `cedar_value` gives."""
    match value:
        case bool() | str():
            return True
        case list():
            return all(isinstance(element, str) for element in value)
        case {"__extn": {"fn": "decimal", "arg": str(), **more}, **rest}:
            return not more and not rest
    return False


def decimal_value(score: Decimal) -> dict[str, dict[str, str]]:
    """Return a score as Cedar's JSON writes a decimal: `0.8` as `0.8`, `1` as `1.0`."""
    text = f"{score.normalize() + 0:f}"
    return {"__extn": {"fn": "decimal", "arg": (text if "." in text else f"{text}.0")}}


def _rounded_text(score: float) -> str | None:
    """Return a score from 0 to 1 as `decimal_value` writes it, ten times faster; None where it cannot be sure."""
    # A float and the shortest digits that represent it (its `repr`) differ by far less than `_NEAR` half steps, so away from
    # a half step both round alike. Near one the digits decide, and are used as they are where they are few enough.
    if _NEAR < score * _HALF_STEPS % 1.0 < 1.0 - _NEAR:
        text = f"{score:.4f}".rstrip("0")
        return text + "0" if text[-1] == "." else text
    digits = repr(score)
    return digits if len(digits) <= _PLACES + 2 and digits[0] != "-" and "e" not in digits else None


def _quantised(value: object, *, binary: bool) -> Decimal:
    if isinstance(value, bool) and not binary:
        raise ValueError(f"{_kind_of_thing(value)} is not a number")
    if not isinstance(value, int | float):
        raise ValueError(f"{_kind_of_thing(value)} is not a number")  # noqa: TRY004 — one kind of error for every bad value
    if isinstance(value, int) and abs(value) > _FAR:
        # Before it is converted: an integer of many thousand digits cannot be.
        raise ValueError("a number too large")
    exact = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(int(value))
    if not exact.is_finite():
        raise ValueError(f"{value} is not a finite number")
    if abs(exact) > _FAR:
        raise ValueError("a number too large")
    # From the digits that the auditor wrote, not from the binary fraction behind them.
    return exact.quantize(_STEP, rounding=ROUND_HALF_EVEN)


def _unicode_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_kind_of_thing(value)} is not a text")  # noqa: TRY004 — one kind of error for every bad value
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("a text that is not Unicode") from None
    return str(value)


def _kind_of_thing(value: object) -> str:
    """Return what kind of thing a value is."""
    # Never the value itself: it may be the user's text, and this goes into logs.
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list | tuple) else "an object"


SAFETY_AUDITOR: Final = "safety-checker"
_REQUEST, _RESPONSE = Phase.REQUEST, Phase.RESPONSE
_ROWS: Final = (
    ("toxic_content", ClaimType.SCORE_NORMALIZED, _REQUEST, "how strongly the prompt speaks for an attack or harm"),
    ("refusal_category", ClaimType.CATEGORY, _REQUEST, "the strongest attack or harm category of the prompt"),
    ("safety_flagged", ClaimType.BOOLEAN, _REQUEST, "whether anything in the prompt was found"),
    ("adversarial_score", ClaimType.SCORE_NORMALIZED, _REQUEST, "how likely the prompt is an attack"),
    ("adversarial_flagged", ClaimType.BOOLEAN, _REQUEST, "whether the prompt is taken for an attack"),
    ("harm_categories", ClaimType.CATEGORY_LIST, _REQUEST, "the harm categories that the prompt touches"),
    ("harm_score", ClaimType.SCORE_NORMALIZED, _REQUEST, "how strongly the prompt asks for harm"),
    ("language", ClaimType.CATEGORY, _REQUEST, "the language of the prompt"),
    ("model_refused", ClaimType.BOOLEAN, _RESPONSE, "whether the response is a refusal"),
    ("refusal_phrase", ClaimType.CATEGORY, _RESPONSE, "the words that made it one"),
    ("refusal_outcome", ClaimType.CATEGORY, _RESPONSE, "the verdict: complied, partial, refused, filtered, …"),
    ("refusal_score", ClaimType.SCORE_NORMALIZED, _RESPONSE, "how likely the response is a refusal"),
    ("refusal_reason", ClaimType.CATEGORY, _RESPONSE, "why: safety, capability or other"),
    ("refusal_cause", ClaimType.CATEGORY, _RESPONSE, "whose no it was: provider_filter, text_refusal, …, as on record"),
)
_SENSITIVE: Final = frozenset({"refusal_phrase"})  # claims that carry the user's or the model's own words

SAFETY_VOCABULARY: Final = Vocabulary(
    tuple(
        ClaimSpec(name, kind, phase, SAFETY_AUDITOR, sensitive=name in _SENSITIVE, description=description)
        for name, kind, phase, description in _ROWS
    )
)
