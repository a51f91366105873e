"""To which session does an exchange belong? By a header, by the body's own words, or by how the conversation began.

Laws: what a client names wins; a derived name is a keyed hash, so that it tells nothing of the text and is the same in
every process that has the key; clients with different keys never share a derived session; a name that cannot stand in a
header is replaced by its hash.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.model.exchange import OpaquePart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demur.http.upstream import Headers
    from demur.model.exchange import Message, Request
    from demur.wire.interface import JsonObject

__all__ = ["SessionNamer", "session_secret"]

_LONGEST = 128
_REMEMBERED = 10_000
_SECRET_BYTES = 32
_NAMES = ("session_id", "conversation_id", "thread_id")


class SessionNamer:
    """Names the session of a request; remembers which answers belong to which, for APIs that refer back to them."""

    def __init__(self, headers: tuple[str, ...], secret: bytes) -> None:
        self._headers = tuple(name.lower().encode("latin-1") for name in headers)
        self._secret = secret
        self._answers: OrderedDict[str, str] = OrderedDict()

    def name(self, request: Request, body: JsonObject, *, headers: Headers, owner: bytes) -> str:
        """Return the session; `owner` is whoever's key the request carries."""
        named = self._of_headers(headers) or _of_body(body)
        if named:
            return self._safe(named)
        before = body.get("previous_response_id")
        known = self._answers.get(self._answer_key(before, owner)) if isinstance(before, str) else None
        if known is not None:
            return known
        return f"derived-{self._hash(owner, *_conversation_opening(request))}"

    def remember(self, answer_id: str | None, session: str, *, owner: bytes) -> None:
        """Take note of whose answer this was: nobody else can refer back to it."""
        if answer_id:
            self._answers[self._answer_key(answer_id, owner)] = session
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)

    def _answer_key(self, answer_id: str, owner: bytes) -> str:
        return self._hash(owner, answer_id.encode("utf-8", "surrogatepass"))

    def _of_headers(self, headers: Headers) -> str:
        for wanted in self._headers:
            for name, value in headers:
                if name == wanted and value.strip():
                    return value.strip().decode("latin-1")
        return ""

    def _safe(self, named: str) -> str:
        plain = len(named) <= _LONGEST and named.isascii() and named.isprintable()
        return named if plain else f"hashed-{self._hash(named.encode('utf-8', 'surrogatepass'))}"

    def _hash(self, *parts: bytes) -> str:
        hashed = blake2b(key=self._secret, digest_size=16)
        for part in parts:
            hashed.update(len(part).to_bytes(8))
            hashed.update(part)
        return hashed.hexdigest()


def _of_body(body: JsonObject) -> str:
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    if isinstance(conversation, str) and conversation:
        return conversation
    metadata = body.get("metadata")
    found = (metadata.get(name) for name in _NAMES) if isinstance(metadata, dict) else ()
    return next((value for value in found if isinstance(value, str) and value), "")


def _conversation_opening(request: Request) -> Iterator[bytes]:
    """Yield what a conversation began with: every later turn repeats it."""
    for message in request.messages:
        yield message.role.encode("utf-8", "surrogatepass")
        yield from _said_in(message)
        if message.role == "user":
            return


def _said_in(message: Message) -> Iterator[bytes]:
    yield message.text.encode("utf-8", "surrogatepass")
    for part in message.parts:
        if isinstance(part, OpaquePart):
            yield part.body


def session_secret(folder: Path | None) -> bytes:
    """Return the key of derived names: kept beside the log's keys, made on first use; without a folder a passing one."""
    if folder is None:
        return os.urandom(_SECRET_BYTES)
    path = folder / "sessions.key"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
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
