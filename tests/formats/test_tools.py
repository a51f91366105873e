"""Observability tools and evaluation harnesses: each example is known for what it is and judged as what it holds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.formats import examples_tools as made
from tests.formats.example import ANSWER, QUESTION, REFUSAL, Example, answer_of, read_all, read_one
from tests.formats.examples import EXAMPLES
from tests.formats.examples_tools import TOOL_EXAMPLES

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.formats.registry import FORMATS
from demur.model.run import Skipped, Traced

TOOLS = list(dict.fromkeys(example.format for example in TOOL_EXAMPLES))
BAD: tuple[Any, ...] = (None, 7, "\ud800", [7], {"content": [{"message": {}}]}, 10**400)


def spoilt_everywhere(value: Any, bad: Any) -> Iterator[Any]:
    """Yield the value with each of its parts in turn, at any depth, replaced."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for inner in (bad, *spoilt_everywhere(value[key], bad)):
            copy = value.copy()
            copy[key] = inner
            yield copy


def why(name: str, *records: dict[str, Any]) -> list[str]:
    """Return why rows of the records were skipped."""
    return [row.why for row in read_all(name, records) if isinstance(row, Skipped)]


@pytest.mark.parametrize("example", [*TOOL_EXAMPLES, *EXAMPLES], ids=str)
def test_only_its_own_format_knows_an_example(example: Example) -> None:
    """Of the tools' formats exactly one knows a tool's first record, and none takes another log's for its own."""
    own = [example.format] if example.format in TOOLS else []
    assert [name for name in TOOLS if FORMATS[name].load().sniffs(example.records[0])] == own


@pytest.mark.parametrize("name", [name for name in TOOLS if name != "lm-eval"])
def test_a_row_has_its_fields(name: str) -> None:
    """Model, and day and category where the format has them, stand under their own names, and no text among them."""
    fields = dict(read_one(name, *next(e.records for e in TOOL_EXAMPLES if e.format == name)).fields)
    assert "gpt-4o-mini" in fields["model"]
    assert fields.get("category") == (None if name in ("otel", "openai-evals", "garak") else "science")
    dated = dict.fromkeys(("otel", "openllmetry", "openinference", "vercel"), "2023-11-14")
    undated = ("deepeval", "promptfoo")
    assert fields.get("day") == (None if name in undated else dated.get(name, "2026-08-01"))
    assert not {ANSWER, QUESTION, REFUSAL} & set(fields.values())


@pytest.mark.heavy
@pytest.mark.parametrize("example", TOOL_EXAMPLES, ids=str)
def test_no_single_spoilt_value_breaks_a_reader(example: Example) -> None:
    """Whichever one value of an example is of another kind, it is read, skipped, or a `ShapeError`."""
    module = FORMATS[example.format].load()
    for spoilt in (each for record in example.records for bad in BAD for each in spoilt_everywhere(record, bad)):
        assert module.sniffs(spoilt) in (True, False)
        reader = module.open_reader()
        with contextlib.suppress(ShapeError):
            assert all(isinstance(row, Traced | Skipped) for row in [*reader.feed(spoilt), *reader.close()])


