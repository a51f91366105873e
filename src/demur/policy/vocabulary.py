"""The claims of the built-in safety auditor: what policies may read when nothing else is declared."""

from __future__ import annotations

from typing import Final

from demur.model.claim import ClaimSpec, ClaimType, Phase, Vocabulary

__all__ = ["SAFETY_AUDITOR", "SAFETY_VOCABULARY"]

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
