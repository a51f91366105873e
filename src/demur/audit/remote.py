"""The client of an auditor over HTTP: one POST of the claims protocol 2.0, and a distrustful reading of the answer.

Whatever is at the other end (a page of HTML, endless bytes, a redirect, nobody) comes back as a problem, never as an
exception, and nothing of an answer's body is repeated in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from demur.audit.config import Sent
from demur.errors import UpstreamConnectError, UpstreamCutError, UpstreamError
from demur.http.upstream import UpstreamRequest, UpstreamTimeouts, header_values, split_credentials
from demur.model.claim import MOST_VERSION_CHARS, Phase, Problem

if TYPE_CHECKING:
    from demur.audit.inputs import AuditorInput
    from demur.http.pool import HttpPool
    from demur.http.upstream import Headers, UpstreamResponse

__all__ = ["MAX_BYTES", "RemoteAnswer", "RemoteAuditor", "RemoteClaim"]

MAX_BYTES = 1024 * 1024
# Time limits are the chain's, which knows the budget and cancels.
_TIMEOUTS = UpstreamTimeouts(connect_s=86_400, read_s=86_400, total_s=86_400, idle_s=15)
# Compressed answers are declined: a small one may unpack to anything.
_HEADERS: Headers = (
    (b"content-type", b"application/json"),
    (b"accept", b"application/json"),
    (b"accept-encoding", b"identity"),
)
_HTTP_OK = 200
_HTTP_REDIRECTS = range(300, 400)
_MAX_CODE_CHARS = 64
_MAX_NAMED = 1_024


class RemoteClaim(msgspec.Struct, frozen=True):
    """A claim as it came, unchecked."""

    name: str
    value: Any = None
    type: str | None = None
    confidence: float | None = None
    metadata: dict[str, Any] | None = None


class _Error(msgspec.Struct, frozen=True):
    code: str = "error"
    message: str = ""
    claims: Any = None


class _AnswerForm(msgspec.Struct, frozen=True):
    status: str
    claims: tuple[RemoteClaim, ...] | None = None
    error: _Error | None = None
    version: str | None = None
    auditor_id: Any = None


class _Word(msgspec.Struct, frozen=True):
    name: str
    type: str
    phase: Phase
    sensitive: bool = False
    description: str = ""


class _Words(msgspec.Struct, frozen=True):
    claims: tuple[_Word, ...] = ()
    complete: bool = True
    auditor_id: Any = None


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What came back; `reached` is False where it was not an auditor's answer at all.

    `unsound` are claims that the auditor itself says it could not state, unchecked.
    """

    claims: tuple[RemoteClaim, ...] = ()
    problems: tuple[Problem, ...] = ()
    version: str | None = None
    reached: bool = True
    unsound: tuple[str, ...] = ()


