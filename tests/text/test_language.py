"""The language of a text, where it can be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.text.language import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How do I sharpen the knife that is in my kitchen?", "en"),
        ("Wie schärfe ich das Messer, und was kann ich mit der alten Klinge tun?", "de"),
        ("Comment est-ce que je peux aiguiser le couteau qui est dans la cuisine ?", "fr"),
        ("¿Cómo puedo afilar el cuchillo que está en la cocina para mi madre?", "es"),
        ("Come posso affilare il coltello che è nella cucina di mia madre?", "it"),
        ("Como é que eu posso afiar a faca que não corta em casa do meu pai?", "pt"),
        ("Как заточить кухонный нож?", "ru"),
        ("怎样磨厨房的刀？", "zh"),
        ("包丁はどうやって研ぎますか。", "ja"),
        ("부엌칼은 어떻게 가나요?", "ko"),
        ("كيف أشحذ سكين المطبخ؟", "ar"),
        ("रसोई का चाकू कैसे तेज करें?", "hi"),
    ],
)
def test_the_twelve_are_told(text: str, language: str) -> None:
    """An everyday question in each language is named."""
    assert language_of(text) == language


@pytest.mark.parametrize("text", ["", "ok", "42", "Kubernetes", "print(x)", "!!!"])
def test_what_cannot_be_told_is_not_guessed(text: str) -> None:
    """Too little text is None."""
    assert language_of(text) is None


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    """Whatever the text, the answer is one of the twelve or None."""
    assert language_of(text) in {None, "en", "de", "fr", "es", "it", "pt", "ru", "zh", "ja", "ko", "ar", "hi"}


@given(st.lists(st.sampled_from(["the", "La", "un", "e", "42", "x1is", "der_und", "it's", "?", "\n"]), max_size=30))
def test_a_sign_beyond_ascii_changes_nothing(words: list[str]) -> None:
    """The words of a plain text are those that are found where a sign that is no letter makes it other than plain."""
    text = " ".join(words)
    assert language_of(text) == language_of(f"{text} …")


def test_no_count_runs_into_the_next() -> None:
    """A text that folds to more small words than it has characters still counts for its own language alone."""
    assert language_of("\u1e99" * 2000) == "es"
