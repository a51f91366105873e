"""What benchmarks keep of a model's answers: MT-Bench, Arena-Hard, JailbreakBench, HELM, and pairs of preferences.

Each is read as the benchmark's own source writes it (the versions are in the table of `docs/formats.md`). An answer that is neither a
text nor an object known here is unread. Of a pair of preferences only the `chosen` side is read, which the field `side` says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.formats.fields import fields_of, key_of, message_of, object_at, parts_of, request_of, role_of, text_at
from demur.formats.interface import Kind, stateless
from demur.formats.responses import failure_of, read_each, response_of_choices, response_of_parts
from demur.model.exchange import Exchange, OpaquePart, Response, Signal, SignalKind, TextPart, ThinkingPart
from demur.model.run import Skipped, Traced
from demur.wire.fields import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.fields import JsonObject

__all__ = ["ARENA_HARD", "HELM", "JAILBREAKBENCH", "MT_BENCH", "PREFERENCE"]

_NO_ANSWER = "$ERROR$"
"""What FastChat and Arena-Hard write for a call that failed (`API_ERROR_OUTPUT`)."""


def _answer_parts(content: object) -> tuple[Part, ...]:
    """Return the parts of a benchmark's answer: a text, a list of parts, or Arena-Hard's object with `answer`."""
    if content is None or isinstance(content, str | list):
        return parts_of(content)
    if not isinstance(content, dict) or "answer" not in content:
        return (OpaquePart("unread.not_text", encode(content)),)
    thought = text_at(content, "thought")
    return (*((ThinkingPart(thought),) if thought else ()), *_answer_parts(content["answer"]))


def _answered(content: object, model: str) -> Response:
    parts = _answer_parts(content)
    if parts == (TextPart(_NO_ANSWER),):
        return failure_of(_NO_ANSWER, model=model, path="answer")
    return response_of_parts(parts, model=model)


def _turn_lists(record: JsonObject) -> list[list[Any]] | None:
    """Return the turns of each choice in a row of answers, None where it is no such row."""
    choices = record.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    turns = [choice.get("turns") if isinstance(choice, dict) else None for choice in choices]
    return [each for each in turns if isinstance(each, list)] if all(isinstance(t, list) for t in turns) else None


def _has_objects(record: JsonObject) -> bool | None:
    """Return whether the turns of a row are objects, as Arena-Hard writes them; None where it has no turns."""
    listed = _turn_lists(record)
    return None if listed is None else any(isinstance(turn, dict) for turns in listed for turn in turns)


def _read_turns(record: JsonObject) -> Iterator[Traced | Skipped]:
    """Yield each turn of each choice; the questions are in a file of their own, so that only their ids pair the rows."""
    listed = _turn_lists(record)
    if listed is None:
        raise ShapeError("`choices`: expected a list of choices with `turns`, got something else")
    model = text_at(record, "model_id", "model") or ""
    question = key_of(record.get("question_id")) or key_of(record.get("uid"))
    about = {"model": model, "created": record.get("tstamp"), "category": record.get("category")}
    if not any(listed):
        yield Skipped("an answer without turns")
    for turns in listed:
        for number, turn in enumerate(turns, 1):
            content = turn.get("content") if isinstance(turn, dict) and "content" in turn else turn
            # A question's second turn is another question.
            key = None if question is None else f"{question}:{number}"
            exchange = Exchange(None, _answered(content, model), None, key, question)
            yield Traced(exchange, fields_of({**about, "turn": number}, skip={"created"}))


MT_BENCH = Kind("mt-bench", lambda record: _has_objects(record) is False, stateless(_read_turns))


def _sniffs_arena(record: JsonObject) -> bool:
    turns = record.get("messages")
    is_answer = "ans_id" in record and isinstance(turns, list) and any(isinstance(turn, dict) for turn in turns)
    return is_answer or _has_objects(record) is True


def _read_arena(record: JsonObject) -> Iterator[Traced | Skipped]:
    if _turn_lists(record) is not None:
        yield from _read_turns(record)
        return
    listed = record.get("messages")
    turns = [turn for turn in listed if isinstance(turn, dict)] if isinstance(listed, list) else []
    if not turns:
        raise ShapeError("`messages`: expected a list of messages, got something else")
    model = text_at(record, "model") or ""
    last = next((at for at in reversed(range(len(turns))) if role_of(turns[at]) == "assistant"), len(turns))
    said = turns[last].get("content") if last < len(turns) else None
    response = None if said is None else _answered(said, model)
    row = {"model": model, "created": record.get("tstamp"), "category": record.get("category")}
    fields = fields_of({**row, "metadata": record.get("metadata")}, skip={"created"})
    yield Traced(Exchange(None, response, request_of(turns[:last], model), key_of(record.get("uid"))), fields)


ARENA_HARD = Kind("arena-hard", _sniffs_arena, stateless(_read_arena))


def _sniffs_jailbreaks(record: JsonObject) -> bool:
    return isinstance(record.get("jailbreaks"), list) and isinstance(record.get("parameters"), dict)


def _read_jailbreaks(record: JsonObject) -> Iterator[Traced | Skipped]:
    if not _sniffs_jailbreaks(record):
        raise ShapeError("`jailbreaks`: expected a list, got something else", hint="`parameters` stands beside it")
    used = record["parameters"]
    about = {name: used.get(name) for name in ("model", "method", "attack_type", "defense")}
    about["day"] = used.get("evaluation_date")
    rows = ({**about, **row} if isinstance(row, dict) else row for row in record["jailbreaks"])
    yield from read_each(rows, _read_jailbreak)


def _read_jailbreak(row: JsonObject) -> Iterator[Traced | Skipped]:
    if row.get("prompt") is None and row.get("response") is None:
        # The attack found no prompt for this behaviour, so the model was not asked.
        yield Skipped("a behaviour without a prompt")
        return
    model, said = text_at(row, "model") or "", row.get("response")
    response = None if said is None else response_of_parts(_answer_parts(said), model=model)
    fields = fields_of(row, skip={"index", "goal", "prompt", "response"})
    yield Traced(Exchange(None, response, request_of(row.get("prompt"), model), key_of(row.get("index"))), fields)


JAILBREAKBENCH = Kind("jailbreakbench", _sniffs_jailbreaks, stateless(_read_jailbreaks))

_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
"""How HH-RLHF begins a turn."""


def _sniffs_preference(record: JsonObject) -> bool:
    sides = (record.get("chosen"), record.get("rejected"))
    if all(isinstance(side, str) for side in sides):
        return isinstance(record.get("prompt"), str | list) or _transcript(str(sides[0])) != []
    return all(isinstance(side, list) and side and all(isinstance(turn, dict) for turn in side) for side in sides)


def _read_preference(record: JsonObject) -> Iterator[Traced | Skipped]:
    if not _sniffs_preference(record):
        hint = "HH-RLHF's are transcripts, others lists of messages or texts beside a `prompt`"
        raise ShapeError("`chosen`: expected a conversation, got something else", hint=hint)
    side, asked = record["chosen"], record.get("prompt")
    turns = _transcript(side) if isinstance(side, str) else side
    if not turns:
        # The prompt stands beside the two texts.
        turns = [*(asked if isinstance(asked, list) else [{"role": "user", "content": asked}])]
        turns.append({"role": "assistant", "content": side})
    elif role_of(turns[0]) == "assistant" and asked is not None:
        turns = [*(asked if isinstance(asked, list) else [{"role": "user", "content": asked}]), *turns]
    spoken = [turn for turn in turns if isinstance(turn, dict)]
    last = spoken[-1] if spoken and role_of(spoken[-1]) == "assistant" else None
    model = text_at(record, "chosen_model", "model") or ""
    response = None if last is None else response_of_parts(message_of(last).parts, model=model)
    fields = fields_of({**record, "side": "chosen"}, skip={"id", "prompt", "chosen", "rejected"})
    request = request_of(spoken if last is None else spoken[:-1], model)
    yield Traced(Exchange(None, response, request, key_of(record.get("id")) or key_of(record.get("prompt_id"))), fields)


def _transcript(text: str) -> list[JsonObject]:
    """Return the turns of HH-RLHF's text, none where it is not one."""
    pieces = _SPEAKER.split(text)
    if len(pieces) == 1 or pieces[0].strip():
        return []
    roles = {"Human": "user", "Assistant": "assistant"}
    return [{"role": roles[who], "content": said.strip()} for who, said in zip(pieces[1::2], pieces[2::2], strict=True)]


