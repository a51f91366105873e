"""The interfaces of judges, so that one can be replaced by another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from demur.model.verdict import PromptVerdict, Verdict

__all__ = ["PromptJudge", "TextJudge"]


class PromptJudge(Protocol):
    """Judges the text of a prompt; knows nothing of providers."""

    def judge(self, text: str) -> PromptVerdict:
        """Return what a prompt tries, with spans in it."""


class TextJudge(Protocol):
    """Judges the text of a response; knows nothing of providers but the stop reasons that are conclusive."""

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop reasons that are abstentions whatever the text."""

    def judge(self, text: str) -> Verdict:
        """Return the verdict on a text, with cause `text` and spans in it."""
