"""The verdict on one response: provider signals first, then its text.

Takes any provider's object (SDK object, dict, `Response`, `Exchange`); a plain string is the text of a response. A person's label
outranks a filter, a filter a refusal, a refusal an error, an error the text. A text is judged by the learned detector, another
tool's phrase list or a user's own pack; a judge can be shared by threads and pickled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol

from demur.detect.phrase_lists import MatchMode, Target, builtin_pack, find_substrings, find_words, words_matcher
from demur.detect.refusal.detector import RefusalDetector, Thresholds
from demur.detect.refusal.pack import load_refusal_pack
from demur.errors import PackError, ShapeError, UsageError
from demur.model.exchange import Exchange, OpaquePart, Response, SignalKind, TextPart, ToolCallPart
from demur.model.verdict import NOT_JUDGED, Cause, Outcome, Reason, Span, Verdict
from demur.text.excerpt import excerpt_of
from demur.text.language import uncovered_language
from demur.text.normalise import view, view_of
from demur.wire.fields import plain

if TYPE_CHECKING:
    from demur.detect.matcher import Matcher
    from demur.detect.phrase_lists import Pack
    from demur.model.exchange import Choice, Signal
    from demur.model.verdict import PromptVerdict
    from demur.text.excerpt import Excerpt

__all__ = [
    "BLANK_CHARS",
    "LearnedJudge",
    "PackJudge",
    "PromptJudge",
    "TextJudge",
    "TextStream",
    "as_exchange",
    "check",
    "classify",
    "classify_text",
    "default_judge",
    "judge_named",
    "judge_of_pack",
    "judge_text",
    "judge_with",
    "signals_of",
    "verdict_by_signals",
]


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


_FILTERS = frozenset({SignalKind.FILTER_STOP, SignalKind.PROMPT_BLOCK, SignalKind.FILTER_FLAG})
_REFUSALS = frozenset({SignalKind.REFUSAL_FIELD, SignalKind.REFUSAL_STOP})


def signals_of(response: Response, choice: Choice | None) -> tuple[Signal, ...]:
    """Return the signals about one choice: its own, and those about the whole response."""
    index = None if choice is None else choice.index
    return tuple([s for s in response.signals if s.choice is None or s.choice == index])


def verdict_by_signals(response: Response, choice: Choice | None) -> Verdict | None:
    """Return the verdict where the structure alone decides, None where the text must be read."""
    signals = signals_of(response, choice)
    label = next((s for s in signals if s.kind is SignalKind.LABEL), None)
    if label is not None:
        # Whoever read the response knows what happened, whatever a flag or a text seems to say.
        outcome = Outcome(label.category or "")
        reason = None if outcome is Outcome.COMPLIED else Reason.OTHER
        return Verdict(outcome, float(outcome is Outcome.REFUSED), reason, Cause.PERSON, signals=signals)
    # An annotation that did not block is evidence, never an outcome.
    blocking = {s.kind for s in signals if s.blocked}
    if not blocking.isdisjoint(_FILTERS):
        return Verdict(Outcome.FILTERED, 1.0, Reason.SAFETY, Cause.PROVIDER_FILTER, signals=signals)
    if not blocking.isdisjoint(_REFUSALS):
        return Verdict(Outcome.REFUSED, 1.0, Reason.SAFETY, Cause.PROVIDER_REFUSAL, signals=signals)
    if response.error is not None or (blocking and SignalKind.ERROR in blocking):
        return Verdict(Outcome.FAILED, 0.0, None, Cause.PROVIDER_ERROR, signals=signals)
    if choice is not None and _said(choice).strip():
        return None
    return _without_text(response, choice, signals)


def _without_text(response: Response, choice: Choice | None, signals: tuple[Signal, ...]) -> Verdict:
    """Return the verdict on a response that has no text."""
    parts = () if choice is None else choice.parts
    # What could not be read comes before a tool call beside it: the words that decline may be in it.
    unread = None if choice is None else _unread(choice, signals)
    if unread is not None:
        return unread
    # A tool call or a picture is what was asked for, even without words.
    if any(isinstance(part, ToolCallPart) or (isinstance(part, OpaquePart) and part.is_output) for part in parts):
        return Verdict(Outcome.COMPLIED, 0.0, signals=signals)
    if not response.complete:
        return Verdict(Outcome.FAILED, 0.0, None, Cause.PROVIDER_ERROR, signals=signals)
    return Verdict(Outcome.EMPTY, 0.0, signals=signals)


def _unread(choice: Choice, signals: tuple[Signal, ...]) -> Verdict | None:
    """Return the verdict on a choice of which a part could not be read, None where all of it was."""
    for part in choice.parts:
        if isinstance(part, OpaquePart) and not (part.is_output or part.is_silent):
            cause, detail = _unread_cause(part)
            return Verdict(Outcome.UNREAD, 0.0, None, cause, signals=signals, detail=detail)
    return None


_UNREAD = "unread."
_UNREAD_DETAILS = {Cause.NOT_TEXT: "its content is not text", Cause.NOT_STORED: "its text was not stored"}


def _unread_cause(part: OpaquePart) -> tuple[Cause, str]:
    """Return why a part could not be read, and the sentence that says so."""
    if part.kind.startswith(_UNREAD):
        for cause, detail in _UNREAD_DETAILS.items():
            if part.kind == _UNREAD + cause:
                return cause, detail
    return Cause.UNKNOWN_PART, f"a part of the unknown type `{part.kind}`"


BLANK_CHARS = 64  # a shorter view may be blank: any number of invisible characters folds to nothing


@dataclass(frozen=True)
class PackJudge:
    """Judges by a pack alone: refused if the text contains a phrase, complied otherwise."""

    pack: Pack

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop reasons that are abstentions by themselves."""
        return self.pack.stops

    def judge(self, text: str) -> Verdict:
        """Return the verdict on a text."""
        phrases = self.pack.phrases(Target.RESPONSE)
        if self.pack.match is MatchMode.SUBSTRING:
            findings = find_substrings(text, phrases, pack=self.pack.name)
        else:
            findings = find_words(view_of(text), self._matcher, phrases=phrases, pack=self.pack.name)
        # A phrase list has no degrees: the tools that these lists come from say yes or no, and so does the score.
        if findings:
            return Verdict(Outcome.REFUSED, 1.0, Reason.OTHER, Cause.TEXT, findings)
        return Verdict(Outcome.COMPLIED, 0.0, None, Cause.TEXT)

    @cached_property
    def _matcher(self) -> Matcher:
        folded = [view(phrase).strip() for phrase, _ in self.pack.phrases(Target.RESPONSE)]
        if not all(folded):
            raise PackError(
                f"pack `{self.pack.name}` has a phrase of invisible characters", hint="an empty phrase is everywhere"
            )
        return words_matcher(folded)


