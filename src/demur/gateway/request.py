"""Reads a client's request: is its path audited, can its body be read in one way only, and which session is it part of?

Whatever a provider could take for an audited path is audited. What cannot be read, or could be read in two ways, is
rejected: a policy cannot speak of what it does not see. What is wrong is said without repeating what was sent.
"""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from demur.errors import InputError, JsonError, ShapeError, SizeLimitError, UsageError
from demur.http.asgi import HttpProblem, is_json, path_readings
from demur.http.content_coding import body_decoder
from demur.model.exchange import OpaquePart, Shape
from demur.wire.fields import parse_json
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from pathlib import Path

    from demur.http.asgi import Scope
    from demur.http.upstream import Headers
    from demur.model.exchange import Request
    from demur.wire.fields import JsonObject

__all__ = [
    "DASHBOARD_PREFIX",
    "AuditedRoute",
    "SessionNamer",
    "audited_route",
    "is_dashboard_path",
    "reads_two_ways",
    "request_in",
    "session_secret",
]

DASHBOARD_PREFIX = "/-/"
"""Below this path is the dashboard; no provider has such a path."""

_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/")
_ENDS = (
    ("/chat/completions", Shape.OPENAI_CHAT),
    ("/responses", Shape.OPENAI_RESPONSES),
    ("/v1/messages", Shape.ANTHROPIC),
)
# What asks no model for a response; these fetch, list and delete stored ones.
_UNAUDITED = frozenset(("GET", "HEAD", "DELETE", "OPTIONS", "TRACE"))

_NO_JSON = HttpProblem(400, "invalid_json", "The body of the request is not valid JSON.")
_NO_OBJECT = HttpProblem(400, "invalid_request", "The body of the request is not a JSON object.")
_WRONG_TYPE = HttpProblem(415, "unsupported_media_type", "The body of the request is not declared as JSON.")
_TWO_WAYS = HttpProblem(
    400, "ambiguous_json", "A name in the request stands twice, or differs by capitals from one that is read."
)
_WRONG_CHARSET = HttpProblem(415, "unsupported_charset", "The body of the request is not declared as UTF-8.")
_WRONG_CODING = HttpProblem(415, "unsupported_encoding", "The body of the request is in a coding that cannot be read.")
_TOO_LARGE = HttpProblem(413, "request_too_large", "The body of the request is too large once decompressed.")
_MAX_REASON_CHARS = 200
_CHARSET = re.compile(r'charset\s*=\s*"?([^";,\s]*)', re.IGNORECASE)
_OURS = frozenset({"utf-8", "utf8", "us-ascii", "ascii", ""})

# A string of JSON, and the colon after it where it is a name.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"(\s*+:)?', re.DOTALL)
# How every name ends, and now and then a text has it too.
_QUOTE_AND_COLON = re.compile(rb'"\s*+:')
_READ_NAMES = frozenset(
    {
        *("messages", "input", "instructions", "system", "prompt", "model", "stream", "metadata", "conversation", "n"),
        *("role", "content", "type", "text", "refusal", "tool_calls", "output", "source", "data", "file", "input_text"),
    }
)
_TURNS = ("messages", "input", "system")
# Where turns have parts; what a tool was given (`input`) has names of the tool's own.
_WITHIN = ("content", "output")

_MAX_SESSION_CHARS = 128
_MAX_REMEMBERED = 10_000
_SECRET_BYTES = 32
_SESSION_NAMES = ("session_id", "conversation_id", "thread_id")


@dataclass(frozen=True, slots=True)
class AuditedRoute:
    """A path whose requests and responses are read; `model` where the path names it, as Azure's does."""

    shape: Shape
    model: str = ""

    @property
    def label(self) -> str:
        """The format as metrics and logs name it: Azure speaks OpenAI's."""
        return Shape.OPENAI_CHAT.value if self.shape is Shape.AZURE else self.shape.value


def audited_route(method: str, path: str, *, prefix: str = "") -> AuditedRoute | None:
    """Return the route at a path, None where nothing is read; `prefix` is what the provider's address puts before it."""
    if method in _UNAUDITED:
        return None
    # Servers differ about escapes, doubled slashes, dots and parameters: every reading of the path counts.
    for plain in path_readings(prefix + path):
        lowered = plain.lower()
        for end, shape in _ENDS:
            if lowered.endswith(end):
                found = _DEPLOYMENT.search(plain)
                is_azure = shape is Shape.OPENAI_CHAT and (found is not None or lowered.startswith("/openai/"))
                return AuditedRoute(Shape.AZURE if is_azure else shape, found[1] if found else "")
    return None


