"""The verdict on one response: provider signals first, then its text.

Takes any provider's object (SDK object, dict, `Response`, `Exchange`); a plain string is the text of a response.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from demur.detect.judges import LearnedJudge, default_judge, judge_named
from demur.detect.signals import refusal_text, signals_of, verdict_by_signals
from demur.errors import ShapeError
from demur.model.exchange import Exchange, Response
from demur.model.verdict import Cause, Outcome, Reason, Verdict
from demur.text.view import view
from demur.wire.document import plain

if TYPE_CHECKING:
    from demur.detect.interface import TextJudge
    from demur.model.exchange import Choice

__all__ = ["TextStream", "as_exchange", "check", "classify", "classify_text", "judge_text"]


def check(response: object, *, pack: str | None = None, judge: TextJudge | None = None) -> Verdict:
    """Return the verdict on a response: its text, or any provider's response object or dict.

    `pack` names the phrase list of another tool (`shadow`, `lucid`) to judge texts by; `judge` is any other judge.
    """
    judge = judge or (judge_named(pack) if pack else default_judge())
    if isinstance(response, str):
        return judge_text(response, judge)
    return classify(as_exchange(response).response, judge=judge)


def as_exchange(value: object) -> Exchange:
    """Return the exchange in a provider's object, a dict, JSON text as bytes, or one of our own values."""
    if isinstance(value, Exchange):
        return value
    if isinstance(value, Response):
        return Exchange(None, value)
    body = plain(value)
    if not isinstance(body, dict):
        raise ShapeError("expected a JSON object", hint="pass one response, not a list or a bare value")
    # Imported here: most texts that are judged come from files, whose readers need no provider's format.
    from demur.wire.shapes import read_exchange

    return read_exchange(body)


def classify(response: Response | None, *, judge: TextJudge | None = None) -> Verdict:
    """Return the verdict on a response; a missing one has failed, for nothing came back."""
    return classify_text(response, judge=judge)[0]


def classify_text(response: Response | None, *, judge: TextJudge | None = None) -> tuple[Verdict, str]:
    """Return the verdict on a response and the text that its spans count in: that of the choice that decided."""
    if response is None:
        return Verdict(Outcome.FAILED, 0.0, None, Cause.PROVIDER_ERROR), ""
    judge = judge or default_judge()
    choices: tuple[Choice | None, ...] = response.choices or (None,)
    judged = [_classify_choice(response, choice, judge) for choice in choices]
    if len(judged) == 1:
        return judged[0]
    abstained = [(verdict, text) for verdict, text in judged if verdict.abstained]
    if not abstained or len(abstained) == len(judged):
        return judged[0]
    # The user can pick a choice that complied, so the request was not refused as a whole.
    verdict, text = abstained[0]
    signals = tuple(dict.fromkeys(s for v, _ in judged for s in v.signals))
    return replace(verdict, outcome=Outcome.PARTIAL, signals=signals), text


def judge_text(text: str, judge: TextJudge) -> Verdict:
    """Return the verdict on a bare text; one without any visible character is empty."""
    return judge.judge(text) if text.strip() else Verdict(Outcome.EMPTY, 0.0)


def _classify_choice(response: Response, choice: Choice | None, judge: TextJudge) -> tuple[Verdict, str]:
    """Return the verdict on a choice, and its text."""
    structural = verdict_by_signals(response, choice)
    if choice is None:
        return structural or judge_text("", judge), ""
    text = choice.text
    shown = text or refusal_text(choice)
    # A pack's stop reasons stand in for signals, but a provider's own filter or refusal says more precisely what happened.
    if choice.finish_raw in judge.stops and not (structural and structural.abstained):
        signals = signals_of(response, choice)
        return Verdict(Outcome.FILTERED, 1.0, Reason.OTHER, Cause.PROVIDER_FILTER, signals=signals), shown
    if structural is None:
        read, signals = judge_text(text, judge), signals_of(response, choice)
        return (read if read.signals == signals else replace(read, signals=signals)), shown
    if structural.cause is Cause.PROVIDER_REFUSAL:
        # The provider says that it refused, and only its words say why.
        read = judge.judge(refusal_text(choice) or text)
        return replace(structural, reason=read.reason or structural.reason), shown
    return structural, shown


_CARRIED = 400  # characters kept for the next look: longer than any phrase, with room for what folding drops


class TextStream:
    """Takes a response piece by piece."""

    def __init__(self, judge: LearnedJudge | None = None) -> None:
        self._judge = judge or default_judge()
        self._pieces: list[str] = []
        self._carried = ""
        self._may_decline = False

    def feed(self, piece: str) -> bool:
        """Take the next piece; return whether the text so far may hold a phrase that declines."""
        self._pieces.append(piece)
        # Once a phrase may be there it stays there, so the rest of the stream costs nothing.
        if not self._may_decline:
            window = self._carried + piece
            self._may_decline = self._judge.detector.pack.screen.passes(view(window).replace("\n", " "))
            self._carried = window[-_CARRIED:]
        return self._may_decline

    def verdict(self) -> Verdict:
        """Return the verdict on the text so far."""
        return judge_text("".join(self._pieces), self._judge)
