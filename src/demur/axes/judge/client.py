"""How is a judge asked? One POST a question, to any endpoint that speaks as OpenAI or as Anthropic does.

Laws: what cannot be had (nobody there, an error, a page of HTML, endless bytes, a reply that nobody can read) is a reply without text and
with its reason, never a guess and never an exception; a question is tried a bounded number of times, with waits that double up to a
bound, and again only where that may help; a refused key, an unknown address, or several questions in a row that nobody answered stop
all further calls, so that a judge that is gone costs seconds, not hours; redirects are not followed, since the texts were meant for
this address; only replies that were accepted are kept in the cache.
"""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from demur.axes.judge.cache import CachedReply, JudgeCache, open_judge_cache
from demur.errors import UsageError
from demur.model.axes import JudgeReply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from demur.model.axes import JudgeAsk

__all__ = ["JudgeClient", "JudgeEndpoint", "JudgeKind", "judge_from_environment"]

_MOST_BYTES = 1024 * 1024
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HOPELESS = frozenset({401, 403, 404})
_MILLION = 1_000_000
_MOST_TOKENS = 1_000_000_000
_TIMED_OUT_CALLS = 2
"""Who twice let the time run out will do so again."""


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
    """Questions in a row that were lost for want of an answer, after which nothing more is asked."""
    most_tokens: int = 300
    price_input: float | None = None
    price_output: float | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message


class _Tokens(msgspec.Struct, frozen=True):
    # Whatever stands there costs no verdict: what is no count is counted as none.
    prompt_tokens: Any = 0
    completion_tokens: Any = 0
    input_tokens: Any = 0
    output_tokens: Any = 0


class _OpenAiAnswer(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...]
    usage: _Tokens | None = None