@pytest.mark.parametrize(
    ("name", "record", "reason"),
    [
        ("langfuse", made.observation(type="TOOL"), "a tool observation"),
        ("langfuse", made.observation(type="EVENT"), "an event observation"),
        ("langfuse-export", {"trace_id": "t", "value": 1, "data_type": "NUMERIC"}, "a score"),
        ("otel", made.traced({"gen_ai.operation.name": "execute_tool"}), "a tool span"),
        ("otel", made.traced({"gen_ai.operation.name": "embeddings"}), "an embeddings span"),
        ("otel", made.traced({"http.route": "/"}), "a span that is no model call"),
        ("openllmetry", made.traced({"traceloop.span.kind": "workflow"}), "a workflow span"),
        ("openinference", made.traced({"openinference.span.kind": "AGENT"}), "an agent span"),
        ("vercel", made.traced({"ai.operationId": "ai.toolCall"}), "a tool span"),
        ("vercel", made.traced({"ai.operationId": "ai.embed.doEmbed"}), "an embeddings span"),
        ("inspect", made.INSPECT_HEADER, "the header of a log"),
        ("lm-eval", made.harness([[["-1.5", "False"]], [["-2.5", "True"]]]), "a multiple-choice row"),
        (
            "lm-eval",
            made.harness([["-1.5", "False"]], arguments={"gen_args_0": {"arg_0": QUESTION, "arg_1": " A"}}),
            "a multiple-choice row",
        ),
        ("openai-evals", made.event("metrics", accuracy=1.0), "a `metrics` event"),
        ("openai-evals", {"final_report": {}, "run_id": "r"}, "the report of the run"),
        ("deepeval", made.deepeval_run(turns=[]), "a conversation without an answer"),
        ("braintrust", made.braintrust_row(span_attributes={"type": "score"}), "a scorer's span"),
        ("braintrust", made.braintrust_row(span_attributes={"type": "tool"}), "a tool span"),
        ("langsmith", made.langsmith_run({}, run_type="tool"), "a tool run"),
    ],
)
def test_what_is_no_call_is_skipped(name: str, record: dict[str, Any], reason: str) -> None:
    """A row that is no model call is skipped with its reason, and nothing else is read of it."""
    assert read_all(name, [record]) == [Skipped(reason)]


def test_epochs_of_a_sample_share_its_key() -> None:
    """Two epochs of one Inspect sample are two exchanges of one key and one cluster."""
    samples = [made.inspect_sample(epoch=epoch) for epoch in (1, 2)]
    rows = read_all("inspect", [{**made.INSPECT_HEADER, "samples": samples}])
    assert [(row.exchange.id, row.exchange.session) for row in rows if isinstance(row, Traced)] == [("7", "7")] * 2


def test_a_stop_of_inspects_keeps_its_details() -> None:
    """The category and the explanation of a stop are kept in its signal."""
    details = {"type": "refusal", "category": "cyber", "explanation": "not allowed", "categories": []}
    response = answer_of("inspect", made.inspect_sample("", stop="content_filter", details=details))
    assert [(s.category, s.detail) for s in response.signals] == [("cyber", "not allowed")]


def test_a_spoilt_row_of_a_document_spoils_no_other() -> None:
    """A document's rows that cannot be read are skipped with the reason, and those after them are read."""
    spoilt = made.promptfoo_row({"output": {"choices": [7]}})
    summary = {"version": 3, "results": [5, spoilt, made.promptfoo_row({"output": ANSWER})], "timestamp": "2026-08-01"}
    first, second, read = read_all("promptfoo", [{"evalId": "e", "results": summary}])
    assert all(isinstance(row, Skipped) and row.why.startswith("unreadable: ") for row in (first, second))
    assert isinstance(read, Traced)
    assert dict(read.fields)["day"] == "2026-08-01"


def test_filters_of_the_harness_count_once() -> None:
    """The same answer through two filters is one exchange, and another document's is its own."""
    records = [made.harness([[ANSWER]], filter=f, doc_id=d) for f in ("strict", "flexible") for d in (0, 1)]
    assert sum(isinstance(row, Traced) for row in read_all("lm-eval", records)) == len({0, 1})
    assert set(why("lm-eval", *records)) == {"the same answer through another filter"}


def test_the_harness_keeps_repeats_as_choices() -> None:
    """Several samples of one prompt are the choices of one response."""
    choices = answer_of("lm-eval", made.harness([[ANSWER, REFUSAL]])).choices
    assert [choice.text for choice in choices] == [ANSWER, REFUSAL]


