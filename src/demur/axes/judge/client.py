"""The client of a judge: one POST per question, to any endpoint that speaks OpenAI's or Anthropic's protocol.

Whatever goes wrong (nobody there, an error, a page of HTML, endless bytes, an unreadable reply) is a reply without text and with
its reason, never a guess and never an exception. A question is tried a bounded number of times, and only replies that were
accepted are cached, under the hash of the question: a file holds the reply and its tokens, never the question.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import TYPE_CHECKING, Any

import msgspec

from demur.errors import UpstreamCutError, UpstreamError, UpstreamTimeoutError, UsageError
from demur.http.upstream import UpstreamRequest, UpstreamTimeouts, header_values
from demur.model.axes import JudgeReply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from demur.http.pool import HttpPool
    from demur.model.axes import JudgeAsk

__all__ = [
    "CachedReply",
    "JudgeCache",
    "JudgeClient",
    "JudgeEndpoint",
    "JudgeKind",
    "judge_from_environment",
    "open_judge_cache",
]


class CachedReply(msgspec.Struct, frozen=True):
    """A judge's reply and the tokens that it took when it was asked."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class JudgeCache:
    """A folder of replies, two levels deep."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def get(self, key: str) -> CachedReply | None:
        """Return the reply under a key, None where there is none that can be read."""
        try:
            return msgspec.json.decode(self._path(key).read_bytes(), type=CachedReply)
        # A broken file is no reply: the judge is asked again, and the file written anew.
        except (OSError, msgspec.DecodeError, UnicodeError):
            return None

    def put(self, key: str, reply: CachedReply) -> None:
        """Keep a reply."""
        path = self._path(key)
        # A reply that cannot be kept, as on a full disk, is still a reply.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=path.parent, delete=False) as half:
                half.write(msgspec.json.encode(reply))
            # Renamed when complete, so that a half-written file never replaces a whole one.
            Path(half.name).replace(path)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def open_judge_cache(folder: str | Path) -> JudgeCache:
    """Return the cache in a folder, created if needed; raise if nothing can be written to it."""
    # Tried before anything is asked: hours of replies that were paid for should not be lost at the end.
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{folder}` cannot hold replies: {what}", hint="set DEMUR_JUDGE_CACHE to a folder") from exc
    return JudgeCache(folder)


_MAX_BYTES = 1024 * 1024
_HTTP_OK, _HTTP_REDIRECT = 200, 300
# Trying again may help with these; 529 is Anthropic's "overloaded".
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HOPELESS = frozenset({401, 403, 404})
_MILLION = 1_000_000
_MAX_TOKENS = 1_000_000_000
_TIMED_OUT_CALLS = 2  # a judge that timed out twice will do so again


class JudgeKind(StrEnum):
    """Whose protocol the endpoint speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True)
class JudgeEndpoint:
    """Where and how to ask. `url` is the base of the API, as `http://127.0.0.1:8000/v1`; prices are for a million tokens."""

    url: str
    model: str
    kind: JudgeKind = JudgeKind.OPENAI
    key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    attempts: int = 4
    backoff_s: float = 0.5
    longest_wait_s: float = 8.0
    at_once: int = 4
    give_up_after: int = 5
    """Questions in a row without a reply, after which nothing more is asked."""
    most_tokens: int = 300
    price_input: float | None = None
    price_output: float | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message


class _Tokens(msgspec.Struct, frozen=True):
    # A malformed count must not cost a verdict: it counts as 0.
    prompt_tokens: Any = 0
    completion_tokens: Any = 0
    input_tokens: Any = 0
    output_tokens: Any = 0


class _OpenAiResponse(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...]
    usage: _Tokens | None = None