def is_dashboard_path(path: str) -> bool:
    """Return whether a path, as it stands or as a lenient server would read it, is the dashboard's."""
    if "-" not in path and "%" not in path:
        return False
    return any(f"{each}/".startswith(DASHBOARD_PREFIX) for each in (path, *path_readings(path)))


def request_in(
    body: bytes, scope: Scope, route: AuditedRoute, *, limit_bytes: int
) -> tuple[Request, JsonObject] | HttpProblem:
    """Return the request in a body and its JSON, or why there is none."""
    kinds: list[bytes] = []
    codings: list[str] = []
    for name, value in scope["headers"]:
        if name == b"content-type":
            kinds.append(value)
        elif name == b"content-encoding":
            codings.append(value.decode("latin-1"))
    if kinds != [b"application/json"]:
        if not is_json(scope) or len(kinds) > 1:
            return _WRONG_TYPE
        # A body in another charset is another text: JSON is read by its bytes alone (RFC 8259, section 8.1).
        if kinds and any(named.lower() not in _OURS for named in _CHARSET.findall(kinds[0].decode("latin-1"))):
            return _WRONG_CHARSET
    plain = _decompress(body, ",".join(codings), limit_bytes) if codings else body
    if isinstance(plain, HttpProblem):
        return plain
    try:
        found = parse_json(plain)
    except InputError:
        return _NO_JSON
    return _parse_request(plain, found, route)


def _decompress(body: bytes, coding: str, limit_bytes: int) -> bytes | HttpProblem:
    if not coding:
        return body
    decoder = body_decoder(coding, limit_bytes=limit_bytes)
    if decoder is None:
        return _WRONG_CODING
    try:
        return decoder.decode(body) + decoder.finish()
    except SizeLimitError:
        return _TOO_LARGE
    except InputError:
        return _WRONG_CODING


def _parse_request(plain: bytes, found: object, route: AuditedRoute) -> tuple[Request, JsonObject] | HttpProblem:
    if not isinstance(found, dict):
        return _NO_OBJECT
    try:
        request = CODECS[route.shape].read_request(found)
        return _TWO_WAYS if reads_two_ways(plain, found) else (request, found)
    except ShapeError as exc:
        # Enough of the reason to find the place by, bounded.
        return HttpProblem(400, "invalid_request", f"The request cannot be read: {exc.what[:_MAX_REASON_CHARS]}.")
    except (JsonError, RecursionError):
        return _NO_JSON


def reads_two_ways(plain: bytes, found: JsonObject) -> bool:
    """Return whether a request, as it came and as it was read, could be another one to a provider.

    Providers differ about objects in which one name occurs twice (RFC 8259, section 4, leaves it open which one counts)
    and about names that differ by capitals alone: Go's encoding/json takes `Messages` for `messages`.
    """
    encoding = json.detect_encoding(plain)
    if encoding not in ("utf-8", "utf-8-sig"):
        plain = plain.decode(encoding, errors="surrogatepass").encode("utf-8", errors="surrogatepass")
    # A name that occurs twice, at any depth: fewer names were read than are written. There are at most as many names as a
    # colon follows a quote, which is soon counted; to tell names from texts takes long.
    read, most = _count_names(found), len(_QUOTE_AND_COLON.findall(plain))
    if most != read:
        # Quotes before a colon that end no name (JSON in a text) follow one backslash; after several they might end one.
        escaped = plain.count(b'\\":') - plain.count(b'\\\\":')
        if most - escaped != read and len([colon for colon in _STRING.findall(plain) if colon]) != read:
            return True
    names = _api_names(found)
    together = "".join(names)
    if together.isascii() and together.islower():
        return False
    return any(name not in _READ_NAMES and name.casefold() in _READ_NAMES for name in names)


def _count_names(found: object) -> int:
    """Return how many names a value has, at any depth."""
    count, met = 0, [found]
    for each in met:
        if isinstance(each, dict):
            count += len(each)
            met += each.values()
        elif isinstance(each, list):
            met += [item for item in each if isinstance(item, dict | list)]
    return count