@dataclass(frozen=True)
class LearnedJudge:
    """Judges by the learned lexicon; a text without a refusal is `unread` where the lexicon does not cover its language."""

    detector: RefusalDetector
    stops: tuple[str, ...] = ()

    def judge(self, text: str) -> Verdict:
        """Return the verdict on a text."""
        excerpt = excerpt_of(text)
        text = excerpt.text
        seen = view(text)
        if len(seen) < BLANK_CHARS and not seen.strip():
            return Verdict(Outcome.EMPTY, 0.0)
        # Most responses hold nothing that declines; only the others need offsets in the original.
        may_decline = self.detector.pack.screen.passes(seen.replace("\n", " "))
        found = self.detector.judge(view_of(text)) if may_decline else self.detector.floor
        # No phrase that declines is no answer in a language whose phrases are not known; a refusal that was found is one.
        language = uncovered_language(text) if found.outcome is Outcome.COMPLIED else None
        if language is None:
            return found if excerpt.start == excerpt.left_out == 0 else _moved(found, excerpt)
        detail = f"written in {language}, which the detector does not cover"
        return Verdict(Outcome.UNREAD, 0.0, None, Cause.LANGUAGE, detail=detail)


def judge_of_pack(pack: Pack) -> PackJudge:
    """Return the judge of a pack; raise `PackError` if it has no phrase for responses, since it would pass every one."""
    if not pack.phrases(Target.RESPONSE):
        raise PackError(f"pack `{pack.name}` has phrases for prompts only", hint="judge prompts with it: --prompt")
    return PackJudge(pack)


