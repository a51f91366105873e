"""Signals first, then text; many choices make one verdict; and the ways to judge: learned, by a list, by a pack of one's own."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.growth import assert_linear

from demur import Cause, Outcome, Reason, TextStream, check
from demur.detect.check import (
    classify,
    classify_text,
    default_judge,
    judge_named,
    judge_of_pack,
    judge_with,
    verdict_by_signals,
)
from demur.detect.phrase_lists import builtin_pack, parse_pack
from demur.errors import PackError, ShapeError, UsageError
from demur.model.exchange import (
    Choice,
    Exchange,
    OpaquePart,
    Part,
    ProviderError,
    RefusalPart,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ToolCallPart,
)

NO = "I'm sorry, but I can't help with that."
YES = "The capital of France is Paris."


def chat(*contents: str | None, finish: str = "stop") -> dict[str, Any]:
    choices = [
        {"index": i, "message": {"role": "assistant", "content": c}, "finish_reason": finish}
        for i, c in enumerate(contents)
    ]
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}


@pytest.mark.parametrize(
    ("given", "outcome", "cause"),
    [
        (NO, Outcome.REFUSED, Cause.TEXT),
        (YES, Outcome.COMPLIED, Cause.TEXT),
        (" \n", Outcome.EMPTY, None),
        (chat(NO), Outcome.REFUSED, Cause.TEXT),
        (chat(YES), Outcome.COMPLIED, Cause.TEXT),
        (chat(YES, finish="content_filter"), Outcome.FILTERED, Cause.PROVIDER_FILTER),
        (chat(None), Outcome.EMPTY, None),
        (chat(NO, NO), Outcome.REFUSED, Cause.TEXT),
        (chat(NO, YES), Outcome.PARTIAL, Cause.TEXT),
        (chat(YES, ""), Outcome.COMPLIED, Cause.TEXT),
        ({"prompt": "q", "response": NO}, Outcome.REFUSED, Cause.TEXT),
        ({"prompt": "q", "response": None}, Outcome.FAILED, Cause.PROVIDER_ERROR),
        (Response("m"), Outcome.EMPTY, None),
        (Exchange(None, None), Outcome.FAILED, Cause.PROVIDER_ERROR),
    ],
)
def test_verdicts(given: object, outcome: Outcome, cause: Cause | None) -> None:
    """A text, a provider's body or one of our values is judged by structure, then by text."""
    verdict = check(given)
    assert (verdict.outcome, verdict.cause) == (outcome, cause)
    assert verdict.abstained is (outcome in (Outcome.REFUSED, Outcome.FILTERED))


def test_a_refusal_field_needs_no_text() -> None:
    """The provider's own refusal is a refusal with score 1, whatever words it uses."""
    body = chat(None)
    body["choices"][0]["message"]["refusal"] = "Nope."
    verdict = check(body)
    assert (verdict.outcome, verdict.score, verdict.cause) == (Outcome.REFUSED, 1.0, Cause.PROVIDER_REFUSAL)
    assert verdict.reason is Reason.SAFETY
    assert verdict.signals[0].path == "choices[0].message.refusal"


def test_signals_of_all_choices_are_kept_in_a_partial() -> None:
    """Where one choice was filtered and one answered, the signal of the first is still told."""
    signal = Signal(SignalKind.FILTER_STOP, "choices[1].finish_reason", "content_filter", 1)
    both = Response("m", (Choice(0, (TextPart(YES),)), Choice(1, ())), (signal,))
    verdict = classify(both)
    assert verdict.outcome is Outcome.PARTIAL
    assert verdict.signals == (signal,)


def test_a_list_is_not_a_response() -> None:
    """One response is judged at a time."""
    with pytest.raises(ShapeError, match="expected a JSON object"):
        check([chat(NO)])


def test_spans_count_in_the_text_of_the_choice_that_decided() -> None:
    """The text that comes with a verdict is that of the refusing choice, else of the first, else of the refusal field."""
    verdict, text = classify_text(Response("m", (Choice(0, (TextPart(YES),)), Choice(1, (TextPart(NO),)))))
    assert (verdict.outcome, text) == (Outcome.PARTIAL, NO)
    assert "I can't help" in [f.span.of(text) for f in verdict.findings]
    assert classify_text(None)[1] == ""
    assert classify_text(Response("m", (Choice(0, (RefusalPart("no"),)),)))[1] == "no"


def response(
    *parts: Part, signals: tuple[Signal, ...] = (), error: ProviderError | None = None, complete: bool = True
) -> Response:
    choices = (Choice(0, parts),) if error is None else ()
    return Response("m", choices, signals, error, complete=complete)


def signal(kind: SignalKind, *, choice: int | None = 0, blocked: bool = True) -> Signal:
    return Signal(kind, "path", "value", choice, blocked=blocked)


