"""One table of examples: benchmarks' answers, harnesses' conversations, and pairs of preferences, in the form of their sources."""

from __future__ import annotations

from typing import Any

from tests.formats.example import ANSWER, QUESTION, REFUSAL, Example

from demur.model.verdict import Outcome

ASKED = {"role": "user", "content": QUESTION}
COMPLIED, REFUSED, FILTERED, FAILED = Outcome.COMPLIED, Outcome.REFUSED, Outcome.FILTERED, Outcome.FAILED
EMPTY, UNREAD = Outcome.EMPTY, Outcome.UNREAD
NO_ANSWER = "$ERROR$"


def turns(*said: Any, **fields: Any) -> dict[str, Any]:
    """Return a row of FastChat's answers (`gen_api_answer.py`); Arena-Hard 0.1 writes objects for the turns."""
    row = {"question_id": 81, "answer_id": "a1", "model_id": "m", "tstamp": 1_700_000_000.5}
    return {**row, "choices": [{"index": 0, "turns": list(said)}], **fields}


def arena(content: Any) -> dict[str, Any]:
    """Return a row of Arena-Hard 2's answers (`gen_answer.py`)."""
    said = [ASKED, {"role": "assistant", "content": content}]
    row = {"uid": "u1", "ans_id": "a1", "model": "m", "messages": said, "tstamp": 1_700_000_000.5}
    return {**row, "metadata": {"token_len": 9}}


def jailbreak(response: str | None = ANSWER, prompt: str | None = QUESTION) -> dict[str, Any]:
    """Return an artifact with one behaviour (`AttackArtifact`)."""
    counts = dict.fromkeys(("number_of_queries", "queries_to_jailbreak", "prompt_tokens", "response_tokens"))
    of = {"index": 3, "goal": "Explain the sky", "behavior": "Sky", "category": "Physics", **counts}
    used = {"method": "GCG", "model": "m", "attack_type": "transfer", "defense": None, "evaluation_date": "2024-03-18"}
    return {"parameters": used, "jailbreaks": [{**of, "prompt": prompt, "response": response, "jailbroken": False}]}


def transcript(*said: str) -> str:
    """Return turns as HH-RLHF writes them."""
    return "".join(f"\n\n{who}: {text}" for who, text in zip(("Human", "Assistant") * len(said), said, strict=False))


def preferred(*said: str) -> dict[str, Any]:
    """Return a pair whose chosen side has these turns, and whose other side refuses or answers otherwise."""
    return {"chosen": transcript(*said), "rejected": transcript(QUESTION, "No idea.")}


def helm(*texts: str, reason: str = "stop", **result: Any) -> dict[str, Any]:
    """Return a `scenario_state.json` with one request."""
    completions = [{"text": text, "logprob": 0.0, "tokens": [], "finish_reason": {"reason": reason}} for text in texts]
    asked = {"model": "openai/m", "prompt": QUESTION, "max_tokens": 64, "echo_prompt": False, "embedding": False}
    instance = {"input": {"text": QUESTION}, "references": [], "split": "test", "id": "id7"}
    came = {"success": True, "embedding": [], "completions": completions, "cached": True, "request_datetime": 17e8}
    state = {"instance": instance, "train_trial_index": 0, "request": asked, "result": {**came, **result}}
    return {"adapter_spec": {"method": "generation"}, "request_states": [state]}


