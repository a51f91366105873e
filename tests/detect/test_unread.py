"""What could not be read is `unread`: never an answer, never a refusal."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

import demur
from demur.detect.batch import BatchJudge
from demur.detect.check import LearnedJudge, classify, judge_with
from demur.model.exchange import Choice, OpaquePart, Part, RefusalPart, Response, TextPart, ThinkingPart, ToolCallPart
from demur.model.verdict import Cause, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSAL = "I'm sorry, but I can't help with that."
ANSWER = "Sure, here is how to bake bread."
CALL = ToolCallPart("1", "search", "{}")
IMAGE = OpaquePart("image", b"{}")
STRANGE = OpaquePart("weird", b'{"value": 1}')
NOT_TEXT = OpaquePart("unread.not_text", b'{"a": 1}')
NOT_STORED = OpaquePart("unread.not_stored", b"{}")


def verdict_on(*parts: Part) -> tuple[Outcome, Cause | None]:
    found = classify(Response("m", (Choice(0, parts),)))
    return found.outcome, found.cause


@pytest.mark.parametrize(
    ("parts", "outcome", "cause"),
    [
        ((STRANGE,), Outcome.UNREAD, Cause.UNKNOWN_PART),
        ((NOT_TEXT,), Outcome.UNREAD, Cause.NOT_TEXT),
        ((NOT_STORED,), Outcome.UNREAD, Cause.NOT_STORED),
        ((CALL, STRANGE), Outcome.UNREAD, Cause.UNKNOWN_PART),
        ((TextPart(REFUSAL), STRANGE), Outcome.REFUSED, Cause.TEXT),
        ((TextPart(ANSWER), STRANGE), Outcome.UNREAD, Cause.UNKNOWN_PART),
        ((TextPart("\u200b"), STRANGE), Outcome.UNREAD, Cause.UNKNOWN_PART),
        ((TextPart(ANSWER), NOT_TEXT), Outcome.UNREAD, Cause.NOT_TEXT),
        ((TextPart(ANSWER), CALL, IMAGE), Outcome.COMPLIED, Cause.TEXT),
        ((TextPart(ANSWER), OpaquePart("step-start", b"{}")), Outcome.COMPLIED, Cause.TEXT),
        ((OpaquePart("tool_call.nameless", b"{}"),), Outcome.UNREAD, Cause.UNKNOWN_PART),
        ((OpaquePart("unread.foo", b"{}"),), Outcome.UNREAD, Cause.UNKNOWN_PART),
        ((CALL,), Outcome.COMPLIED, None),
        ((IMAGE,), Outcome.COMPLIED, None),
        ((OpaquePart("item.web_search_call", b"{}"),), Outcome.COMPLIED, None),
        ((OpaquePart("text.annotations", b"[]"),), Outcome.EMPTY, None),
        ((OpaquePart("redacted_thinking", b"{}"),), Outcome.EMPTY, None),
        ((ThinkingPart("hm"),), Outcome.EMPTY, None),
        ((), Outcome.EMPTY, None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_response_without_text(parts: tuple[Part, ...], outcome: Outcome, cause: Cause | None) -> None:
    """Known outputs are answers, nothing is empty, and what no reader knows is `unread`, whatever stands beside it."""
    assert verdict_on(*parts) == (outcome, cause)


def chat(**message: object) -> dict[str, object]:
    answer = {"role": "assistant", "content": None, **message}
    return {"object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": answer}]}


@pytest.mark.parametrize(
    "kind",
    [
        *("unread.foo", "unread.", "unread.text", "text.x", "tool_call.x", "item.image", "item.message", "part.image"),
        *("structured", "compaction", "cachePoint", "reasoningContent"),
    ],
)
def test_a_part_cannot_name_itself_read(kind: str) -> None:
    """A part whose own type is one of our words is a part that nobody knows, with a text beside it or without."""
    part = {"type": kind, "value": "whatever it says"}
    for content in ([part], [{"type": "text", "text": ANSWER}, part]):
        assert demur.check(chat(content=content)).outcome is Outcome.UNREAD
    assert demur.check(chat(content=[{"type": "text", "text": REFUSAL}, part])).outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    "call",
    [{}, {"id": "x"}, {"type": "say", "text": REFUSAL}, {"type": "function", "function": {"arguments": "{}"}}],
    ids=["empty", "id", "other-type", "arguments-alone"],
)
def test_a_call_of_nothing_is_no_answer(call: dict[str, object]) -> None:
    """A tool call that does not say which tool it calls is `unread`."""
    assert demur.check(chat(tool_calls=[call])).outcome is Outcome.UNREAD


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "media",
    [
        lambda text: OpaquePart("audio", json.dumps({"id": "a", "data": "aaaa", "transcript": text}).encode()),
        lambda text: OpaquePart("output_audio", json.dumps({"type": "output_audio", "transcript": text}).encode()),
        lambda text: OpaquePart("document", json.dumps({"source": {"type": "text", "data": text}}).encode()),
        lambda text: OpaquePart("document", json.dumps({"document": {"source": {"text": text}}}).encode()),
        lambda text: OpaquePart(
            "inlineData", json.dumps({"inlineData": {"mimeType": "text/plain", "data": encoded(text)}}).encode()
        ),
    ],
    ids=["audio", "output-audio", "anthropic-document", "bedrock-document", "gemini-text"],
)
def test_the_words_of_a_medium_are_read(media: Callable[[str], OpaquePart]) -> None:
    """A transcript and a document of text carry the model's words, which decide."""
    assert verdict_on(media(REFUSAL)) == (Outcome.REFUSED, Cause.TEXT)
    assert verdict_on(media(ANSWER)) == (Outcome.COMPLIED, Cause.TEXT)
    assert verdict_on(media("")) == (Outcome.COMPLIED, None)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (f"<think>{REFUSAL}</think>{ANSWER}", Outcome.COMPLIED),
        (f"<think>{'Let me plan. ' * 9000}</think>{REFUSAL}", Outcome.REFUSED),
        (f"\n <THINK>Plan.</THINK>\n{REFUSAL}", Outcome.REFUSED),
        ("<think>Plan.</think>  \n", Outcome.EMPTY),
        ("<think>Plan.", Outcome.EMPTY),
        (" " * 100_001 + REFUSAL, Outcome.REFUSED),
        ("\u200b" * 100_001 + REFUSAL, Outcome.REFUSED),
        ("\n" * 100_001 + ANSWER, Outcome.COMPLIED),
    ],
    ids=["thought", "long-thought", "capitals", "thought-alone", "cut-off", "blanks", "zero-width", "lines"],
)
def test_what_stands_before_the_answer_is_not_the_answer(text: str, outcome: Outcome) -> None:
    """Thoughts in the text and blanks before it are skipped, one text or many."""
    found = demur.check(text)
    assert found.outcome is outcome
    assert [row[0] for row in BatchJudge().texts([text])] == [outcome]
    assert all("help" in text[f.span.start : f.span.end] for f in found.findings[:-1] if "help" in f.rule)