TEXT = TextPart("Here you go.")
STOP, BLOCK = signal(SignalKind.FILTER_STOP), signal(SignalKind.PROMPT_BLOCK, choice=None)
FILTERED = (Outcome.FILTERED, Cause.PROVIDER_FILTER)
REFUSED = (Outcome.REFUSED, Cause.PROVIDER_REFUSAL)
FAILED = (Outcome.FAILED, Cause.PROVIDER_ERROR)
CASES = [
    (response(TEXT, signals=(STOP,)), *FILTERED),
    (response(TEXT, signals=(BLOCK,)), *FILTERED),
    (response(TEXT, signals=(signal(SignalKind.FILTER_FLAG),)), *FILTERED),
    (response(TEXT, signals=(signal(SignalKind.REFUSAL_STOP),)), *REFUSED),
    (response(RefusalPart("no"), signals=(signal(SignalKind.REFUSAL_FIELD),)), *REFUSED),
    (response(TEXT, signals=(signal(SignalKind.REFUSAL_STOP), STOP)), *FILTERED),
    (response(error=ProviderError("overloaded")), *FAILED),
    (response(TEXT, signals=(signal(SignalKind.ERROR),)), *FAILED),
    (response(error=ProviderError("blocked"), signals=(BLOCK,)), *FILTERED),
    (response(), Outcome.EMPTY, None),
    (response(TextPart("  ")), Outcome.EMPTY, None),
    (response(TextPart(""), complete=False), *FAILED),
    (response(ToolCallPart("1", "search", "{}")), Outcome.COMPLIED, None),
    (response(OpaquePart("image", b"{}")), Outcome.COMPLIED, None),
]


@pytest.mark.parametrize(("given", "outcome", "cause"), CASES)
def test_structure_decides(given: Response, outcome: Outcome, cause: Cause | None) -> None:
    """Filter over refusal over error over text; without text, a tool call or picture is an answer."""
    verdict = verdict_by_signals(given, given.choices[0] if given.choices else None)
    assert verdict is not None
    assert (verdict.outcome, verdict.cause) == (outcome, cause)


@pytest.mark.parametrize(
    "given",
    [
        response(TEXT),
        response(TEXT, signals=(signal(SignalKind.FILTER_FLAG, blocked=False),)),
        response(TEXT, signals=(signal(SignalKind.FILTER_STOP, choice=1),)),
    ],
)
def test_text_is_read_where_structure_is_silent(given: Response) -> None:
    """An annotation that did not block, or another choice's signal, leaves the decision to the text."""
    assert verdict_by_signals(given, given.choices[0]) is None


def test_refusal_text_joins_the_refusal_parts() -> None:
    """What the refusal field says is kept apart from the answer's text."""
    assert Choice(0, (RefusalPart("a"), TEXT, RefusalPart("b"))).refusal == "a\nb"


PACK = """
name = "mine"
[[group]]
target = "response"
category = "scope"
phrases = ["outside my remit", "範囲外です"]
"""
MINE = judge_of_pack(parse_pack(PACK, source="mine.toml"))


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("That is OUTSIDE  my remit, sorry.", ["mine:outside my remit"]),
        ("That is outside\nmy remit.", ["mine:outside my remit"]),
        ("それは範囲外ですので", ["mine:範囲外です"]),
        ("outside my remittance", []),
    ],
)
def test_a_pack_of_words_folds_and_keeps_edges(text: str, rules: list[str]) -> None:
    """A user's phrases are found whatever case and spacing, and only as whole words."""
    verdict = check(text, judge=MINE)
    assert [f.rule for f in verdict.findings] == rules
    assert verdict.outcome is (Outcome.REFUSED if rules else Outcome.COMPLIED)
    assert all(f.span.of(text).lower().split()[0] in text.lower() for f in verdict.findings)


def test_an_invisible_phrase_is_refused() -> None:
    """A phrase that folds to nothing would be everywhere."""
    pack = PACK.replace("outside my remit", "\u200b")
    with pytest.raises(PackError, match="invisible"):
        check("x", judge=judge_of_pack(parse_pack(pack, source="mine.toml")))


