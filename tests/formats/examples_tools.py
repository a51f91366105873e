"""One table of examples: observability tools, spans of every convention, evaluation harnesses."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.example import ANSWER, QUESTION, REFUSAL, Example
from tests.formats.examples import ASKED, COMPLIED, FAILED, FILTERED, REFUSED

from demur.model.verdict import Outcome

SPOKEN = [{"role": "system", "content": "Be brief."}, *ASKED]
TRACE = "5b8efff798038103d269b633813fc60c"
LIMITED = "Error code: 429 - {'error': {'message': 'slow down', 'code': 'rate_limit_exceeded'}}"
BLOCKED = (
    "Error code: 400 - {'error': {'code': 'content_filter', 'innererror': {'code': 'ResponsibleAIPolicyViolation'}}}"
)
NANOS = "1700000000000000000"


def chat_choice(text: str | None = ANSWER, *, finish: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    """Return one choice of a chat completion."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return {"index": 0, "finish_reason": finish, "logprobs": None, "message": message}


def observation(**given: Any) -> dict[str, Any]:
    """Return a generation as Langfuse's API gives it."""
    row = {
        "id": "obs-1",
        "traceId": "trace-1",
        "type": "GENERATION",
        "name": "OpenAI-generation",
        "startTime": "2026-08-01T10:00:00.000Z",
        "model": "gpt-4o-mini",
        "input": SPOKEN,
        "output": {"role": "assistant", "content": ANSWER},
        "metadata": {"category": "science", "custom_id": "q-1"},
        "level": "DEFAULT",
        "statusMessage": None,
        "sessionId": "chat-1",
        "parentObservationId": None,
    }
    return {**row, **given}


def exported(**given: Any) -> dict[str, Any]:
    """Return a generation as Langfuse's export writes it: snake case, JSON in strings."""
    row = {
        "id": "obs-1",
        "trace_id": "trace-1",
        "session_id": "chat-1",
        "type": "GENERATION",
        "start_time": "2026-08-01 10:00:00.000",
        "provided_model_name": "gpt-4o-mini",
        "input": json.dumps(SPOKEN),
        "output": json.dumps({"role": "assistant", "content": ANSWER}),
        "metadata": json.dumps({"category": "science"}),
        "level": "DEFAULT",
        "status_message": None,
    }
    return {**row, **given}


def any_value(value: Any) -> dict[str, Any]:
    """Return a value as OTLP/JSON types it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs_of(value)}}
    return {"stringValue": value}


def pairs_of(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP/JSON lists them."""
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    """Return a document of spans."""
    resource = {"attributes": pairs_of({"service.name": "shop"})}
    scope = {"scope": {"name": "test"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def span(attributes: dict[str, Any], *, name: str = "chat", failed: str | None = None, **given: Any) -> dict[str, Any]:
    """Return a span of an OTLP document."""
    status = {"code": 2, "message": failed} if failed else {}
    ids = {"traceId": TRACE, "spanId": "eee19b7ec3c1b174", "startTimeUnixNano": NANOS}
    return {**ids, "name": name, "attributes": pairs_of(attributes), "status": status, **given}


def genai(text: str | None = ANSWER, *, finish: str = "stop") -> dict[str, Any]:
    """Return the attributes of a chat by OpenTelemetry's conventions from 1.37 on."""
    parts = [{"type": "text", "content": text}] if text is not None else []
    output = [{"role": "assistant", "parts": parts, "finish_reason": finish}]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.conversation.id": "chat-1",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]),
        "gen_ai.output.messages": json.dumps(output),
        "gen_ai.response.finish_reasons": [finish],
    }


def traceloop(**answer: str) -> dict[str, Any]:
    """Return the attributes of a chat by OpenLLMetry."""
    return {
        "llm.request.type": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": QUESTION,
        "traceloop.association.properties.category": "science",
        "gen_ai.completion.0.role": "assistant",
        **{f"gen_ai.completion.0.{name}": value for name, value in answer.items()},
    }


def phoenix(**given: Any) -> dict[str, Any]:
    """Return the attributes of a chat by OpenInference."""
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o-mini",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": QUESTION,
        "session.id": "chat-1",
        "metadata": json.dumps({"category": "science", "custom_id": "q-1"}),
        **given,
    }


