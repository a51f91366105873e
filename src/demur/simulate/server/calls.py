"""What does a request ask of the simulator?

There are two ways to read one. The general way takes a decoded and checked body of any provider apart by its codec. The
plain way reads the commonest request, a chat of text turns and nothing else, by type in one step, at a tenth of the cost.

Laws: whatever the plain way reads the general way would accept too, and read alike; whatever is not plain, or wrong, it
leaves to the general way, which knows what to say about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from demur.errors import UsageError
from demur.model.exchange import Message, Request, Shape, TextPart
from demur.simulate.engine import Call
from demur.simulate.server.checks import MOST_CHOICES, MOST_PENALTY, MOST_TEMPERATURE
from demur.simulate.server.routes import Door, shape_of_path
from demur.wire.fields import encode
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.simulate.server.routes import Route
    from demur.wire.interface import JsonObject

__all__ = ["Knock", "call_of", "plain_call"]

_ATTEMPT = re.compile(r"attempt=([0-9]{1,9})(?![0-9])")
_SEED = re.compile(r"-?[0-9]{1,18}")
_CHAT = (Shape.OPENAI_CHAT, Shape.AZURE)
_JSON_FORMATS = ("json_object", "json_schema")


@dataclass(frozen=True, slots=True)
class Knock:
    """A request as it came in."""

    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


def call_of(route: Route, knock: Knock, body: JsonObject) -> Call:
    """Return the call that a checked request makes."""
    request = CODECS[route.shape].read_request(body)
    call = _call(route, knock, request)
    return replace(call, max_tokens=_max_tokens(body), schema=_schema(body), usage=_wants_usage(body, call))


def plain_call(route: Route, knock: Knock) -> Call | None:
    """Return the call that a plain chat request makes, None where it is anything else."""
    if route.door is not Door.ANSWER or route.shape not in _CHAT:
        return None
    try:
        read = _PLAIN.decode(knock.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    stream, options = read.stream or False, read.stream_options
    if options is not None and not stream:
        return None
    turns = tuple(_text_turn(turn) for turn in read.messages)
    limit = read.max_completion_tokens if read.max_completion_tokens is not None else read.max_tokens
    usage = not stream or (options is not None and options.include_usage is True)
    return _call(route, knock, Request(read.model, turns, stream, read.n or 1), max_tokens=limit, usage=usage)


_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-MOST_PENALTY, le=MOST_PENALTY)]


class _Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: str


class _Options(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class _Plain(msgspec.Struct, frozen=True):
    model: str
    messages: Annotated[list[_Turn], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=MOST_CHOICES)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MOST_TEMPERATURE)] | None = None
    max_completion_tokens: _Positive | None = None
    max_tokens: _Positive | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    seed: int | None = None
    user: str | None = None
    stream_options: _Options | None = None
    # Whoever sends one of these is not plain: only null is read.
    response_format: None = None
    tools: None = None
    text: None = None
    max_output_tokens: None = None
    generationConfig: None = None  # noqa: N815 — the provider's spelling
    inferenceConfig: None = None  # noqa: N815 — the provider's spelling


_PLAIN = msgspec.json.Decoder(_Plain)


def _text_turn(turn: _Turn) -> Message:
    return Message(turn.role, (TextPart(turn.content),) if turn.content else ())


def _call(route: Route, knock: Knock, request: Request, *, max_tokens: int | None = None, usage: bool = True) -> Call:
    """Return the call, with what the path and the headers say."""
    seed = knock.headers.get("x-demur-seed")
    if seed is not None and not _SEED.fullmatch(seed):
        raise UsageError(f"`x-demur-seed: {seed[:40]}` is no whole number of at most 18 digits")
    return Call(
        shape=route.shape,
        request=msgspec.structs.replace(request, model=route.model) if route.model else request,
        key=(knock.path.encode("utf-8", "surrogatepass"), knock.body, _attempt(knock.headers)),
        stream=route.door is Door.STREAM or request.stream,
        scenario=knock.headers.get("x-demur-scenario"),
        seed=None if seed is None else int(seed),
        max_tokens=max_tokens,
        usage=usage,
        host=shape_of_path(knock.path),
    )


def _attempt(headers: Mapping[str, str]) -> bytes:
    """Return which attempt the client says this is, so that a retry may meet with better luck; the first says nothing."""
    again = headers.get("x-stainless-retry-count", "0")
    found = _ATTEMPT.search(headers.get("amz-sdk-request", ""))
    number = str(int(found[1]) - 1) if found else again
    return b"" if number == "0" else number.encode()


def _max_tokens(body: JsonObject) -> int | None:
    config = body.get("generationConfig") or body.get("inferenceConfig")
    places = (
        (body, ("max_completion_tokens", "max_tokens", "max_output_tokens")),
        (config if isinstance(config, dict) else {}, ("maxOutputTokens", "maxTokens")),
    )
    found = (holder.get(name) for holder, names in places for name in names)
    return next((limit for limit in found if isinstance(limit, int) and not isinstance(limit, bool)), None)


def _schema(body: JsonObject) -> bytes | None:
    """Return the schema of the JSON that is asked for, `{}` for JSON of any kind, None for text."""
    text, config = body.get("text"), body.get("generationConfig")
    asked = body.get("response_format") or (text.get("format") if isinstance(text, dict) else None)
    if isinstance(config, dict) and config.get("responseMimeType") == "application/json":
        return encode(config.get("responseJsonSchema") or {})
    if not isinstance(asked, dict) or asked.get("type") not in _JSON_FORMATS:
        return None
    named = asked.get("json_schema")
    return encode((named.get("schema") if isinstance(named, dict) else asked.get("schema")) or {})


def _wants_usage(body: JsonObject, call: Call) -> bool:
    """Return whether the count of tokens is sent: streams of chat completions have it only where it is asked for."""
    if not call.stream or call.shape not in _CHAT:
        return True
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True