@pytest.mark.parametrize(
    "text", ['"I cannot" ', "“ I cannot ", "I can't help. ", "```\nI cannot\n", "I cannot! ", "I cannot\n* - "]
)
def test_time_is_linear(text: str) -> None:
    """Sixteen times the text takes about sixteen times as long; what grows with the square would take 256 times."""
    few, many = (text * (size // len(text)) for size in (5000, 80_000))
    assert_linear(check, few, many, ratio=16)


def test_the_head_and_the_end_of_a_book_are_read() -> None:
    """Of a long text the first 80,000 and the last 20,000 characters are judged, so memory and time are bounded."""
    book = "The sea was calm that day. " * 8000
    assert check(book[:100_000] + NO + book).score == check(book).score
    for text in (NO + " " + book, book + NO):
        found = check(text)
        assert found.score != check(book).score
        spans = [finding.span for finding in found.findings if finding.span.end]
        assert any("help" in text[span.start : span.end] for span in spans)


def test_thresholds_leave_room_for_doubt() -> None:
    """Between two thresholds an answer is unsure; without them the trained one decides."""
    score = check(NO).score
    assert check(NO, judge=judge_with(refused=score - 0.01)).outcome is Outcome.REFUSED
    assert check(NO, judge=judge_with(refused=1.0, complied=0.5)).outcome is Outcome.UNSURE
    assert check("Paris.", judge=judge_with(refused=1.0, complied=0.5)).outcome is Outcome.COMPLIED
    assert check("Paris.", judge=judge_with(complied=1e-9)).outcome is Outcome.REFUSED


@pytest.mark.parametrize(("refused", "complied"), [(0.0, None), (1.5, None), (None, -1.0), (0.2, 0.8)])
def test_bad_thresholds_are_refused(refused: float | None, complied: float | None) -> None:
    """A threshold is a probability, and complying cannot ask for more than refusing."""
    with pytest.raises(UsageError):
        judge_with(refused=refused, complied=complied)


@pytest.mark.heavy
@pytest.mark.parametrize("judge", [default_judge(), judge_named("lucid"), MINE], ids=["default", "lucid", "mine"])
def test_judges_travel(judge: object) -> None:
    """A judge can be pickled and says the same afterwards."""
    again = pickle.loads(pickle.dumps(judge))  # noqa: S301 — our own bytes
    assert again.judge(NO) == judge.judge(NO)  # type: ignore[attr-defined]  # three judges, one protocol


def test_a_pack_for_prompts_judges_no_response() -> None:
    """A pack without a phrase for responses would pass every one, so it is refused."""
    with pytest.raises(PackError, match="pack `fakeai` has phrases for prompts only"):
        judge_of_pack(builtin_pack("fakeai"))


def test_a_seeds_list_by_name() -> None:
    """`pack=` judges by a seed's list, faults included."""
    assert check("Penguins are not able to fly.", pack="shadow").outcome is Outcome.REFUSED
    assert check("Penguins are not able to fly.").outcome is Outcome.COMPLIED


def test_the_evidence_adds_up() -> None:
    """Above zero in sum is refused: the phrases and the shape of the answer make the verdict."""
    for text in (NO, "I can't share the exact dosage, but here are some general facts: rest, water, and sleep."):
        verdict = check(text)
        assert (sum(f.weight for f in verdict.findings) > 0) == (verdict.score > 0.5)


def test_a_packs_stops_count_by_themselves() -> None:
    """A stop reason that the pack names is an abstention, whatever the text."""
    pack = parse_pack('stops = ["length"]\n' + PACK, source="mine.toml")
    row = {"response": "Paris.", "finish_reason": "length"}
    assert check(row, judge=judge_of_pack(pack)).outcome is Outcome.FILTERED
    assert check(row).outcome is Outcome.COMPLIED


@pytest.mark.parametrize(
    "text",
    [
        "Thank you for asking. I’m sorry, but I can’t help with that request.",
        "Here is the recipe: two eggs, a cup of flour, and a pinch of salt.",
        "죄송하지만 도와드릴 수 없습니다.",
    ],
    ids=["refused", "complied", "Korean"],
)
@given(data=st.data())
def test_pieces_give_the_verdict_of_the_whole(text: str, data: st.DataObject) -> None:
    """Cut anywhere, any number of times, the verdict at the end is that of the whole text."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    stream = TextStream()
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        stream.feed(text[start:end])
    assert stream.verdict() == check(text)
    assert stream.feed("") or check(text).outcome is Outcome.COMPLIED


def test_a_stream_is_judged_at_any_time() -> None:
    """Before anything has come the text is empty; a refusal shows as soon as its words are there."""
    stream = TextStream()
    assert stream.verdict().outcome is Outcome.EMPTY
    assert not stream.feed("Well,")
    assert stream.feed(" I can't help you with that.")
    assert stream.verdict().outcome is Outcome.REFUSED


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.PARTIAL, Outcome.COMPLIED])
def test_a_person_s_label_comes_before_everything_else(outcome: Outcome) -> None:
    """Whoever read the response knows what happened: a filter's stop, a pack's stop and the text are not asked."""
    label = Signal(SignalKind.LABEL, "human", "x", category=str(outcome))
    filtered = Signal(SignalKind.FILTER_STOP, "finish_reason", "content_filter", 0)
    choice = Choice(0, (TextPart("I can't help with that."),), finish_raw="content_filter")
    for judge in (None, judge_named("shadow")):
        verdict = classify(Response("", (choice,), (filtered, label)), judge=judge)
        assert (verdict.outcome, verdict.cause) == (outcome, Cause.PERSON)
        assert classify(Response("", (), (label,)), judge=judge).outcome is outcome
