"""Conversations that a harness leads: tau-bench's tasks, SWE-agent's trajectories, PyRIT's attacks.

Each answer of the model is an exchange, and a conversation is one cluster: an agent may refuse in the middle and go on. What a
simulated user or a tool says is never judged.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.formats.fields import fields_of, key_of, label_of, message_of, object_at, role_of, text_at, unwrapped_json
from demur.formats.interface import Kind, stateless
from demur.formats.responses import failure_of, response_of_parts
from demur.model.exchange import (
    Exchange,
    Message,
    OpaquePart,
    Request,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from demur.model.run import Skipped, Traced
from demur.wire.fields import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.exchange import Part
    from demur.wire.fields import JsonObject

__all__ = ["PYRIT", "SWE_AGENT", "TAU_BENCH"]


def _asked(messages: Sequence[Message], model: str) -> Request | None:
    return Request(model, tuple(messages)) if any(message.parts for message in messages) else None


def _conversation_name(text: str) -> str:
    """Return a name for a conversation that has none, so that its answers count as one cluster."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


_DISPLAYED = re.compile(r"^(system|user|assistant|tool): ?", re.MULTILINE)


def _sniffs_tau(record: JsonObject) -> bool:
    ran = isinstance(record.get("traj"), list) and not {"task_id", "task_index", "reward"}.isdisjoint(record)
    return ran or isinstance(record.get("messages_display"), str)


def _read_tau(record: JsonObject) -> Iterator[Traced | Skipped]:
    """Yield the answers of one run of a task, or of one displayed conversation."""
    if not _sniffs_tau(record):
        raise ShapeError("`traj`: expected a list of messages, got something else", hint="`task_id` stands beside it")
    shown = record.get("messages_display")
    if isinstance(shown, str):
        yield from _spoken(list(_displayed_turns(shown)), None, _conversation_name(shown), {})
        return
    # A task may be named by its place alone.
    task = key_of(record.get("task_id")) or key_of(record.get("task_index"))
    row = {name: record.get(name) for name in ("trial", "reward")}
    error = object_at(record, "info").get("error")
    turns = [message_of(turn) for turn in record["traj"] if isinstance(turn, dict)]
    if not turns and error:
        yield Traced(Exchange(None, failure_of(error, path="info.error"), None, task, task), fields_of(row))
        return
    yield from _spoken(turns, task, task, row)


def _displayed_turns(shown: str) -> Iterator[Message]:
    """Yield the turns of a conversation as tau-bench prints it, one `role: content` after the other."""
    pieces = _DISPLAYED.split(shown)
    roles, texts = pieces[1::2], [text.strip() for text in pieces[2::2]]
    for at, (role, text) in enumerate(zip(roles, texts, strict=True)):
        if role == "assistant" and text == "None":
            # A null content prints as `None`; what a tool says next shows that it was called, not how.
            called = roles[at + 1 : at + 2] == ["tool"]
            part = ToolCallPart("", "", "") if called else OpaquePart("unread.not_stored", b"{}")
            yield Message(role, (part,))
        else:
            yield Message(role, (ToolResultPart("", text) if role == "tool" else TextPart(text),) if text else ())


def _spoken(turns: list[Message], task: str | None, session: str | None, row: JsonObject) -> Iterator[Traced | Skipped]:
    said = [at for at, turn in enumerate(turns) if turn.role == "assistant"]
    if not said:
        yield Skipped("a conversation without an answer")
    for number, at in enumerate(said, 1):
        key = None if task is None else f"{task}:{number}"
        exchange = Exchange(None, response_of_parts(turns[at].parts), _asked(turns[:at], ""), key, session)
        yield Traced(exchange, fields_of({**row, "turn": number}))


TAU_BENCH = Kind("tau-bench", _sniffs_tau, stateless(_read_tau))

_STEP = frozenset({"action", "observation", "response", "thought"})


def _sniffs_swe(record: JsonObject) -> bool:
    steps = record.get("trajectory")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return False
    return all(len(_STEP & step.keys()) > 1 for step in steps) if steps else isinstance(record.get("info"), dict)


def _read_swe(record: JsonObject) -> Iterator[Traced | Skipped]:
    """Yield each step of a trajectory: what the model answered to the task and all that came before."""
    if not _sniffs_swe(record):
        raise ShapeError("`trajectory`: expected a list of steps, got something else")
    about, history = object_at(record, "info"), record.get("history")
    told = [turn for turn in history if isinstance(turn, dict)] if isinstance(history, list) else []
    # Demonstrations are worked examples, not what this model was asked or said.
    own = [turn for turn in told if turn.get("is_demo") is not True]
    first = next((at for at, turn in enumerate(own) if role_of(turn) == "assistant"), len(own))
    asked = [message_of(turn) for turn in own[:first]]
    status, steps = text_at(about, "exit_status"), record["trajectory"]
    session = _conversation_name("\n".join(message.text for message in asked)) if asked else None
    row = {"exit_status": status, "environment": record.get("environment")}
    if not steps:
        yield Traced(Exchange(None, failure_of(status or "no steps", path="info.exit_status"), _asked(asked, "")))
    for number, step in enumerate(steps, 1):
        parts = _step_parts(step)
        query = step.get("query")
        # A step that asked nothing anew has the query `[{}]`.
        sent = (
            [message_of(turn) for turn in query if isinstance(turn, dict) and turn] if isinstance(query, list) else []
        )
        yield Traced(
            Exchange(None, _step_response(parts, step), _asked(sent or asked, ""), None, session),
            fields_of({**row, "step": number}),
        )
        seen = text_at(step, "observation")
        asked = [*asked, Message("assistant", parts), *([Message("tool", (ToolResultPart("", seen),))] if seen else [])]


