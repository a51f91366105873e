"""Observability tools and evaluation harnesses: each example is known for what it is and judged as what it holds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats import examples_tools as made
from tests.formats.example import ANSWER, QUESTION, REFUSAL, Example
from tests.formats.examples import EXAMPLES
from tests.formats.examples_tools import TOOL_EXAMPLES
from tests.wire import laws

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.formats import braintrust, deepeval, inspect, langfuse, langsmith, lm_eval, openai_evals, promptfoo
from demur.formats.interface import TraceFormat
from demur.formats.langfuse import LANGFUSE_EXPORT
from demur.formats.otel import OPENINFERENCE, OPENLLMETRY, OTEL, VERCEL
from demur.model.run import Skipped, Traced

MODULES: tuple[TraceFormat, ...] = (
    *(langfuse, LANGFUSE_EXPORT, OTEL, OPENLLMETRY, OPENINFERENCE, VERCEL),
    *(inspect, promptfoo, lm_eval, openai_evals, deepeval, braintrust, langsmith),
)
BY_NAME = {module.NAME: module for module in MODULES}
WORDS = sorted({key for example in TOOL_EXAMPLES for record in example.records for key in record})
RECORDS = {f"{e} {i}": record for e in TOOL_EXAMPLES for i, record in enumerate(e.records)}


BAD: tuple[Any, ...] = (None, 7, "\ud800", [7], {"content": [{"message": {}}]}, 10**400)


def spoilt_everywhere(value: Any, bad: Any) -> Iterator[Any]:
    """Yield the value with each of its parts in turn, at any depth, replaced."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for inner in (bad, *spoilt_everywhere(value[key], bad)):
            copy = value.copy()
            copy[key] = inner
            yield copy


def rows_of(name: str, *records: dict[str, Any]) -> list[Traced | Skipped]:
    """Return all that a fresh reader makes of the records."""
    reader = BY_NAME[name].open_reader()
    return [row for record in records for row in reader.feed(record)] + list(reader.close())


def only(name: str, *records: dict[str, Any]) -> Traced:
    """Return the only exchange in the records."""
    (row,) = [row for row in rows_of(name, *records) if isinstance(row, Traced)]
    return row


def why(name: str, *records: dict[str, Any]) -> list[str]:
    """Return why rows of the records were skipped."""
    return [row.why for row in rows_of(name, *records) if isinstance(row, Skipped)]


@pytest.mark.parametrize("example", TOOL_EXAMPLES, ids=str)
def test_only_its_own_format_knows_an_example(example: Example) -> None:
    """Of these formats exactly one knows each record that comes first."""
    assert [name for name, module in BY_NAME.items() if module.sniffs(example.records[0])] == [example.format]


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_no_other_formats_record_is_taken(example: Example) -> None:
    """Providers' logs, batches, conversations and columns are not taken for a tool's."""
    assert [name for name, module in BY_NAME.items() if module.sniffs(example.records[0])] == []


@pytest.mark.parametrize("example", TOOL_EXAMPLES, ids=str)
def test_a_tools_example_is_judged_as_what_it_holds(example: Example) -> None:
    """The outcome, the pair key, the session, the prompt and the model are those of the example."""
    row = only(example.format, *example.records)
    exchange = row.exchange
    assert classify(exchange.response).outcome is example.outcome
    assert (exchange.id, exchange.session) == (example.id, example.session)
    assert exchange.request is not None
    assert exchange.request.prompt == example.prompt


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "lm-eval"])
def test_a_row_has_its_fields(name: str) -> None:
    """Model, and day and category where the format has them, stand under their own names, and no text among them."""
    fields = dict(only(name, *next(e.records for e in TOOL_EXAMPLES if e.format == name)).fields)
    assert "gpt-4o-mini" in fields["model"]
    assert fields.get("category") == (None if name in ("otel", "openai-evals") else "science")
    dated = {"otel": "2023-11-14", "openllmetry": "2023-11-14", "openinference": "2023-11-14", "vercel": "2023-11-14"}
    undated = ("deepeval", "promptfoo")
    assert fields.get("day") == (None if name in undated else dated.get(name, "2026-08-01"))
    assert not {ANSWER, QUESTION, REFUSAL} & set(fields.values())