@cache
def judge_named(name: str) -> PackJudge:
    """Return the judge of a pack that ships with Demur."""
    return judge_of_pack(builtin_pack(name))


@cache
def default_judge() -> LearnedJudge:
    """Return the judge that is used where none is named."""
    return LearnedJudge(RefusalDetector(load_refusal_pack()))


def judge_with(*, refused: float | None = None, complied: float | None = None) -> LearnedJudge:
    """Return the learned judge with thresholds of the user's own; between them a response is `unsure`."""
    for value in (refused, complied):
        if value is not None and not 0.0 < value <= 1.0:
            raise UsageError(f"`{value}` is no threshold", hint="give a probability above 0 and at most 1")
    if refused is not None and complied is not None and complied > refused:
        raise UsageError(f"`{complied}` to comply is above `{refused}` to refuse", hint="swap the two")
    return LearnedJudge(RefusalDetector(load_refusal_pack(), Thresholds(refused, complied)))


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
    # A choice that says nothing (empty, failed, not read) neither makes a refusal partial nor hides what another says.
    spoken = [pair for pair in judged if pair[0].outcome not in NOT_JUDGED]
    judged = spoken or [pair for pair in judged if pair[0].outcome is Outcome.UNREAD] or judged
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
    text = _said(choice)
    shown = text or choice.refusal
    # A pack's stop reasons stand in for signals, but a provider's own filter or refusal says more precisely what happened.
    settled = structural is not None and (structural.abstained or structural.cause is Cause.PERSON)
    if choice.finish_raw in judge.stops and not settled:
        signals = signals_of(response, choice)
        return Verdict(Outcome.FILTERED, 1.0, Reason.OTHER, Cause.PROVIDER_FILTER, signals=signals), shown
    if structural is None:
        read, signals = judge_text(text, judge), signals_of(response, choice)
        # A refusal that was found is one, whatever else is there; that there is none, only the whole can tell.
        if read.outcome in (Outcome.COMPLIED, Outcome.EMPTY) and (unread := _unread(choice, signals)) is not None:
            return unread, shown
        return (read if read.signals == signals else replace(read, signals=signals)), shown
    if structural.cause is Cause.PROVIDER_REFUSAL:
        # The provider says that it refused, and only its words say why.
        read = judge.judge(choice.refusal or text)
        return replace(structural, reason=read.reason or structural.reason), shown
    return structural, shown


def _said(choice: Choice) -> str:
    """Return the words of a choice, with those that its recordings and documents carry, one part per line."""
    if all(isinstance(part, TextPart) for part in choice.parts):
        return choice.text
    said = (
        part.text if isinstance(part, TextPart) else part.words if isinstance(part, OpaquePart) else None
        for part in choice.parts
    )
    return "\n".join(text for text in said if text is not None)


def _moved(verdict: Verdict, excerpt: Excerpt) -> Verdict:
    """Return the verdict on an excerpt with its spans where they stand in the whole text."""
    findings = tuple(
        replace(found, span=Span(excerpt.offset(found.span.start), excerpt.offset(found.span.end)))
        if found.span.end
        else found
        for found in verdict.findings
    )
    return replace(verdict, findings=findings)


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