def _step_parts(step: JsonObject) -> tuple[Part, ...]:
    said, action = step.get("response"), text_at(step, "action")
    if said is not None and not isinstance(said, str):
        return (OpaquePart("unread.not_text", encode(said)),)
    # With function calling the text may be empty, and the action is the call.
    calls = (ToolCallPart("", "action", action),) if action and not action.startswith("exit_") else ()
    return ((TextPart(said),) if said else ()) or calls


def _step_response(parts: tuple[Part, ...], step: JsonObject) -> Response:
    action = text_at(step, "action") or ""
    if not parts and action.startswith("exit_"):
        return failure_of(text_at(step, "thought", "observation") or action, path="action")
    return response_of_parts(parts)


SWE_AGENT = Kind("swe-agent", _sniffs_swe, stateless(_read_swe))

_PYRIT_FAILURES = frozenset({"processing", "unknown", "error"})
_PYRIT_STOPS = {"blocked": SignalKind.FILTER_STOP, "model": SignalKind.REFUSAL_STOP}
"""PyRIT's `PromptResponseError`; older versions write `model` for a refusal."""
_MEDIA = {"image_path": "image", "audio_path": "audio", "video_path": "video", "binary_path": "file"}


def _sniffs_pyrit(record: JsonObject) -> bool:
    named = isinstance(record.get("role"), str) and key_of(record.get("conversation_id")) is not None
    return named and any(isinstance(record.get(name), str) for name in ("converted_value", "original_value"))


class _Pieces:
    """Joins the pieces of a message, and gives each answer the turns before it.

    PyRIT exports the pieces of a conversation by their `sequence`; those of one message share it.
    """

    def __init__(self) -> None:
        self._turns: dict[str, list[Message]] = {}
        self._open: dict[str, list[JsonObject]] = {}

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        """Yield the message that this piece shows to be whole."""
        if not _sniffs_pyrit(record):
            raise ShapeError("expected a piece of a conversation", hint="it has `conversation_id`, `role` and a value")
        name = str(record["conversation_id"])
        waiting = self._open.setdefault(name, [])
        if waiting and any(waiting[0].get(at) != record.get(at) for at in ("sequence", "role")):
            yield self._message(name)
        self._open[name].append(record)

    def close(self) -> Iterator[Traced | Skipped]:
        """Yield the last message of each conversation."""
        for name in list(self._open):
            yield self._message(name)

    def _message(self, name: str) -> Traced | Skipped:
        pieces = self._open.pop(name)
        self._open[name] = []
        asked = self._turns.setdefault(name, [])
        role = pieces[0]["role"]
        parts = tuple(part for piece in pieces for part in _piece_parts(piece))
        before = tuple(asked)
        asked.append(Message("assistant" if role == "simulated_assistant" else role, parts))
        if role != "assistant":
            return Skipped(f"a piece of the {role.replace('_', ' ')[:40]}")
        target = unwrapped_json(pieces[0].get("prompt_target_identifier"))
        holder = target if isinstance(target, dict) else {}
        model = text_at(holder, "model_name") or text_at(object_at(holder, "params"), "model_name") or ""
        response = _pyrit_response(pieces, parts, model)
        kept = ("labels", "targeted_harm_categories", "response_error", "timestamp")
        row = {"model": model, **{at: pieces[0].get(at) for at in kept}}
        fields = fields_of(row, skip={"timestamp"})
        return Traced(Exchange(None, response, _asked(before, model), None, name), fields)


def _piece_parts(piece: JsonObject) -> tuple[Part, ...]:
    # What was sent to the model is the converted value; where nothing was converted older exports leave it out.
    value = piece.get("converted_value")
    value = piece.get("original_value") if value is None else value
    kind = text_at(piece, "converted_value_data_type", "original_value_data_type") or "text"
    if not isinstance(value, str):
        return () if value is None else (OpaquePart("unread.not_text", encode(value)),)
    if not value or label_of(piece.get("response_error")) not in (None, "none"):
        # What stands there is the error, not an answer.
        return ()
    if kind == "text":
        return (ToolResultPart("", value) if piece.get("role") == "tool" else TextPart(value),)
    return (_other_piece(kind, value),)


def _other_piece(kind: str, value: str) -> Part:
    if kind == "reasoning":
        return ThinkingPart(value)
    if kind in ("function_call", "tool_call"):
        call: Any = unwrapped_json(value)
        held = call if isinstance(call, dict) else {}
        return ToolCallPart(text_at(held, "call_id", "id") or "", text_at(held, "name") or "", value)
    if kind == "function_call_output":
        return ToolResultPart("", value)
    return OpaquePart(_MEDIA.get(kind, kind), encode({"type": kind, "value": value}))


def _pyrit_response(pieces: list[JsonObject], parts: tuple[Part, ...], model: str) -> Response:
    for piece in pieces:
        error = text_at(piece, "response_error") or "none"
        if error in _PYRIT_STOPS:
            return Response(model, (), (Signal(_PYRIT_STOPS[error], "response_error", error),))
        if error in _PYRIT_FAILURES:
            return failure_of(text_at(piece, "converted_value", "original_value") or error, model=model)
    return response_of_parts(parts, model=model)


PYRIT = Kind("pyrit", _sniffs_pyrit, _Pieces)