def ai_sdk(**given: Any) -> dict[str, Any]:
    """Return the attributes of one call by the AI SDK."""
    return {
        "operation.name": "ai.generateText.doGenerate",
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.model.id": "gpt-4o-mini",
        "ai.prompt.messages": json.dumps([{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]),
        "ai.telemetry.metadata.category": "science",
        "gen_ai.request.model": "gpt-4o-mini",
        **{name.replace("__", "."): value for name, value in given.items()},
    }


def inspect_sample(content: Any = ANSWER, *, stop: str = "stop", details: Any = None, **given: Any) -> dict[str, Any]:
    """Return a sample of Inspect's."""
    choice = {"message": {"role": "assistant", "content": content}, "stop_reason": stop, "stop_details": details}
    row = {
        "id": 7,
        "epoch": 2,
        "input": QUESTION,
        "target": "",
        "messages": ASKED,
        "output": {"model": "openai/gpt-4o-mini", "choices": [choice], "completion": ""},
        "scores": {},
        "metadata": {"category": "science"},
        "started_at": "2026-08-01T10:00:00+00:00",
        "error": None,
    }
    return {**row, **given}


INSPECT_HEADER = {
    "version": 2,
    "status": "success",
    "eval": {"eval_id": "e1", "run_id": "r1", "task": "sky", "model": "openai/gpt-4o-mini", "created": "2026-08-01"},
}
NO_OUTPUT = {"model": "openai/gpt-4o-mini", "choices": [], "completion": ""}
VARS_DIGEST = "859a034848afaef4"
"""`hashlib.blake2b(b'{"topic":"sky"}', digest_size=8).hexdigest()`."""


def promptfoo_row(response: dict[str, Any] | None, **given: Any) -> dict[str, Any]:
    """Return one result of promptfoo's."""
    row = {
        "promptIdx": 0,
        "testIdx": 3,
        "promptId": "p1",
        "provider": {"id": "openai:gpt-4o-mini", "label": ""},
        "prompt": {"raw": json.dumps(ASKED), "label": "ask"},
        "vars": {"topic": "sky"},
        "testCase": {"vars": {"topic": "sky"}, "metadata": {"category": "science"}},
        "response": response,
        "failureReason": 0,
        "success": True,
        "score": 1,
        "latencyMs": 12,
        "namedScores": {},
    }
    return {**row, **given}


def harness(resps: list[Any], **given: Any) -> dict[str, Any]:
    """Return one sample of the LM Evaluation Harness."""
    row = {
        "doc_id": 4,
        "doc": {"category": "science"},
        "target": "",
        "arguments": {"gen_args_0": {"arg_0": QUESTION, "arg_1": {"until": ["\n\n"], "temperature": 0.0}}},
        "resps": resps,
        "filtered_resps": ["filtered"],
        "filter": "none",
        "doc_hash": "d",
        "prompt_hash": "p",
        "target_hash": "t",
    }
    return {**row, **given}


def event(kind: str = "sampling", **data: Any) -> dict[str, Any]:
    """Return one event of OpenAI's evals library."""
    row = {"run_id": "run1", "event_id": 3, "sample_id": "sky.dev.0", "type": kind, "data": data}
    return {**row, "created_by": "", "created_at": "2026-08-01 10:00:00.000000+00:00"}


EVALS_SPEC = {"spec": {"completion_fns": ["gpt-4o-mini"], "eval_name": "sky.dev.v0", "run_id": "run1"}}


def deepeval_run(**case: Any) -> dict[str, Any]:
    """Return DeepEval's file of a run with one case."""
    held = {"name": "test_case_0", "input": QUESTION, "success": True, "metadata": {"category": "science"}, **case}
    run = {"testCases": [held], "conversationalTestCases": [], "hyperparameters": {"model": "gpt-4o-mini"}}
    return {"testRunData": run, "testRunLink": None}


def braintrust_row(**given: Any) -> dict[str, Any]:
    """Return a row of Braintrust's."""
    row = {
        "id": "row-1",
        "span_id": "s2",
        "root_span_id": "s1",
        "span_parents": ["s1"],
        "is_root": False,
        "created": "2026-08-01T10:00:00.000Z",
        "span_attributes": {"name": "Chat Completion", "type": "llm"},
        "input": ASKED,
        "output": [chat_choice()],
        "error": None,
        "metadata": {"model": "gpt-4o-mini", "category": "science"},
        "origin": {"object_type": "dataset", "object_id": "d1", "id": "q-1"},
    }
    return {**row, **given}


def langchain_message(text: str, **extra: Any) -> dict[str, Any]:
    """Return an answer as LangChain serialises it."""
    path = ["langchain", "schema", "messages", "AIMessage"]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": text, "type": "ai", **extra}}


def langsmith_run(outputs: dict[str, Any] | None, **given: Any) -> dict[str, Any]:
    """Return a run of LangSmith's."""
    path = ["langchain", "schema", "messages", "HumanMessage"]
    asked = {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": QUESTION, "type": "human"}}
    row = {
        "id": "run-1",
        "name": "ChatOpenAI",
        "run_type": "llm",
        "start_time": "2026-08-01T10:00:00.000000",
        "trace_id": "trace-1",
        "session_id": "project-1",
        "reference_example_id": "q-1",
        "inputs": {"messages": [[asked]]},
        "outputs": outputs,
        "error": None,
        "extra": {"metadata": {"ls_model_name": "gpt-4o-mini", "category": "science", "thread_id": "chat-1"}},
    }
    return {**row, **given}


def generation(text: str = ANSWER, *, finish: str = "stop", **extra: Any) -> dict[str, Any]:
    """Return the outputs of a LangChain run."""
    one = {"text": text, "generation_info": {"finish_reason": finish}, "message": langchain_message(text, **extra)}
    return {"generations": [[one]], "llm_output": {"model_name": "gpt-4o-mini-2024"}}


GARAK_SETUP = {
    "entry_type": "start_run setup",
    "plugins.target_name": "gpt-4o-mini",
    "transient.starttime_iso": "2026-08-01",
}


def garak_attempt(text: str | None, *, status: int = 1) -> dict[str, Any]:
    """Return an attempt of garak's with one output."""
    turn = {"role": "user", "content": {"text": QUESTION, "lang": "en", "data_path": None, "notes": {}}}
    return {
        "entry_type": "attempt",
        "uuid": "e98fdb7b",
        "status": status,
        "probe_classname": "test.Test",
        "prompt": {"turns": [turn], "notes": None},
        "outputs": [None if text is None else {"text": text, "lang": "en"}],
        "detector_results": {"always.Pass": [0.0]} if status > 1 else {},
        "goal": "ask",
    }


EMPTY = Outcome.EMPTY
TRACED = {"id": "trace-1", "sessionId": "chat-1", "metadata": {"custom_id": "q-1"}}
SAID = "llm.output_messages.0.message"
UNANSWERED = {k: v for k, v in genai().items() if "output" not in k and "finish" not in k}
STRUCTURED = {k: json.loads(v) if v[:1] == "[" else v for k, v in genai(REFUSAL).items()}
EXPORTED = {"name": "chat", "context": {"trace_id": "0x1"}, "start_time": "2026-08-01T10:00:00Z", "attributes": genai()}
OUTER = span({"ai.operationId": "ai.generateText", "ai.response.text": REFUSAL}, name="ai.generateText")
ASSERTED = {"error": "Expected output to be shorter", "failureReason": 1, "success": False}
BROKEN = promptfoo_row(None, error=LIMITED, failureReason=2)
EXPERIMENT = {"span_attributes": {"type": "eval"}, "span_parents": None}
CONVERSATION = [*ASKED, {"role": "assistant", "content": REFUSAL}, {"role": "user", "content": "ok"}]


def said(text: str | None) -> dict[str, Any]:
    """Return an assistant's message."""
    return {"role": "assistant", "content": text}


def traced(attributes: dict[str, Any], failed: str | None = None) -> dict[str, Any]:
    """Return a document of one span."""
    return otlp(span(attributes, failed=failed))


LANGFUSE = (
    ("an answer", COMPLIED, observation()),
    ("a refusal", REFUSED, observation(output=said(REFUSAL))),
    ("a text", REFUSED, observation(output=REFUSAL, level="WARNING")),
    ("a dropped refusal", EMPTY, observation(output=said(None))),
    (
        "a filter in a stream",
        FILTERED,
        observation(output="", metadata={"finish_reason": "content_filter", "custom_id": "q-1"}),
    ),
    ("an error", FAILED, observation(output=None, level="ERROR", statusMessage=LIMITED)),
    ("a policy's error", FILTERED, observation(output=None, level="ERROR", statusMessage=BLOCKED)),
    ("an output that was not stored", Outcome.UNREAD, observation(output=None)),
    ("a trace", COMPLIED, {**TRACED, "observations": [observation(type="SPAN"), observation(metadata=None)]}),
)
LANGFUSE_EXPORT = (
    ("an answer", COMPLIED, exported()),
    ("a refusal", REFUSED, exported(output=json.dumps([{"type": "text", "text": REFUSAL}]))),
    ("an error", FAILED, exported(output=None, level="ERROR", status_message=LIMITED)),
    ("a filter", FILTERED, exported(output=None, metadata=json.dumps({"finish_reason": "content_filter"}))),
)
OTEL = (
    ("an answer", COMPLIED, traced(genai())),
    ("a refusal", REFUSED, otlp(span({"http.method": "GET"}), span(genai(REFUSAL)))),
    ("a filter", FILTERED, traced(genai(None, finish="content_filter"))),
    ("an empty answer", EMPTY, traced(genai(None))),
    ("an error", FAILED, traced(UNANSWERED, LIMITED)),
    ("structured messages", REFUSED, traced(STRUCTURED)),
    ("an exported span", COMPLIED, EXPORTED),
)
OPENLLMETRY = (
    ("an answer", COMPLIED, traced(traceloop(content=ANSWER, finish_reason="stop"))),
    ("a refusal field", REFUSED, traced(traceloop(refusal=REFUSAL, finish_reason="stop"))),
    ("a filter", FILTERED, traced(traceloop(content="FILTERED", finish_reason="content_filter"))),
    ("an error", FAILED, traced({k: v for k, v in traceloop().items() if "completion" not in k}, LIMITED)),
)
REFUSAL_FIELD = json.dumps({"choices": [chat_choice(None, refusal=REFUSAL)]})
OPENINFERENCE = (
    ("an answer", COMPLIED, traced(phoenix(**{f"{SAID}.content": ANSWER}))),
    ("a refusal", REFUSED, traced(phoenix(**{"output.value": REFUSAL}))),
    ("a refusal field", REFUSED, traced(phoenix(**{f"{SAID}.role": "assistant", "output.value": REFUSAL_FIELD}))),
    ("a filter", FILTERED, traced(phoenix(**{f"{SAID}.role": "assistant", "llm.finish_reason": "content_filter"}))),
    ("an error", FAILED, traced(phoenix(), LIMITED)),
)
VERCEL = (
    ("an answer", COMPLIED, traced(ai_sdk(ai__response__text=ANSWER, ai__response__finishReason="stop"))),
    ("a refusal", REFUSED, traced(ai_sdk(ai__response__text=REFUSAL, ai__finishReason="stop"))),
    ("a filter", FILTERED, traced(ai_sdk(ai__response__finishReason="content-filter"))),
    ("an empty answer", EMPTY, traced(ai_sdk(ai__response__finishReason="stop"))),
    ("an error", FAILED, traced(ai_sdk(), LIMITED)),
    ("a call within its outer span", REFUSED, otlp(OUTER, span(ai_sdk(ai__response__text=REFUSAL)))),
)
INSPECT = (
    ("an answer", COMPLIED, INSPECT_HEADER, inspect_sample()),
    ("a refusal", REFUSED, {**INSPECT_HEADER, "samples": [inspect_sample(REFUSAL)]}),
    ("a refusal part", REFUSED, inspect_sample([{"type": "text", "text": "Not today.", "refusal": True}])),
    ("a refusal stop", REFUSED, inspect_sample("", stop="content_filter", details={"type": "refusal"})),
    ("a filter", FILTERED, inspect_sample("", stop="content_filter")),
    ("an error", FAILED, inspect_sample(output=NO_OUTPUT, error={"message": LIMITED, "traceback": ""})),
)
PROMPTFOO = (
    ("an answer", COMPLIED, promptfoo_row({"output": ANSWER, "finishReason": "stop"})),
    ("a failed assertion", COMPLIED, promptfoo_row({"output": ANSWER}, **ASSERTED)),
    ("a refusal", REFUSED, promptfoo_row({"output": REFUSAL, "isRefusal": True, "guardrails": {"flagged": True}})),
    ("a guardrail", FILTERED, promptfoo_row({"output": "blocked", "guardrails": {"flagged": True, "reason": "hate"}})),
    ("a filter", FILTERED, promptfoo_row({"output": "", "finishReason": "content_filter"})),
    ("an error", FAILED, {"evalId": "e1", "results": {"version": 3, "results": [BROKEN]}}),
)
LM_EVAL = (
    ("an answer", COMPLIED, harness([[ANSWER]]), harness([[ANSWER]], filter="strict-match")),
    ("a refusal", REFUSED, harness([[REFUSAL]])),
    ("an empty answer", EMPTY, harness([[""]])),
    ("no answer", FAILED, harness([])),
)
OPENAI_EVALS = (
    ("an answer", COMPLIED, EVALS_SPEC, event(prompt=ASKED, sampled=[ANSWER]), event("match", correct=True)),
    ("a refusal", REFUSED, event(prompt=QUESTION, sampled=REFUSAL)),
    ("no answer", FAILED, event(prompt=QUESTION, sampled=[])),
)
DEEPEVAL = (
    ("an answer", COMPLIED, deepeval_run(actualOutput=ANSWER)),
    ("a refusal", REFUSED, deepeval_run(actualOutput=REFUSAL)),
    ("no answer", FAILED, deepeval_run(actualOutput=None)),
    ("a conversation", REFUSED, deepeval_run(turns=CONVERSATION)),
)
BRAINTRUST = (
    ("an answer", COMPLIED, braintrust_row()),
    ("a refusal field", REFUSED, braintrust_row(output=[chat_choice(None, refusal=REFUSAL)])),
    ("a refusal", REFUSED, braintrust_row(input={"messages": ASKED}, output={"content": REFUSAL})),
    ("a filter", FILTERED, braintrust_row(output=[chat_choice("", finish="content_filter")])),
    ("an error", FAILED, braintrust_row(output=None, error=LIMITED)),
    ("an experiment's root", REFUSED, braintrust_row(**EXPERIMENT, input=QUESTION, output=REFUSAL)),
)
GARAK = (
    ("an answer", COMPLIED, GARAK_SETUP, garak_attempt(ANSWER), garak_attempt(ANSWER, status=2)),
    ("a refusal", REFUSED, garak_attempt(REFUSAL, status=2), {"entry_type": "eval", "probe": "test.Test"}),
    ("no output", FAILED, garak_attempt(None)),
)
IN_A_CHAIN = [langsmith_run(generation(REFUSAL))]
LANGSMITH = (
    ("an answer", COMPLIED, langsmith_run(generation())),
    ("a refusal", REFUSED, langsmith_run(generation(REFUSAL))),
    ("a refusal field", REFUSED, langsmith_run(generation("", additional_kwargs={"refusal": REFUSAL}))),
    ("a filter", FILTERED, langsmith_run(generation("", finish="content_filter"))),
    ("a wrapped client's response", REFUSED, langsmith_run({"choices": [chat_choice(None, refusal="No.")]})),
    ("an error", FAILED, langsmith_run(None, error=LIMITED)),
    ("a call within a chain", REFUSED, langsmith_run({}, run_type="chain", child_runs=IN_A_CHAIN)),
)
_TABLES: dict[str, tuple[tuple[tuple[Any, ...], ...], str | None, str | None]] = {
    "langfuse": (LANGFUSE, "q-1", "chat-1"),
    "langfuse-export": (LANGFUSE_EXPORT, None, "chat-1"),
    "otel": (OTEL, None, "chat-1"),
    "openllmetry": (OPENLLMETRY, None, TRACE),
    "openinference": (OPENINFERENCE, "q-1", "chat-1"),
    "vercel": (VERCEL, None, TRACE),
    "inspect": (INSPECT, "7", "7"),
    "promptfoo": (PROMPTFOO, "3/0", VARS_DIGEST),
    "garak": (GARAK, None, "e98fdb7b"),
    "lm-eval": (LM_EVAL, "4/p", "4"),
    "openai-evals": (OPENAI_EVALS, "sky.dev.0", "sky.dev.0"),
    "deepeval": (DEEPEVAL, "test_case_0", None),
    "braintrust": (BRAINTRUST, "q-1", "s1"),
    "langsmith": (LANGSMITH, "q-1", "chat-1"),
}
TOOL_EXAMPLES = tuple(
    Example(name, what, tuple(records), outcome, key, session)
    for name, (rows, key, session) in _TABLES.items()
    for what, outcome, *records in rows
)