@pytest.mark.heavy
@pytest.mark.parametrize("name", list(BY_NAME))
@settings(max_examples=60)
@given(
    record=st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=6), laws.JSON, max_size=6) | laws.spoilt(RECORDS)
)
def test_no_json_breaks_a_tools_reader(name: str, record: dict[str, Any]) -> None:
    """Sniffing never raises, reading raises nothing but `ShapeError`, and what is read can be judged."""
    module = BY_NAME[name]
    assert module.sniffs(record) in (True, False)
    reader, rows = module.open_reader(), []
    with contextlib.suppress(ShapeError):
        rows += list(reader.feed(record))
    rows += list(reader.close())
    assert all(classify(row.exchange.response) for row in rows if isinstance(row, Traced))


@pytest.mark.heavy
@pytest.mark.parametrize("example", TOOL_EXAMPLES, ids=str)
def test_no_single_spoilt_value_breaks_a_reader(example: Example) -> None:
    """Whichever one value of an example is of another kind, it is read, skipped, or a `ShapeError`."""
    module = BY_NAME[example.format]
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
        ("otel", made.otlp(made.span({"gen_ai.operation.name": "execute_tool"})), "a tool span"),
        ("otel", made.otlp(made.span({"gen_ai.operation.name": "embeddings"})), "an embeddings span"),
        ("otel", made.otlp(made.span({"http.route": "/"})), "a span that is no model call"),
        ("openllmetry", made.otlp(made.span({"traceloop.span.kind": "workflow"})), "a workflow span"),
        ("openinference", made.otlp(made.span({"openinference.span.kind": "AGENT"})), "an agent span"),
        ("vercel", made.otlp(made.span({"ai.operationId": "ai.toolCall"})), "a tool span"),
        ("vercel", made.otlp(made.span({"ai.operationId": "ai.embed.doEmbed"})), "an embeddings span"),
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
    assert rows_of(name, record) == [Skipped(reason)]


def test_epochs_of_a_sample_share_its_key() -> None:
    """Two epochs of one Inspect sample are two exchanges of one key and one cluster."""
    samples = [made.inspect_sample(epoch=epoch) for epoch in (1, 2)]
    rows = rows_of("inspect", {**made.INSPECT_HEADER, "samples": samples})
    assert [(row.exchange.id, row.exchange.session) for row in rows if isinstance(row, Traced)] == [("7", "7")] * 2


def test_a_stop_of_inspects_keeps_its_details() -> None:
    """The category and the explanation of a stop are kept in its signal."""
    details = {"type": "refusal", "category": "cyber", "explanation": "not allowed", "categories": []}
    response = only("inspect", made.inspect_sample("", stop="content_filter", details=details)).exchange.response
    assert response is not None
    assert [(s.category, s.detail) for s in response.signals] == [("cyber", "not allowed")]


def test_a_spoilt_row_of_a_document_spoils_no_other() -> None:
    """A document's rows that cannot be read are skipped with the reason, and those after them are read."""
    spoilt = made.promptfoo_row({"output": {"choices": [7]}})
    summary = {"version": 3, "results": [5, spoilt, made.promptfoo_row({"output": ANSWER})], "timestamp": "2026-08-01"}
    rows = rows_of("promptfoo", {"evalId": "e", "results": summary})
    assert [isinstance(row, Traced) for row in rows] == [False, False, True]
    assert all(reason.startswith("unreadable: ") for reason in why("promptfoo", {"evalId": "e", "results": summary}))
    assert dict(only("promptfoo", {"evalId": "e", "results": summary}).fields)["day"] == "2026-08-01"


def test_filters_of_the_harness_count_once() -> None:
    """The same answer through two filters is one exchange, and another document's is its own."""
    records = [made.harness([[ANSWER]], filter=f, doc_id=d) for f in ("strict", "flexible") for d in (0, 1)]
    assert sum(isinstance(row, Traced) for row in rows_of("lm-eval", *records)) == len({0, 1})
    assert set(why("lm-eval", *records)) == {"the same answer through another filter"}


def test_the_harness_keeps_repeats_as_choices() -> None:
    """Several samples of one prompt are the choices of one response."""
    response = only("lm-eval", made.harness([[ANSWER, REFUSAL]])).exchange.response
    assert response is not None
    assert [choice.text for choice in response.choices] == [ANSWER, REFUSAL]


