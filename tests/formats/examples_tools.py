"""One table of examples: observability tools, spans of every convention, evaluation harnesses."""

from __future__ import annotations

import json
from typing import Any

from tests.formats.example import ANSWER, QUESTION, REFUSAL, Example

from demur.model.verdict import Outcome

ASKED = [{"role": "user", "content": QUESTION}]
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
        return {"kvlistValue": {"values": [{"key": key, "value": any_value(item)} for key, item in value.items()]}}
    return {"stringValue": value}


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    """Return a document of spans."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "test"}, "spans": list(spans)}]}]
    }


def span(attributes: dict[str, Any], *, name: str = "chat", failed: str | None = None, **given: Any) -> dict[str, Any]:
    """Return a span of an OTLP document."""
    status = {"code": 2, "message": failed} if failed else {}
    pairs = [{"key": key, "value": any_value(value)} for key, value in attributes.items()]
    ids = {"traceId": TRACE, "spanId": "eee19b7ec3c1b174", "startTimeUnixNano": NANOS}
    return {**ids, "name": name, "attributes": pairs, "status": status, **given}


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


LANGFUSE = (
    ("an answer", (observation(),), Outcome.COMPLIED),
    ("a refusal", (observation(output={"role": "assistant", "content": REFUSAL}),), Outcome.REFUSED),
    ("a text", (observation(output=REFUSAL, level="WARNING"),), Outcome.REFUSED),
    ("a dropped refusal", (observation(output={"role": "assistant", "content": None}),), Outcome.EMPTY),
    (
        "a filter in a stream",
        (observation(output="", metadata={"finish_reason": "content_filter", "custom_id": "q-1"}),),
        Outcome.FILTERED,
    ),
    ("an error", (observation(output=None, level="ERROR", statusMessage=LIMITED),), Outcome.FAILED),
    ("a policy's error", (observation(output=None, level="ERROR", statusMessage=BLOCKED),), Outcome.FILTERED),
    ("nothing recorded", (observation(output=None),), Outcome.FAILED),
    (
        "a trace",
        (
            {
                "id": "trace-1",
                "sessionId": "chat-1",
                "metadata": {"custom_id": "q-1"},
                "observations": [observation(type="SPAN"), observation(sessionId="chat-1", metadata=None)],
            },
        ),
        Outcome.COMPLIED,
    ),
)
LANGFUSE_EXPORT = (
    ("an answer", (exported(),), Outcome.COMPLIED),
    ("a refusal", (exported(output=json.dumps([{"type": "text", "text": REFUSAL}])),), Outcome.REFUSED),
    ("an error", (exported(output=None, level="ERROR", status_message=LIMITED),), Outcome.FAILED),
    ("a filter", (exported(output=None, metadata=json.dumps({"finish_reason": "content_filter"})),), Outcome.FILTERED),
)
OTEL = (
    ("an answer", (otlp(span(genai())),), Outcome.COMPLIED),
    ("a refusal", (otlp(span({"http.method": "GET"}), span(genai(REFUSAL))),), Outcome.REFUSED),
    ("a filter", (otlp(span(genai(None, finish="content_filter"))),), Outcome.FILTERED),
    ("an empty answer", (otlp(span(genai(None))),), Outcome.EMPTY),
    (
        "an error",
        (otlp(span({k: v for k, v in genai().items() if "output" not in k and "finish" not in k}, failed=LIMITED)),),
        Outcome.FAILED,
    ),
    (
        "structured messages",
        (otlp(span({k: json.loads(v) if v[:1] == "[" else v for k, v in genai(REFUSAL).items()})),),
        Outcome.REFUSED,
    ),
    (
        "an exported span",
        (
            {
                "name": "chat",
                "context": {"trace_id": "0x1"},
                "start_time": "2026-08-01T10:00:00Z",
                "attributes": genai(),
            },
        ),
        Outcome.COMPLIED,
    ),
)
OPENLLMETRY = (
    ("an answer", (otlp(span(traceloop(content=ANSWER, finish_reason="stop"))),), Outcome.COMPLIED),
    ("a refusal field", (otlp(span(traceloop(refusal=REFUSAL, finish_reason="stop"))),), Outcome.REFUSED),
    ("a filter", (otlp(span(traceloop(content="FILTERED", finish_reason="content_filter"))),), Outcome.FILTERED),
    (
        "an error",
        (otlp(span({k: v for k, v in traceloop().items() if "completion" not in k}, failed=LIMITED)),),
        Outcome.FAILED,
    ),
)
OPENINFERENCE = (
    ("an answer", (otlp(span(phoenix(**{"llm.output_messages.0.message.content": ANSWER}))),), Outcome.COMPLIED),
    ("a refusal", (otlp(span(phoenix(**{"output.value": REFUSAL}))),), Outcome.REFUSED),
    (
        "a refusal field",
        (
            otlp(
                span(
                    phoenix(
                        **{
                            "llm.output_messages.0.message.role": "assistant",
                            "output.value": json.dumps({"choices": [chat_choice(None, refusal=REFUSAL)]}),
                        }
                    )
                )
            ),
        ),
        Outcome.REFUSED,
    ),
    (
        "a filter",
        (
            otlp(
                span(
                    phoenix(
                        **{"llm.output_messages.0.message.role": "assistant", "llm.finish_reason": "content_filter"}
                    )
                )
            ),
        ),
        Outcome.FILTERED,
    ),
    ("an error", (otlp(span(phoenix(), failed=LIMITED)),), Outcome.FAILED),
)
VERCEL = (
    (
        "an answer",
        (otlp(span(ai_sdk(ai__response__text=ANSWER, ai__response__finishReason="stop"))),),
        Outcome.COMPLIED,
    ),
    ("a refusal", (otlp(span(ai_sdk(ai__response__text=REFUSAL, ai__finishReason="stop"))),), Outcome.REFUSED),
    ("a filter", (otlp(span(ai_sdk(ai__response__finishReason="content-filter"))),), Outcome.FILTERED),
    ("an empty answer", (otlp(span(ai_sdk(ai__response__finishReason="stop"))),), Outcome.EMPTY),
    ("an error", (otlp(span(ai_sdk(), failed=LIMITED)),), Outcome.FAILED),
    (
        "a call within its outer span",
        (
            otlp(
                span({"ai.operationId": "ai.generateText", "ai.response.text": REFUSAL}, name="ai.generateText"),
                span(ai_sdk(ai__response__text=REFUSAL)),
            ),
        ),
        Outcome.REFUSED,
    ),
)
INSPECT = (
    ("an answer", (INSPECT_HEADER, inspect_sample()), Outcome.COMPLIED),
    ("a refusal", ({**INSPECT_HEADER, "samples": [inspect_sample(REFUSAL)]},), Outcome.REFUSED),
    ("a refusal part", (inspect_sample([{"type": "text", "text": "Not today.", "refusal": True}]),), Outcome.REFUSED),
    ("a refusal stop", (inspect_sample("", stop="content_filter", details={"type": "refusal"}),), Outcome.REFUSED),
    ("a filter", (inspect_sample("", stop="content_filter"),), Outcome.FILTERED),
    ("an error", (inspect_sample(output=NO_OUTPUT, error={"message": LIMITED, "traceback": ""}),), Outcome.FAILED),
)
PROMPTFOO = (
    ("an answer", (promptfoo_row({"output": ANSWER, "finishReason": "stop"}),), Outcome.COMPLIED),
    (
        "a failed assertion",
        (promptfoo_row({"output": ANSWER}, error="Expected output to be shorter", failureReason=1, success=False),),
        Outcome.COMPLIED,
    ),
    (
        "a refusal",
        (promptfoo_row({"output": REFUSAL, "isRefusal": True, "guardrails": {"flagged": True}}),),
        Outcome.REFUSED,
    ),
    (
        "a guardrail",
        (promptfoo_row({"output": "blocked", "guardrails": {"flagged": True, "reason": "hate"}}),),
        Outcome.FILTERED,
    ),
    ("a filter", (promptfoo_row({"output": "", "finishReason": "content_filter"}),), Outcome.FILTERED),
    (
        "an error",
        (
            {
                "evalId": "e1",
                "results": {"version": 3, "results": [promptfoo_row(None, error=LIMITED, failureReason=2)]},
            },
        ),
        Outcome.FAILED,
    ),
)
LM_EVAL = (
    ("an answer", (harness([[ANSWER]]), harness([[ANSWER]], filter="strict-match")), Outcome.COMPLIED),
    ("a refusal", (harness([[REFUSAL]]),), Outcome.REFUSED),
    ("an empty answer", (harness([[""]]),), Outcome.EMPTY),
    ("no answer", (harness([]),), Outcome.FAILED),
)
OPENAI_EVALS = (
    ("an answer", (EVALS_SPEC, event(prompt=ASKED, sampled=[ANSWER]), event("match", correct=True)), Outcome.COMPLIED),
    ("a refusal", (event(prompt=QUESTION, sampled=REFUSAL),), Outcome.REFUSED),
    ("no answer", (event(prompt=QUESTION, sampled=[]),), Outcome.FAILED),
)
DEEPEVAL = (
    ("an answer", (deepeval_run(actualOutput=ANSWER),), Outcome.COMPLIED),
    ("a refusal", (deepeval_run(actualOutput=REFUSAL),), Outcome.REFUSED),
    ("no answer", (deepeval_run(actualOutput=None),), Outcome.FAILED),
    (
        "a conversation",
        (deepeval_run(turns=[*ASKED, {"role": "assistant", "content": REFUSAL}, {"role": "user", "content": "ok"}]),),
        Outcome.REFUSED,
    ),
)
BRAINTRUST = (
    ("an answer", (braintrust_row(),), Outcome.COMPLIED),
    ("a refusal field", (braintrust_row(output=[chat_choice(None, refusal=REFUSAL)]),), Outcome.REFUSED),
    ("a refusal", (braintrust_row(input={"messages": ASKED}, output={"content": REFUSAL}),), Outcome.REFUSED),
    ("a filter", (braintrust_row(output=[chat_choice("", finish="content_filter")]),), Outcome.FILTERED),
    ("an error", (braintrust_row(output=None, error=LIMITED),), Outcome.FAILED),
    (
        "an experiment's root",
        (braintrust_row(span_attributes={"type": "eval"}, span_parents=None, input=QUESTION, output=REFUSAL),),
        Outcome.REFUSED,
    ),
)
LANGSMITH = (
    ("an answer", (langsmith_run(generation()),), Outcome.COMPLIED),
    ("a refusal", (langsmith_run(generation(REFUSAL)),), Outcome.REFUSED),
    ("a refusal field", (langsmith_run(generation("", additional_kwargs={"refusal": REFUSAL})),), Outcome.REFUSED),
    ("a filter", (langsmith_run(generation("", finish="content_filter")),), Outcome.FILTERED),
    ("a wrapped client's response", (langsmith_run({"choices": [chat_choice(None, refusal="No.")]}),), Outcome.REFUSED),
    ("an error", (langsmith_run(None, error=LIMITED),), Outcome.FAILED),
    (
        "a call within a chain",
        (langsmith_run({}, run_type="chain", child_runs=[langsmith_run(generation(REFUSAL))]),),
        Outcome.REFUSED,
    ),
)
_TABLES: dict[str, tuple[tuple[tuple[str, tuple[dict[str, Any], ...], Outcome], ...], str | None, str | None]] = {
    "langfuse": (LANGFUSE, "q-1", "chat-1"),
    "langfuse-export": (LANGFUSE_EXPORT, None, "chat-1"),
    "otel": (OTEL, None, "chat-1"),
    "openllmetry": (OPENLLMETRY, None, TRACE),
    "openinference": (OPENINFERENCE, "q-1", "chat-1"),
    "vercel": (VERCEL, None, TRACE),
    "inspect": (INSPECT, "7", "7"),
    "promptfoo": (PROMPTFOO, "3/0", VARS_DIGEST),
    "lm-eval": (LM_EVAL, "4/p", "4"),
    "openai-evals": (OPENAI_EVALS, "sky.dev.0", "sky.dev.0"),
    "deepeval": (DEEPEVAL, "test_case_0", None),
    "braintrust": (BRAINTRUST, "q-1", "s1"),
    "langsmith": (LANGSMITH, "q-1", "chat-1"),
}
TOOL_EXAMPLES = tuple(
    Example(name, what, records, outcome, key, session)
    for name, (rows, key, session) in _TABLES.items()
    for what, records, outcome in rows
)