class RemoteAuditor:
    """The client of one auditor; opens its connections on first use, in the event loop of that moment."""

    def __init__(self, url: str, sent: Sent = Sent.MAPPING, *, auditor_id: str | None = None) -> None:
        self.url = url
        self._id = auditor_id
        self._sent = sent
        self._pool: HttpPool | None = None
        self._headers = _HEADERS
        self._answers = msgspec.json.Decoder(_AnswerForm)

    async def ask(self, given: AuditorInput) -> RemoteAnswer:
        """Return what the auditor answers about an input."""
        asked: object = given.input
        answered: object = given.output
        if self._sent is Sent.TEXT:
            asked = None if given.input is None else given.input.get("prompt", "")
            answered = None if given.output is None else given.output.get("content", "")
        body = {
            "data": {"input": asked, "output": answered, "metadata": dict(given.metadata)},
            "phase": given.phase.value,
            "lucid_context": {"trace_id": given.trace, "claims": dict(given.claims)},
        }
        try:
            sent = msgspec.json.encode(body)
        except ValueError:
            # Half a surrogate pair has no UTF-8, but JSON can escape it: it must not keep a text from being audited.
            sent = json.dumps(body).encode()
        got = await self._exchange("POST", "/claims", sent)
        return _unreached(got) if isinstance(got, Problem) else self._read(got)

    async def words(self) -> dict[Phase, dict[str, dict[str, object]]] | Problem:
        """Return the vocabulary that the auditor declares, by phase and name; empty where it is still learning it."""
        got = await self._exchange("GET", "/vocabulary", b"")
        if isinstance(got, Problem):
            return got
        try:
            read = msgspec.json.decode(got, type=_Words)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return Problem("bad_answer", "its vocabulary cannot be read")
        if not self._is_known(read.auditor_id):
            return _another()
        words: dict[Phase, dict[str, dict[str, object]]] = {}
        for row in read.claims if read.complete else ():
            said = {"type": row.type, "sensitive": row.sensitive, "description": row.description}
            words.setdefault(row.phase, {})[row.name] = said
        return words

    async def close(self) -> None:
        """Close its connections."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def _exchange(self, method: str, path: str, body: bytes) -> bytes | Problem:
        if self._pool is None:
            # Imported here so that auditors in the process need no HTTP client.
            from demur.http.pool import HttpPool

            url, token = split_credentials(self.url)
            self._headers = (*_HEADERS, (b"authorization", token)) if token else _HEADERS
            self._pool = HttpPool(url, timeouts=_TIMEOUTS)
        request = UpstreamRequest(method, path, self._headers, body)
        try:
            try:
                return await _read_response(await self._pool.send(request))
            except UpstreamCutError as exc:
                if exc.received:
                    raise
                # The other end may close an idle connection just as it is used again; asking twice changes nothing.
                return await _read_response(await self._pool.send(request))
        except UpstreamConnectError:
            return Problem("unreachable", "nobody answers at its address")
        except UpstreamError as exc:
            return Problem("bad_http", f"no HTTP answer that can be read ({type(exc).__name__})")

    def _read(self, body: bytes) -> RemoteAnswer:
        try:
            answer = self._answers.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return _unreached(Problem("bad_answer", "its answer is not JSON of the claims protocol"))
        if answer.status == "success" and answer.claims is None:
            # An empty list says that there is nothing to state; no list at all says nothing, and is no audit.
            return _unreached(Problem("bad_answer", "its answer has no `claims`"))
        if not self._is_known(answer.auditor_id):
            return _unreached(_another())
        problems = []
        version = answer.version
        if version is not None and len(version) > MOST_VERSION_CHARS:
            # A version is in every record: a part of one would be no version, and the whole could be anything.
            problems.append(Problem("bad_answer", f"its version is longer than {MOST_VERSION_CHARS} characters"))
            version = None
        if answer.status == "success":
            return RemoteAnswer(answer.claims or (), tuple(problems), version)
        error = answer.error or _Error()
        problems.insert(0, Problem("auditor_error", f"it answers with the error `{error.code[:_MAX_CODE_CHARS]}`"))
        named = error.claims[:_MAX_NAMED] if isinstance(error.claims, list) else []
        unsound = tuple(name for name in named if isinstance(name, str))
        return RemoteAnswer(answer.claims or (), tuple(problems), version, unsound=unsound)

    def _is_known(self, given: object) -> bool:
        """Return whether an answer is this auditor's: it gives no id, the expected one, or the first that is given."""
        if given is None:
            return True
        if not isinstance(given, str):
            return False
        if self._id is None:
            # Another server that takes over the address must not speak in the name of the first.
            self._id = given
        return given == self._id


def _another() -> Problem:
    return Problem("another_auditor", "the answer bears another auditor's id")


def _unreached(problem: Problem) -> RemoteAnswer:
    return RemoteAnswer(problems=(problem,), reached=False)


async def _read_response(response: UpstreamResponse) -> bytes | Problem:
    """Return the body of a response, bounded."""
    body = bytearray()
    try:
        if response.status in _HTTP_REDIRECTS:
            # The texts were meant for this address.
            return Problem("redirected", f"it answers with a redirect (HTTP {response.status}), which is not followed")
        if response.status != _HTTP_OK:
            return Problem("bad_http", f"it answers with HTTP {response.status}")
        if any(
            coding.lower() not in (b"", b"identity") for coding in header_values(response.headers, b"content-encoding")
        ):
            return Problem("bad_http", "its answer is compressed, unasked")
        async for piece in response.body:
            body += piece
            if len(body) > MAX_BYTES:
                return Problem("too_large", f"its answer is longer than {MAX_BYTES} bytes")
    finally:
        if not response.body.ended:
            await response.body.aclose()
    return bytes(body)
