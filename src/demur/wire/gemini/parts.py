"""What are Gemini's parts, names and times, on the wire and in the model?

Laws: every part is one part of the model, so what a part cannot say (a thought's signature) finds its place again;
names are put into camelCase only where the API defines them, never inside a tool's arguments or a schema.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from demur.model.exchange import OpaquePart, RefusalPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from demur.wire.blocks import arguments_of, input_of
from demur.wire.fields import Field, decode, opaque, root

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.model.exchange import Part
    from demur.wire.interface import JsonObject

__all__ = ["camel_request", "camel_response", "read_part", "seconds", "stamp", "write_part"]

_SNAKE = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")

# Objects whose names the API defines, by the field that holds them; a list stands for each of its items.
_Places = dict[str, Any]
_CONTENT: _Places = {
    "parts": {
        "codeExecutionResult": {},
        "executableCode": {},
        "fileData": {},
        "functionCall": {},
        "functionResponse": {},
        "inlineData": {},
    }
}
_REQUEST: _Places = {"contents": _CONTENT, "generationConfig": {}, "systemInstruction": _CONTENT}
_RESPONSE: _Places = {
    "candidates": {"citationMetadata": {}, "content": _CONTENT, "safetyRatings": {}},
    "promptFeedback": {"safetyRatings": {}},
    "usageMetadata": {},
}


def camel_request(body: JsonObject) -> JsonObject:
    """Return the request with the API's own names in camelCase; an instruction that is mere text becomes a part."""
    request: JsonObject = _camel(root(body).object(), _REQUEST)
    if isinstance(request.get("systemInstruction"), str):
        request["systemInstruction"] = {"parts": [{"text": request["systemInstruction"]}]}
    return request


def camel_response(body: JsonObject) -> JsonObject:
    """Return the response with the API's own names in camelCase."""
    response: JsonObject = _camel(root(body).object(), _RESPONSE)
    return response


def read_part(part: Field) -> Part:
    """Return the part; media, code and kinds from the future are opaque."""
    call, result, text = part.get("functionCall"), part.get("functionResponse"), part.text_at("text")
    if call is not None:
        name = call.text_at("name") or ""
        return ToolCallPart(call.text_at("id") or name, name, arguments_of(call.get("args")))
    if result is not None:
        return ToolResultPart(result.text_at("id") or result.text_at("name") or "", _output_text(result))
    if text is not None:
        return ThinkingPart(text) if part.flag_at("thought") else TextPart(text)
    return opaque(part, next((name for name, field in part.fields() if field.is_object), "unknown"))


def write_part(part: Part, names: Mapping[str, str]) -> JsonObject:
    """Return the part as JSON; `names` says which tool a call's id belongs to."""
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"text": text}
        case ThinkingPart(text):
            return {"text": text, "thought": True}
        case ToolCallPart(id=call, name=name, arguments=arguments):
            own_id = {} if call == name else {"id": call}
            return {"functionCall": {**own_id, "name": name, "args": input_of(arguments)}}
        case ToolResultPart(call_id=call, text=text):
            return {"functionResponse": {**_matched(call, names), "response": _result(text)}}
        case OpaquePart(body=body):
            return root(decode(body)).object()


def seconds(time: str) -> int | None:
    """Return an RFC 3339 time as whole seconds since 1970, None where it is none; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def stamp(created_s: int | None) -> str | None:
    """Return seconds since 1970 as an RFC 3339 time."""
    if created_s is None:
        return None
    return datetime.fromtimestamp(created_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _camel(value: Any, places: _Places) -> Any:
    if isinstance(value, list):
        return [_camel(item, places) for item in value]
    if not isinstance(value, dict):
        return value
    named = ((_SNAKE.sub(lambda match: match[1].upper(), name), item) for name, item in value.items())
    return {name: _camel(item, places[name]) if name in places else item for name, item in named}


def _output_text(result: Field) -> str:
    """Return a result's text: the lone `output` where it is one, otherwise all of the response as JSON."""
    response = result.get("response")
    match None if response is None else response.value:
        case {"output": str(output), **more} if not more and _result(output) == {"output": output}:
            return output
        case _:
            return arguments_of(response)


def _result(text: str) -> JsonObject:
    value = input_of(text) if text else text
    return value if isinstance(value, dict) else {"output": text}


def _matched(call: str, names: Mapping[str, str]) -> JsonObject:
    name = names.get(call)
    if name is None:
        return {"id": call}
    return {"name": name} if name == call else {"id": call, "name": name}
