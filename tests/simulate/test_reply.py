"""Replies: what is said in each way and shape is what the truth says, and what our own detector reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

import demur
from demur.model.exchange import Exchange, Shape
from demur.simulate.phrasebook import (
    LANGUAGES,
    STYLES,
    TOPICS,
    answer_text,
    dice_for,
    fold_topic,
    partial_text,
    refusal_message,
    refusal_text,
)
from demur.simulate.reply import Asked, Plan, build_reply, count_tokens, first_tokens, instance_of, outcome_of, worded
from demur.simulate.scenario import Way
from demur.wire.shapes import CODECS

DICE = dice_for(1, b"request")
SIGNALLED = [Way.REFUSAL, Way.FILTER, Way.BLOCK, Way.EMPTY, Way.ANSWER]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("way", SIGNALLED)
@pytest.mark.parametrize("topic", TOPICS)
def test_the_detector_reads_the_truth(shape: Shape, way: Way, topic: str) -> None:
    """Written, read and judged, a reply of each way is what its truth says, for every topic."""
    plan = Plan(way, topic)
    response = build_reply(plan, Asked(shape, "m", input_tokens=3), dice=DICE)
    read = CODECS[shape].read_response(CODECS[shape].write_response(response), status=response.status)
    assert demur.check(Exchange(shape, read)).outcome == outcome_of(plan, shape)


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("way", [way for way in Way if way is not Way.BLOCK])
def test_streams_say_the_same(shape: Shape, way: Way) -> None:
    """A streamed reply closes to the outcome of the whole one."""
    codec, plan = CODECS[shape], Plan(way, "violence")
    response = build_reply(plan, Asked(shape, "m", input_tokens=3), dice=DICE)
    reader = codec.open_stream()
    for event in codec.write_stream(response, piece_chars=5):
        reader.feed(event)
    whole = codec.read_response(codec.write_response(response))
    assert demur.check(Exchange(shape, reader.close())).outcome == demur.check(Exchange(shape, whole)).outcome


def test_texts_are_read_as_refusals() -> None:
    """All sixty refusals in text differ, and are refused to our own detector, too."""
    texts = [refusal_text(language, style) for language in LANGUAGES for style in STYLES]
    assert len(set(texts)) == 60
    assert {demur.check(text).outcome for text in texts} == {"refused"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_halves_are_read_as_partial(language: str) -> None:
    """A text that declines one half and answers the other is partial to our own detector, in every language."""
    assert demur.check(partial_text(language)).outcome == "partial"


def test_messages_name_their_topic() -> None:
    """Topics have messages of their own, and only self-harm's names help for the mind."""
    assert len({refusal_message(topic) for topic in TOPICS}) == len(TOPICS)
    assert [topic for topic in TOPICS if "mental health" in refusal_message(topic)] == ["self_harm"]
    assert fold_topic("weapons") == "violence"
    assert fold_topic("something new") == "other"


def test_no_answer_reads_as_a_refusal() -> None:
    """No combination of the words for answers is a refusal to our detector."""
    outcomes = {demur.check(answer_text(dice_for(seed), 0)).outcome for seed in range(300)}
    assert outcomes == {"complied"}


def test_any_draws_one() -> None:
    """A plan with any style and language is worded by the draw, always the same."""
    plan = worded(Plan(Way.TEXT, style="any", language="any"), DICE)
    assert plan.style in STYLES
    assert plan.language in LANGUAGES
    assert plan == worded(Plan(Way.TEXT, style="any", language="any"), DICE)


def test_limits_of_tokens_cut_answers() -> None:
    """An answer beyond the limit is cut there and says so."""
    response = build_reply(Plan(Way.ANSWER), Asked(Shape.OPENAI_CHAT, "m", max_tokens=5), dice=DICE)
    assert response.choices[0].finish == "length"
    assert response.usage is not None
    assert response.usage.output_tokens == 5


def test_tokens_are_believable() -> None:
    """Nothing has no tokens, a word one or two, a sign of Chinese one each."""
    assert count_tokens("") == 0
    assert count_tokens("!") == 1
    assert count_tokens("What is the capital of France?") == 9
    assert count_tokens("我不能") == 3
    assert first_tokens("one two three", 2) == "one two"


def test_draws_are_steady_and_apart() -> None:
    """The same key and label draw the same, another label, part or seed another, and parts do not run together."""
    assert dice_for(1, b"a").word("id", 24) == dice_for(1, b"a").word("id", 24)
    drawn = {dice_for(1, b"a").word("id", 24), dice_for(2, b"a").word("id", 24), dice_for(1, b"a").word("x", 24)}
    assert len(drawn) == 3
    assert dice_for(1, b"ab", b"c") != dice_for(1, b"a", b"bc")
    assert all(0 <= dice_for(seed).chance("x") < 1 for seed in range(100))


NODE: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, "simulated"),
        ([], {}),
        ({"type": "object"}, {}),
        ({"type": "integer"}, 1),
        ({"type": ["null", "string"]}, None),
        ({"enum": ["red", "blue"]}, "red"),
        ({"const": 5}, 5),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, True),
        ({"type": "array", "items": {"type": "number"}, "minItems": 2}, [1.0, 1.0]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "simulated"),
        ({"properties": {"a": {"type": "string"}}}, {"a": "simulated"}),
    ],
)
def test_the_plainest_value_of_a_schema(schema: object, value: object) -> None:
    """Each kind of schema gets its plainest value."""
    assert json.loads(instance_of(json.dumps(schema).encode())) == value


def test_schemas_that_hold_themselves_end() -> None:
    """A definition that refers to itself gives a value of bounded depth."""
    text = instance_of(json.dumps({"$ref": "#/$defs/node", "$defs": {"node": NODE}}).encode())
    assert 2 < text.count("next") < 12


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 12, "items": {"$ref": "#"}},
        {"properties": {str(number): {"$ref": "#"} for number in range(50)}},
    ],
)
def test_schemas_that_hold_themselves_many_times_stay_small(schema: object) -> None:
    """A definition that refers to itself in many places does not multiply without end."""
    assert len(instance_of(json.dumps(schema).encode())) < 100_000