def test_a_root_with_calls_of_its_own_is_not_counted_again() -> None:
    """Braintrust's root is skipped where its trace has a call, in whatever order they come."""
    root = made.braintrust_row(**made.EXPERIMENT, output=ANSWER)
    for records in ((root, made.braintrust_row()), (made.braintrust_row(), root)):
        assert read_one("braintrust", *records).exchange.session == "s1"
        assert why("braintrust", *records) == ["the root of a trace, whose calls are read"]


def test_a_project_is_no_cluster() -> None:
    """LangSmith's `session_id` is the project; without a thread the trace is the cluster."""
    run = made.langsmith_run(made.generation(), extra={"metadata": {}})
    assert read_one("langsmith", run).exchange.session == "trace-1"


def test_choices_of_one_response_stay_together() -> None:
    """Several answers that Langfuse lists are choices of one response."""
    several = [made.said(ANSWER), made.said(REFUSAL)]
    assert classify(answer_of("langfuse", made.observation(output=several))).outcome == "partial"


CALL = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
SDK_CALL = json.dumps([{"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {}}])
CALL_PARTS = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}]}]
TOOL_CALLS = {
    "langfuse": made.observation(output={**made.said(None), "tool_calls": CALL}),
    "promptfoo": made.promptfoo_row({"output": CALL}),
    "inspect": made.inspect_sample(output={"choices": [{"message": {"content": "", "tool_calls": CALL}}]}),
    "vercel": made.traced(made.ai_sdk(ai__response__toolCalls=SDK_CALL)),
    "otel": made.traced({**made.genai(), "gen_ai.output.messages": CALL_PARTS}),
    "openllmetry": made.traced(made.traceloop(**{"tool_calls.0.id": "c1", "tool_calls.0.name": "look"})),
    "openinference": made.traced(made.phoenix(**{f"{made.SAID}.tool_calls.0.tool_call.function.name": "look"})),
}


@pytest.mark.parametrize(("name", "record"), TOOL_CALLS.items(), ids=TOOL_CALLS)
def test_a_tool_call_is_an_answer(name: str, record: dict[str, Any]) -> None:
    """An answer that only calls a tool complied, in each tool's spelling."""
    assert classify(read_one(name, record).exchange.response).outcome == "complied"


@pytest.mark.parametrize("name", ["langfuse", "inspect", "promptfoo", "lm-eval", "openai-evals", "deepeval", "otel"])
def test_what_a_reader_does_not_know_is_an_error(name: str) -> None:
    """A record of another kind is a `ShapeError`, never an empty reading."""
    with pytest.raises(ShapeError):
        read_all(name, [{"nothing": "known"}])


def test_the_harnesses_older_spelling_is_read() -> None:
    """Arguments as lists, before the harness names them, and a chat that is left to the server are read too."""
    chat = json.dumps([{"role": "user", "content": QUESTION}])
    for prompt in (QUESTION, [chat]):
        row = read_one("lm-eval", made.harness([[ANSWER]], arguments=[[prompt, {"until": []}]]))
        assert row.exchange.request is not None
        assert row.exchange.request.prompt == QUESTION


def test_a_text_that_reads_as_json_stays_the_answer() -> None:
    """A string that only begins as JSON, or is JSON but no message, is the answer as the model wrote it."""
    for text in ("{not json", '{"colour": "blue"}', "[1, 2]"):
        assert answer_of("langfuse", made.observation(output=text)).choices[0].text == text


def test_a_sample_without_output_or_error_is_missing() -> None:
    """Inspect's sample that neither answered nor failed has no response."""
    assert read_one("inspect", made.inspect_sample(output=made.NO_OUTPUT)).exchange.response is None


def test_a_stop_word_of_its_own_beats_the_one_beside() -> None:
    """Where the answer says why it ended, what the tool notes beside it is not asked."""
    output = {"choices": [made.chat_choice(ANSWER, finish="length")]}
    response = answer_of("langfuse", made.observation(output=output, metadata={"finish_reason": "content_filter"}))
    assert response.choices[0].finish_raw == "length"
    assert response.signals == ()