PREFERENCE = Kind("preference", _sniffs_preference, stateless(_read_preference))

_POLICY = re.compile(r"violates \w+'s content policy|\AContent blocked by ")
"""How HELM's clients word a block: `CONTENT_POLICY_VIOLATED_FINISH_REASON`, and the error for Azure's filter."""
_MAX_ERROR_CHARS = 400


def _sniffs_helm(record: JsonObject) -> bool:
    return isinstance(record.get("request_states"), list)


def _read_helm(record: JsonObject) -> Iterator[Traced | Skipped]:
    if not _sniffs_helm(record):
        raise ShapeError("`request_states`: expected a list, got something else", hint="it is in scenario_state.json")
    yield from read_each(record["request_states"], _read_request_state)


def _read_request_state(state: JsonObject) -> Iterator[Traced | Skipped]:
    asked, instance = object_at(state, "request"), object_at(state, "instance")
    if asked.get("echo_prompt") is True or asked.get("max_tokens") == 0 or asked.get("embedding") is True:
        # Only the probability of a given text is asked for.
        yield Skipped("a request for no answer")
        return
    model = text_at(asked, "model") or ""
    name = key_of(instance.get("id"))
    changed = text_at(object_at(instance, "perturbation"), "name")
    key = f"{name}:{changed}" if name and changed else name
    result = object_at(state, "result")
    row = {
        "model": model,
        "split": instance.get("split"),
        "perturbation": changed,
        "trial": state.get("train_trial_index"),
        "created": result.get("request_datetime"),
    }
    request = request_of(asked.get("messages") or asked.get("prompt"), model)
    yield Traced(Exchange(None, _completed(result, model), request, key, name), fields_of(row, skip={"created"}))


def _completed(result: JsonObject, model: str) -> Response | None:
    listed = result.get("completions")
    completions = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    error = text_at(result, "error")
    if not completions:
        return None if error is None and result.get("success") is not False else _failed(error or "no success", model)
    choices = []
    for each in completions:
        why = text_at(object_at(each, "finish_reason"), "reason") or ""
        if _POLICY.search(why):
            return _failed(why, model)
        thought = text_at(object_at(each, "thinking"), "text")
        said = _answer_parts(each.get("text"))
        # `endoftext` and `unknown` are HELM's own words for an ordinary end.
        stop = None if why in ("endoftext", "unknown") else why
        choices.append((((ThinkingPart(thought), *said) if thought else said), stop))
    return response_of_choices(choices, model=model, path="finish_reason.reason")


def _failed(error: str, model: str) -> Response:
    if not _POLICY.search(error):
        return failure_of(error, model=model, path="result.error")
    return Response(model, (), (Signal(SignalKind.PROMPT_BLOCK, "result.error", error[:_MAX_ERROR_CHARS]),))


HELM = Kind("helm", _sniffs_helm, stateless(_read_helm))