class _AnthropicBlock(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class _AnthropicAnswer(msgspec.Struct, frozen=True):
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


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class JudgeClient:
    """The client of one judge. `sleep` waits between attempts, `clock` tells how many seconds an answer has taken so far."""

    def __init__(
        self,
        endpoint: JudgeEndpoint,
        cache: JudgeCache | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
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
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._hopeless = ""
        self._lost_in_a_row = 0
        self._lock = threading.Lock()

    def ask_all(self, asks: Sequence[JudgeAsk], *, accepts: Callable[[JudgeAsk, str], bool]) -> list[JudgeReply]:
        """Return a reply for each question, in their order, several asked at once."""
        with ThreadPoolExecutor(self._endpoint.at_once) as workers:
            return list(workers.map(lambda ask: self._reply(ask, accepts), asks))

    def cost_of(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what tokens cost, None where a price is not set."""
        before, after = self._endpoint.price_input, self._endpoint.price_output
        if before is None or after is None:
            return None
        return (input_tokens * before + output_tokens * after) / _MILLION

    def _reply(self, ask: JudgeAsk, accepts: Callable[[JudgeAsk, str], bool]) -> JudgeReply:
        key = self._key(ask)
        kept = self._cache.get(key) if self._cache else None
        if kept is not None and accepts(ask, kept.text):
            return JudgeReply(kept.text, cached=True)
        got, calls, slow, spent = _Got(why=self._hopeless), 0, 0, (0, 0)
        while calls < self._endpoint.attempts and slow < _TIMED_OUT_CALLS and not self._hopeless:
            # Who answered, if not with a verdict, need not be waited for.
            if calls and got.text is None:
                self._sleep(self._wait(calls, got.wait_s))
            got, calls = self._call(ask), calls + 1
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
        self._note_loss(why, unanswered=got.again and calls > 0)
        return JudgeReply(None, why, False, calls, *spent)  # noqa: FBT003 - `cached`, by its place

    def _note_loss(self, why: str, *, unanswered: bool) -> None:
        """Count a question that was lost for want of an answer, and stop where too many were, one after the other."""
        with self._lock:
            self._lost_in_a_row = self._lost_in_a_row + 1 if unanswered else 0
            if self._lost_in_a_row >= self._endpoint.give_up_after and not self._hopeless:
                self._hopeless = f"{why}, {self._lost_in_a_row} questions in a row"

    def _key(self, ask: JudgeAsk) -> str:
        named = [self._endpoint.kind, self._endpoint.url, self._endpoint.model, ask.system, ask.user]
        return sha256(json.dumps(named).encode()).hexdigest()

    def _wait(self, calls: int, asked: float | None) -> float:
        doubled = self._endpoint.backoff_s * (1 << (calls - 1))
        return min(self._endpoint.longest_wait_s, max(doubled, asked or 0.0))

    def _call(self, ask: JudgeAsk) -> _Got:
        request = _judge_request(self._endpoint, ask)
        try:
            with self._opener.open(request, timeout=self._endpoint.timeout_s) as answer:
                body = self._body(answer)
                # A bounded read does not say that the connection ended early; what is left of the length does.
                left = answer.length
        except urllib.error.HTTPError as exc:
            with exc:
                return self._refused(exc)
        except (OSError, http.client.HTTPException) as exc:
            why, timed_out = _no_answer(exc)
            return _Got(why=f"no answer ({why})", again=True, timed_out=timed_out)
        if len(body) > _MOST_BYTES:
            return _Got(why=f"its answer is longer than {_MOST_BYTES} bytes")
        if left:
            return _Got(why="no answer (cut off)", again=True)
        return _read_answer(self._endpoint.kind, body)

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        """Return what comes until the answer ends; bytes that trickle in for longer than a call may take are no answer."""
        body, latest = bytearray(), self._clock() + self._endpoint.timeout_s
        while len(body) <= _MOST_BYTES and (more := answer.read1(_MOST_BYTES + 1 - len(body))):
            body += more
            if self._clock() > latest:
                raise TimeoutError
        return bytes(body)

    def _refused(self, exc: urllib.error.HTTPError) -> _Got:
        why = f"it answers with HTTP {exc.code}"
        if exc.code in _HOPELESS:
            with self._lock:
                self._hopeless = why
        after = exc.headers.get("Retry-After", "")
        wait = float(after) if after.isascii() and after.isdigit() else None
        return _Got(why=why, wait_s=wait, again=exc.code in _AGAIN)


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
    said = environ.get("DEMUR_JUDGE_KIND", JudgeKind.OPENAI)
    if said not in set(JudgeKind):
        raise UsageError(f"`{said}` is no kind of judge", hint="set DEMUR_JUDGE_KIND to openai or anthropic")
    folder = environ.get("DEMUR_JUDGE_CACHE", "")
    endpoint = JudgeEndpoint(
        url.rstrip("/"),
        model,
        JudgeKind(said),
        _key_named(environ),
        price_input=_price(environ, "DEMUR_JUDGE_PRICE_INPUT"),
        price_output=_price(environ, "DEMUR_JUDGE_PRICE_OUTPUT"),
    )
    return JudgeClient(endpoint, open_judge_cache(folder) if folder else None)


def _no_answer(exc: OSError | http.client.HTTPException) -> tuple[str, bool]:
    """Return why nothing came back, in plain words, and whether that is because the time ran out."""
    cause = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    if isinstance(cause, TimeoutError):
        return "timed out", True
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower(), False
    return "cut off" if isinstance(cause, http.client.HTTPException) else str(cause).lower()[:80], False


def _key_named(environ: Mapping[str, str]) -> str:
    name = environ.get("DEMUR_JUDGE_KEY_ENV", "").strip()
    if name and not environ.get(name):
        raise UsageError(f"`{name}` holds no key", hint="set it, or unset DEMUR_JUDGE_KEY_ENV")
    return environ[name] if name else ""


def _price(environ: Mapping[str, str], name: str) -> float | None:
    said = environ.get(name)
    if said is None:
        return None
    try:
        price = float(said)
    except ValueError:
        price = -1.0
    if not 0 <= price < math.inf:
        raise UsageError(f"`{said}` is no price", hint=f"set {name} to a number, for a million tokens")
    return price


def _judge_request(endpoint: JudgeEndpoint, ask: JudgeAsk) -> urllib.request.Request:
    shown: list[dict[str, str]] = [{"role": "user", "content": ask.user}]
    body: dict[str, Any] = {"model": endpoint.model, "max_tokens": endpoint.most_tokens, "temperature": 0}
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if endpoint.kind is JudgeKind.ANTHROPIC:
        body |= {"system": ask.system, "messages": shown}
        headers |= {"anthropic-version": "2023-06-01", **({"x-api-key": endpoint.key} if endpoint.key else {})}
        path = "/messages"
    else:
        body |= {"messages": [{"role": "system", "content": ask.system}, *shown]}
        headers |= {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        path = "/chat/completions"
    # Escaped by `json`: half a surrogate pair in an answer must not keep it from being judged.
    data = json.dumps(body).encode()
    return urllib.request.Request(f"{endpoint.url}{path}", data=data, headers=headers)  # noqa: S310 - http(s), checked


def _token_counts(*said: object) -> tuple[int, int]:
    before, after = (int(one) if isinstance(one, int | float) and 0 <= one < _MOST_TOKENS else 0 for one in said)
    return before, after


def _read_answer(kind: JudgeKind, body: bytes) -> _Got:
    try:
        if kind is JudgeKind.ANTHROPIC:
            told = msgspec.json.decode(body, type=_AnthropicAnswer)
            text: str | None = "".join(block.text for block in told.content if block.type == "text")
            tokens = told.usage or _Tokens()
            return _Got(text, tokens=_token_counts(tokens.input_tokens, tokens.output_tokens))
        answer = msgspec.json.decode(body, type=_OpenAiAnswer)
        text = answer.choices[0].message.content if answer.choices else None
        tokens = answer.usage or _Tokens()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _Got(why="its answer is not of the protocol it is said to speak")
    return _Got(
        text,
        why="" if text else "its answer is empty",
        tokens=_token_counts(tokens.prompt_tokens, tokens.completion_tokens),
    )