def tau(*said: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return one task's result (`EnvRunResult`)."""
    row = {"task_id": 4, "reward": 0.0, "info": {}, "trial": 0}
    return {**row, "traj": [{"role": "system", "content": "Be kind."}, ASKED, *said], **fields}


def says(content: Any, **more: Any) -> dict[str, Any]:
    """Return an assistant's message."""
    return {"role": "assistant", "content": content, **more}


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def step(response: Any, action: str = "ls\n") -> dict[str, Any]:
    """Return a step of a trajectory (`TrajectoryStep`)."""
    return {"action": action, "observation": "a.py", "response": response, "state": "{}", "thought": "Look."}


def swe(*steps: dict[str, Any], status: str = "submitted") -> dict[str, Any]:
    """Return a trajectory."""
    demo = {"role": "user", "content": "Here is a demonstration.", "is_demo": True, "agent": "primary"}
    told = [{"role": "system", "content": "SETTING", "agent": "primary"}, demo, {**ASKED, "agent": "primary"}]
    info = {"exit_status": status, "submission": "", "model_stats": {"api_calls": 1}}
    return {"environment": "swe_main", "trajectory": list(steps), "history": told, "info": info}


SWE_SESSION = "ad36615eca1fbdf1"
"""A name made from what the agent was asked, since a trajectory has none."""


def piece(role: str, value: str, at: int, **fields: Any) -> dict[str, Any]:
    """Return a piece of a conversation (`MessagePiece.to_dict`)."""
    row = {"id": f"p{at}", "role": role, "conversation_id": "s-1", "sequence": at, "timestamp": "2026-08-01T10:00:00Z"}
    values = {"original_value": value, "original_value_data_type": "text", "converted_value": value}
    target = {"class_name": "OpenAIChatTarget", "params": {"model_name": "m"}}
    rest = {"converted_value_data_type": "text", "response_error": "none", "prompt_target_identifier": target}
    return {**row, **values, **rest, "labels": {"operation": "sky"}, **fields}


def attack(value: str = ANSWER, **fields: Any) -> tuple[dict[str, Any], ...]:
    """Return the pieces of a question and its answer."""
    return piece("user", QUESTION, 0), piece("assistant", value, 1, **fields)


POLICY = "The prompt violates OpenAI's content policy. See the policies for more information."
AZURE_FILTER = "Content blocked by Azure's content management filter"
BLOCKED = {"response_error": "blocked", "converted_value_data_type": "error"}
LISTED = {"chosen": [ASKED, says(ANSWER)], "rejected": [ASKED, says(REFUSAL)]}
BENCHMARK_EXAMPLES = (
    Example("mt-bench", "answer", (turns(ANSWER),), COMPLIED, "81:1", "81", None),
    Example("mt-bench", "refusal", (turns(REFUSAL),), REFUSED, "81:1", "81", None),
    Example("mt-bench", "empty", (turns(""),), EMPTY, "81:1", "81", None),
    Example("mt-bench", "error", (turns(NO_ANSWER),), FAILED, "81:1", "81", None),
    Example("arena-hard", "answer", (arena({"answer": ANSWER}),), COMPLIED, "u1"),
    Example("arena-hard", "refusal", (arena({"answer": REFUSAL}),), REFUSED, "u1"),
    Example("arena-hard", "thought", (arena({"thought": ANSWER, "answer": REFUSAL}),), REFUSED, "u1"),
    Example("arena-hard", "error", (arena(NO_ANSWER),), FAILED, "u1"),
    Example("arena-hard", "null answer", (arena({"answer": None}),), EMPTY, "u1"),
    Example("arena-hard", "another object", (arena({"reply": REFUSAL}),), UNREAD, "u1"),
    Example("arena-hard", "0.1 answer", (turns({"content": ANSWER, "token_len": 9}),), COMPLIED, "81:1", "81", None),
    Example("arena-hard", "0.1 refusal", (turns({"content": REFUSAL}),), REFUSED, "81:1", "81", None),
    Example("jailbreakbench", "answer", (jailbreak(),), COMPLIED, "3"),
    Example("jailbreakbench", "refusal", (jailbreak(REFUSAL),), REFUSED, "3"),
    Example("jailbreakbench", "no response", (jailbreak(None),), FAILED, "3"),
    Example("preference", "answer", (preferred(QUESTION, ANSWER),), COMPLIED),
    Example("preference", "refusal", (preferred(QUESTION, REFUSAL),), REFUSED),
    Example("preference", "no answer", (preferred(QUESTION),), FAILED),
    Example("preference", "lists of messages", (LISTED,), COMPLIED),
    Example("preference", "texts", ({"prompt": QUESTION, "chosen": REFUSAL, "rejected": ANSWER},), REFUSED),
    Example("helm", "answer", (helm(ANSWER),), COMPLIED, "id7", "id7"),
    Example("helm", "refusal", (helm(REFUSAL, reason="endoftext"),), REFUSED, "id7", "id7"),
    Example("helm", "content policy", (helm("", reason=POLICY),), FILTERED, "id7", "id7"),
    Example("helm", "filter", (helm(success=False, error=AZURE_FILTER),), FILTERED, "id7", "id7"),
    Example("helm", "error", (helm(success=False, error="OpenAI error: timeout"),), FAILED, "id7", "id7"),
    Example("tau-bench", "answer", (tau(says(ANSWER)),), COMPLIED, "4:1", "4"),
    Example("tau-bench", "refusal", (tau(says(REFUSAL)),), REFUSED, "4:1", "4"),
    Example("tau-bench", "tool call", (tau(says(None, tool_calls=[CALL])),), COMPLIED, "4:1", "4"),
    Example("tau-bench", "error", (tau(traj=[], info={"error": "timeout"}),), FAILED, "4", "4", None),
    Example("swe-agent", "answer", (swe(step(ANSWER)),), COMPLIED, None, SWE_SESSION),
    Example("swe-agent", "refusal", (swe(step(REFUSAL)),), REFUSED, None, SWE_SESSION),
    Example("swe-agent", "call without text", (swe(step("")),), COMPLIED, None, SWE_SESSION),
    Example("swe-agent", "exit", (swe(step("", "exit_api"), status="exit_api"),), FAILED, None, SWE_SESSION),
    Example("pyrit", "answer", attack(), COMPLIED, None, "s-1"),
    Example("pyrit", "refusal", attack(REFUSAL), REFUSED, None, "s-1"),
    Example("pyrit", "blocked", attack('{"status_code": 400}', **BLOCKED), FILTERED, None, "s-1"),
    Example("pyrit", "empty", attack("", response_error="empty"), EMPTY, None, "s-1"),
    Example("pyrit", "error", attack("timeout", response_error="processing"), FAILED, None, "s-1"),
)