def _api_names(found: JsonObject) -> list[str]:
    """Return the names that are the API's own: in the request, its turns and their parts, not in schemas or metadata."""
    names = list(found)
    met: list[object] = [found[name] for name in _TURNS if name in found]
    for each in met:
        if isinstance(each, dict):
            names += each
            met += [each[name] for name in _WITHIN if name in each]
        elif isinstance(each, list):
            met += each
    return names


class SessionNamer:
    """Names the session of a request; remembers which responses belong to which, for APIs that refer back to them."""

    def __init__(self, headers: tuple[str, ...], secret: bytes) -> None:
        self._headers = tuple(name.lower().encode("latin-1") for name in headers)
        self._secret = secret
        self._responses: OrderedDict[str, str] = OrderedDict()

    def name(self, request: Request, body: JsonObject, *, headers: Headers, owner: bytes) -> str:
        """Return the session: what the client names, else what the conversation began with; `owner` is the client's key."""
        named = next(
            (v for wanted in self._headers for n, value in headers if n == wanted and (v := value.strip())), b""
        )
        word = named.decode("latin-1") or _session_in(body)
        if word:
            # What cannot be a header's value is replaced by its hash.
            plain = len(word) <= _MAX_SESSION_CHARS and word.isascii() and word.isprintable()
            return word if plain else f"hashed-{self._hash(word.encode('utf-8', 'surrogatepass'))}"
        before = body.get("previous_response_id")
        known = self._responses.get(self._response_key(before, owner)) if isinstance(before, str) else None
        if known is not None:
            return known
        # A keyed hash tells nothing of the text and is the same in every process that has the key; with the owner in it,
        # clients with different keys never share a derived session.
        return f"derived-{self._hash(owner, *_conversation_opening(request))}"

    def remember(self, response_id: str | None, session: str, *, owner: bytes) -> None:
        """Take note of whose response this was: nobody else can refer back to it."""
        if response_id:
            self._responses[self._response_key(response_id, owner)] = session
            if len(self._responses) > _MAX_REMEMBERED:
                self._responses.popitem(last=False)

    def _response_key(self, response_id: str, owner: bytes) -> str:
        return self._hash(owner, response_id.encode("utf-8", "surrogatepass"))

    def _hash(self, *parts: bytes) -> str:
        hashed = blake2b(key=self._secret, digest_size=16)
        for part in parts:
            # Lengths keep two lists of parts apart that have the same bytes in a row.
            hashed.update(len(part).to_bytes(8))
            hashed.update(part)
        return hashed.hexdigest()


def _session_in(body: JsonObject) -> str:
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    if isinstance(conversation, str) and conversation:
        return conversation
    metadata = body.get("metadata")
    found = (metadata.get(name) for name in _SESSION_NAMES) if isinstance(metadata, dict) else ()
    return next((value for value in found if isinstance(value, str) and value), "")


def _conversation_opening(request: Request) -> list[bytes]:
    """Return what a conversation began with, up to the first user turn: every later request repeats it."""
    parts = []
    for message in request.messages:
        parts += [message.role.encode("utf-8", "surrogatepass"), message.text.encode("utf-8", "surrogatepass")]
        parts += [part.body for part in message.parts if isinstance(part, OpaquePart)]
        if message.role == "user":
            break
    return parts


def session_secret(folder: Path | None) -> bytes:
    """Return the key of derived names: kept beside the log's keys, made on first use; without a folder a passing one."""
    if folder is None:
        return os.urandom(_SECRET_BYTES)
    path = folder / "sessions.key"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            # Exclusive, so that of two workers that start at once one makes the key and the other reads it.
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            secret = path.read_bytes()
        else:
            secret = os.urandom(_SECRET_BYTES)
            with os.fdopen(handle, "wb") as stream:
                stream.write(secret)
    except OSError as exc:
        what = (exc.strerror or "cannot be used").lower()
        raise UsageError(f"`{path}` cannot be used: {what}", hint="check the folder of the store") from exc
    if len(secret) != _SECRET_BYTES:
        raise UsageError(f"`{path}` holds no key", hint="delete it: it is made anew")
    return secret