class _AnthropicBlock(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class _AnthropicResponse(msgspec.Struct, frozen=True):
    content: tuple[_AnthropicBlock, ...]
    usage: _Tokens | None = None


@dataclass(frozen=True, slots=True)
class _Got:
    """What one call brought: a text with its tokens, or why none; how long the server asks to wait; whether to try again."""

    text: str | None = None
    why: str = ""
    tokens: tuple[int, int] = (0, 0)
    wait_s: float | None = None
    again: bool = False
    timed_out: bool = False


class JudgeClient:
    """The client of one judge. `sleep` waits between attempts, `clock` tells how many seconds a response has taken so far."""

    def __init__(
        self,
        endpoint: JudgeEndpoint,
        cache: JudgeCache | None = None,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not endpoint.url.startswith(("http://", "https://")):
            raise UsageError(f"`{endpoint.url}` is no address of a judge", hint="expected http:// or https://")
        if endpoint.attempts < 1 or endpoint.at_once < 1:
            raise UsageError("a judge is asked at least once, by at least one worker")
        self._endpoint = endpoint
        self._cache = cache
        self._sleep = sleep
        self._clock = clock
        self._hopeless = ""
        self._lost_in_a_row = 0

    def ask_all(self, asks: Sequence[JudgeAsk], *, accepts: Callable[[JudgeAsk, str], bool]) -> list[JudgeReply]:
        """Return a reply for each question, in their order, several asked at once."""
        try:
            from demur.http.pool import HttpPool, environment_proxy
        except ModuleNotFoundError as exc:
            raise UsageError("a judge needs `httptools`", hint="pip install 'demur[gateway]'") from exc
        limit_s = self._endpoint.timeout_s
        # The body has a clock of its own, see `_call`: headers may take as long again.
        timeouts = UpstreamTimeouts(connect_s=limit_s, read_s=limit_s, total_s=3 * limit_s)
        pool = HttpPool(self._endpoint.url, timeouts=timeouts, proxy=environment_proxy(self._endpoint.url))
        turns = asyncio.Semaphore(self._endpoint.at_once)

        async def ask_one(ask: JudgeAsk) -> JudgeReply:
            async with turns:
                return await self._reply(pool, ask, accepts)

        async def ask_every() -> list[JudgeReply]:
            try:
                return await asyncio.gather(*map(ask_one, asks))
            finally:
                await pool.close()

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(ask_every())
        # The caller is inside an event loop, as in a notebook, and a thread can run only one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(ask_every())).result()

    def cost_of(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what tokens cost, None where a price is not set."""
        before, after = self._endpoint.price_input, self._endpoint.price_output
        if before is None or after is None:
            return None
        return (input_tokens * before + output_tokens * after) / _MILLION

    async def _reply(self, pool: HttpPool, ask: JudgeAsk, accepts: Callable[[JudgeAsk, str], bool]) -> JudgeReply:
        named = [self._endpoint.kind, self._endpoint.url, self._endpoint.model, ask.system, ask.user]
        key = sha256(json.dumps(named).encode()).hexdigest()
        kept = self._cache.get(key) if self._cache else None
        if kept is not None and accepts(ask, kept.text):
            return JudgeReply(kept.text, cached=True)
        got, calls, slow, spent = _Got(why=self._hopeless), 0, 0, (0, 0)
        while calls < self._endpoint.attempts and slow < _TIMED_OUT_CALLS and not self._hopeless:
            # No need to wait after a reply that was no verdict: the judge is up.
            if calls and got.text is None:
                doubled = self._endpoint.backoff_s * (1 << (calls - 1))
                await self._sleep(min(self._endpoint.longest_wait_s, max(doubled, got.wait_s or 0.0)))
            got, calls = await self._call(pool, ask), calls + 1
            slow += got.timed_out
            spent = spent[0] + got.tokens[0], spent[1] + got.tokens[1]
            if got.text is not None and accepts(ask, got.text):
                self._lost_in_a_row = 0
                if self._cache:
                    self._cache.put(key, CachedReply(got.text, *got.tokens))
                return JudgeReply(got.text, "", False, calls, *spent)  # noqa: FBT003 - `cached`, by its place
            if got.text is None and not got.again:
                break
        why = got.why or self._hopeless or "its reply is not a verdict of the rubric"
        # Several questions in a row without an answer stop all further calls: a judge that is gone costs seconds, not hours.
        self._lost_in_a_row = self._lost_in_a_row + 1 if got.again and calls > 0 else 0
        if self._lost_in_a_row >= self._endpoint.give_up_after and not self._hopeless:
            self._hopeless = f"{why}, {self._lost_in_a_row} questions in a row"
        return JudgeReply(None, why, False, calls, *spent)  # noqa: FBT003 - `cached`, by its place

    async def _call(self, pool: HttpPool, ask: JudgeAsk) -> _Got:
        body, latest = bytearray(), 0.0
        try:
            response = await pool.send(_judge_request(self._endpoint, ask))
            try:
                if not _HTTP_OK <= response.status < _HTTP_REDIRECT:
                    # Redirects are not followed: the texts were meant for this address.
                    why = f"it answers with HTTP {response.status}"
                    self._hopeless = why if response.status in _HOPELESS else self._hopeless
                    after = b"".join(header_values(response.headers, b"retry-after")[:1])
                    wait_s = float(after) if after.isdigit() else None
                    return _Got(why=why, wait_s=wait_s, again=response.status in _AGAIN)
                latest = self._clock() + self._endpoint.timeout_s
                async for piece in response.body:
                    body += piece
                    if len(body) > _MAX_BYTES:
                        return _Got(why=f"its answer is longer than {_MAX_BYTES} bytes")
                    # The read timeout starts anew with every piece: bytes that trickle in would never reach it.
                    if self._clock() > latest:
                        return _Got(why="no answer (timed out)", again=True, timed_out=True)
            finally:
                if not response.body.ended:
                    await response.body.aclose()
        except UpstreamError as exc:
            timed_out = isinstance(exc, UpstreamTimeoutError)
            # Without the address, which the settings name, so that equal failures read alike.
            other = "cut off" if isinstance(exc, UpstreamCutError) else exc.what.rpartition(": ")[2][:80]
            return _Got(why=f"no answer ({'timed out' if timed_out else other})", again=True, timed_out=timed_out)
        return _read_response(self._endpoint.kind, bytes(body))


def judge_from_environment(environ: Mapping[str, str]) -> JudgeClient | None:
    """Return the judge that the settings `DEMUR_JUDGE_…` name, None where they name none.

    The key itself is no setting: `DEMUR_JUDGE_KEY_ENV` names the variable that holds it.
    """
    url = environ.get("DEMUR_JUDGE_URL", "").strip()
    if not url:
        return None
    model = environ.get("DEMUR_JUDGE_MODEL", "").strip()
    if not model:
        raise UsageError("a judge needs a model", hint="set DEMUR_JUDGE_MODEL")
    kind = environ.get("DEMUR_JUDGE_KIND", JudgeKind.OPENAI)
    if kind not in set(JudgeKind):
        raise UsageError(f"`{kind}` is no kind of judge", hint="set DEMUR_JUDGE_KIND to openai or anthropic")
    folder = environ.get("DEMUR_JUDGE_CACHE", "")
    name = environ.get("DEMUR_JUDGE_KEY_ENV", "").strip()
    if name and not environ.get(name):
        raise UsageError(f"`{name}` holds no key", hint="set it, or unset DEMUR_JUDGE_KEY_ENV")
    endpoint = JudgeEndpoint(
        url.rstrip("/"),
        model,
        JudgeKind(kind),
        environ[name] if name else "",
        price_input=_price(environ, "DEMUR_JUDGE_PRICE_INPUT"),
        price_output=_price(environ, "DEMUR_JUDGE_PRICE_OUTPUT"),
    )
    return JudgeClient(endpoint, open_judge_cache(folder) if folder else None)


def _price(environ: Mapping[str, str], name: str) -> float | None:
    text = environ.get(name)
    if text is None:
        return None
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < math.inf:
        raise UsageError(f"`{text}` is no price", hint=f"set {name} to a number, for a million tokens")
    return price


def _judge_request(endpoint: JudgeEndpoint, ask: JudgeAsk) -> UpstreamRequest:
    messages: list[dict[str, str]] = [{"role": "user", "content": ask.user}]
    body: dict[str, Any] = {"model": endpoint.model, "max_tokens": endpoint.most_tokens, "temperature": 0}
    headers = [
        (b"content-type", b"application/json"),
        (b"accept", b"application/json"),
        (b"accept-encoding", b"identity"),
        (b"user-agent", b"demur"),
    ]
    key = endpoint.key.encode("latin-1", "replace")
    if endpoint.kind is JudgeKind.ANTHROPIC:
        body |= {"system": ask.system, "messages": messages}
        headers += [(b"anthropic-version", b"2023-06-01"), *([(b"x-api-key", key)] if key else [])]
        path = "/messages"
    else:
        body |= {"messages": [{"role": "system", "content": ask.system}, *messages]}
        headers += [(b"authorization", b"Bearer " + key)] if key else []
        path = "/chat/completions"
    # Escaped by `json`: half a surrogate pair in a response must not keep it from being judged.
    return UpstreamRequest("POST", path, tuple(headers), json.dumps(body).encode())


def _token_counts(*reported: object) -> tuple[int, int]:
    before, after = (int(one) if isinstance(one, int | float) and 0 <= one < _MAX_TOKENS else 0 for one in reported)
    return before, after


def _read_response(kind: JudgeKind, body: bytes) -> _Got:
    try:
        if kind is JudgeKind.ANTHROPIC:
            sent = msgspec.json.decode(body, type=_AnthropicResponse)
            text: str | None = "".join(block.text for block in sent.content if block.type == "text")
            tokens = sent.usage or _Tokens()
            return _Got(text, tokens=_token_counts(tokens.input_tokens, tokens.output_tokens))
        response = msgspec.json.decode(body, type=_OpenAiResponse)
        text = response.choices[0].message.content if response.choices else None
        tokens = response.usage or _Tokens()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _Got(why="its answer is not of the protocol it is said to speak")
    return _Got(
        text,
        why="" if text else "its answer is empty",
        tokens=_token_counts(tokens.prompt_tokens, tokens.completion_tokens),
    )