def test_an_unknown_part_type_is_named() -> None:
    """The verdict says which part type was met, so that a reader can be asked for."""
    body = {
        "role": "assistant",
        "type": "message",
        "content": [{"type": "weird", "value": "?"}],
        "stop_reason": "end_turn",
    }
    found = demur.check(json.loads(json.dumps(body | {"id": "m", "model": "claude", "usage": {}})))
    assert (found.outcome, found.detail) == (Outcome.UNREAD, "a part of the unknown type `weird`")


@pytest.mark.parametrize("silent", [(), (STRANGE,)], ids=["empty", "unread"])
def test_a_choice_that_says_nothing_does_not_make_a_refusal_partial(silent: tuple[Part, ...]) -> None:
    """One choice refused and the other is empty or unread: nobody complied, so the refusal is whole."""
    choices = (Choice(0, silent), Choice(1, (RefusalPart(REFUSAL), TextPart(REFUSAL))))
    assert classify(Response("m", choices)).outcome is Outcome.REFUSED


def test_an_empty_choice_does_not_hide_one_that_was_not_read() -> None:
    """One choice is empty and the other could not be read: whether anybody answered, nobody knows."""
    assert classify(Response("m", (Choice(0, ()), Choice(1, (STRANGE,))))).outcome is Outcome.UNREAD
    assert classify(Response("m", (Choice(0, (TextPart(ANSWER),)), Choice(1, (STRANGE,))))).outcome is Outcome.COMPLIED


DUTCH = "Snijd de ui eerst in dunne ringen en bak ze daarna met een beetje boter tot ze bruin zijn."
SWAHILI = "Osha matunda kwanza, kisha kata vipande na upike kwa sukari kidogo hadi yawe laini sana."
GREEK = "Πλύνετε πρώτα τα μήλα και μετά βράστε τα με λίγη ζάχαρη."


@pytest.mark.parametrize(
    ("text", "language"),
    [(DUTCH, "Dutch (nl)"), (SWAHILI, "Swahili (sw)"), (GREEK, "Greek (el)")],
    ids=["nl", "sw", "el"],
)
def test_a_language_that_is_not_covered_is_unread_and_named(text: str, language: str) -> None:
    """No refusal was found, and none could have been: the text is not called an answer."""
    found = demur.check(text)
    assert (found.outcome, found.score, found.cause) == (Outcome.UNREAD, 0.0, Cause.LANGUAGE)
    assert found.detail == f"written in {language}, which the detector does not cover"


def test_a_refusal_in_an_uncovered_language_stands_where_it_is_found() -> None:
    """What the detector does find is said, whatever surrounds it."""
    assert demur.check(f"{REFUSAL} {GREEK}").outcome is Outcome.REFUSED


def test_a_phrase_list_of_ones_own_covers_every_language() -> None:
    """Whoever names a pack knows its language: its verdict is yes or no."""
    assert demur.check(DUTCH, pack="shadow").outcome is Outcome.COMPLIED


@pytest.mark.parametrize("judge", [None, judge_with(refused=0.5)], ids=["default", "threshold"])
def test_a_batch_says_the_same_of_a_language(judge: LearnedJudge | None) -> None:
    """Alone or in a column, with our threshold or the user's, the texts have the same outcome and cause."""
    texts = [DUTCH, "Slice the onion and fry it in the butter.", SWAHILI, REFUSAL, GREEK, "42"]
    alone = [demur.check(text, judge=judge) for text in texts]
    together = BatchJudge(judge).texts(texts)
    assert [(row[0], row[3]) for row in together] == [(one.outcome, one.cause) for one in alone]
    assert [row[0] for row in together].count(Outcome.UNREAD) == 3