def test_a_root_with_calls_of_its_own_is_not_counted_again() -> None:
    """Braintrust's root is skipped where its trace has a call, in whatever order they come."""
    root = made.braintrust_row(span_attributes={"type": "eval"}, span_parents=None, output=ANSWER)
    for records in ((root, made.braintrust_row()), (made.braintrust_row(), root)):
        assert only("braintrust", *records).exchange.session == "s1"
        assert why("braintrust", *records) == ["the root of a trace, whose calls are read"]


def test_a_project_is_no_cluster() -> None:
    """LangSmith's `session_id` is the project; without a thread the trace is the cluster."""
    run = made.langsmith_run(made.generation(), extra={"metadata": {}})
    assert only("langsmith", run).exchange.session == "trace-1"


def test_choices_of_one_response_stay_together() -> None:
    """Several answers that Langfuse lists are choices of one response."""
    several = [{"role": "assistant", "content": ANSWER}, {"role": "assistant", "content": REFUSAL}]
    response = only("langfuse", made.observation(output=several)).exchange.response
    assert response is not None
    assert classify(response).outcome == "partial"


def test_a_structured_output_is_judged_as_its_json() -> None:
    """An object that is no message is the answer itself."""
    response = only("braintrust", made.braintrust_row(output={"colour": "blue"})).exchange.response
    assert response is not None
    assert response.choices[0].text == '{"colour":"blue"}'


def test_a_tool_call_is_an_answer() -> None:
    """An answer that only calls a tool complied, in each tool's spelling."""
    call = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    sdk = [{"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {}}]
    parts = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}]}]
    rows = [
        only("langfuse", made.observation(output={"role": "assistant", "content": None, "tool_calls": call})),
        only("promptfoo", made.promptfoo_row({"output": call})),
        only("inspect", made.inspect_sample(output={"choices": [{"message": {"content": "", "tool_calls": call}}]})),
        only("vercel", made.otlp(made.span(made.ai_sdk(ai__response__toolCalls=json.dumps(sdk))))),
        only("otel", made.otlp(made.span({**made.genai(), "gen_ai.output.messages": parts}))),
        only(
            "openllmetry",
            made.otlp(made.span(made.traceloop(**{"tool_calls.0.id": "c1", "tool_calls.0.name": "look"}))),
        ),
        only(
            "openinference",
            made.otlp(
                made.span(
                    made.phoenix(**{"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look"})
                )
            ),
        ),
    ]
    assert [classify(row.exchange.response).outcome for row in rows] == ["complied"] * len(rows)


@pytest.mark.parametrize("name", ["langfuse", "inspect", "promptfoo", "lm-eval", "openai-evals", "deepeval", "otel"])
def test_what_a_reader_does_not_know_is_an_error(name: str) -> None:
    """A record of another kind is a `ShapeError`, never an empty reading."""
    with pytest.raises(ShapeError):
        rows_of(name, {"nothing": "known"})


def test_the_harnesses_older_spelling_is_read() -> None:
    """Arguments as lists, before the harness names them, and a chat that is left to the server are read too."""
    chat = json.dumps([{"role": "user", "content": QUESTION}])
    for prompt in (QUESTION, [chat]):
        row = only("lm-eval", made.harness([[ANSWER]], arguments=[[prompt, {"until": []}]]))
        assert row.exchange.request is not None
        assert row.exchange.request.prompt == QUESTION


def test_a_text_that_reads_as_json_stays_the_answer() -> None:
    """A string that only begins as JSON, or is JSON but no message, is the answer as the model wrote it."""
    for text in ("{not json", '{"colour": "blue"}', "[1, 2]"):
        response = only("langfuse", made.observation(output=text)).exchange.response
        assert response is not None
        assert response.choices[0].text == text


def test_a_sample_without_output_or_error_is_missing() -> None:
    """Inspect's sample that neither answered nor failed has no response."""
    assert only("inspect", made.inspect_sample(output=made.NO_OUTPUT)).exchange.response is None


def test_a_stop_word_of_its_own_beats_the_one_beside() -> None:
    """Where the answer says why it ended, what the tool notes beside it is not asked."""
    output = {"choices": [made.chat_choice(ANSWER, finish="length")]}
    response = only("langfuse", made.observation(output=output, metadata={"finish_reason": "content_filter"})).exchange
    assert response.response is not None
    assert response.response.choices[0].finish_raw == "length"
    assert response.response.signals == ()
