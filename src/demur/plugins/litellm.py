"""A callback for LiteLLM's proxy: it judges every response, records each exchange, and gives lost refusals back.

LiteLLM takes `refusal` out of a message, drops it from streams, calls Anthropic's refusal a content filter and takes the code off a
filter's error. Name the callback in the proxy's config: `callbacks: demur.plugins.litellm.handler`. Auditors, policies, log and what
a failure does are the gateway's, with the gateway's settings (`[gateway]`, DEMUR_GATEWAY_*); only the forwarding is LiteLLM's.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import tempfile
from collections import OrderedDict
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import msgspec

from demur.audit.builtin import response_verdict
from demur.audit.inputs import request_input, response_input
from demur.detect.check import as_exchange, classify
from demur.errors import DemurError, InputError, RejectedError, ShapeError, StoreError
from demur.gateway.opening import open_worker
from demur.gateway.request import AuditedRoute
from demur.gateway.settings import GATEWAY_SETTINGS, OnFailure
from demur.gateway.state import ENFORCED, ExchangeState, Principal, TextSeal, enforces_on, plain_name, unasked
from demur.io.log import LogEvent, SafeFormatter, log_event
from demur.model.claim import Phase
from demur.model.exchange import Choice, OpaquePart, Response, Shape
from demur.model.passport import Coverage, StreamMode
from demur.model.verdict import Cause, Outcome
from demur.wire.fields import ServerEvent, plain
from demur.wire.shapes import CODECS
from demur.wire.sse import Decoder, encode

try:
    from litellm.integrations.custom_logger import CustomLogger
except ModuleNotFoundError:
    # The callback can be tried without LiteLLM: it is only ever handed LiteLLM's values.
    CustomLogger = object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from demur.gateway.settings import GatewaySettings
    from demur.gateway.worker import Worker
    from demur.model.claim import Audit, Decision
    from demur.model.passport import PhaseRecord
    from demur.wire.fields import JsonObject

__all__ = ["DemurCallback", "keep_streamed_refusals", "restore_refusals"]

_SHAPES = {
    "acompletion": Shape.OPENAI_CHAT,
    "completion": Shape.OPENAI_CHAT,
    "aresponses": Shape.OPENAI_RESPONSES,
    "responses": Shape.OPENAI_RESPONSES,
    "anthropic_messages": Shape.ANTHROPIC,
}
"""LiteLLM's calls that ask a model for a text, and the format that their client speaks."""
_MAX_OPEN = 10_000
_ID = "litellm_call_id"
_READ = ("model", "messages", "input", "instructions", "system", "stream")
_OK, _FAILED, _DENIED, _NO_RECORD = 200, 500, 403, 503


class DemurCallback(CustomLogger):  # type: ignore[misc]  # Any where LiteLLM is not installed
    """Judges, decides and records what passes through a LiteLLM proxy."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Take the settings; nothing is opened before the first request."""
        super().__init__()
        self._settings = settings
        self._worker: Worker | None = None
        self._opening = asyncio.Lock()
        # By LiteLLM's id of the call: what LiteLLM hands from hook to hook is also what its loggers write.
        self._open: OrderedDict[str, ExchangeState] = OrderedDict()
        keep_streamed_refusals()

    async def async_pre_call_hook(
        self, user_api_key_dict: object, cache: object, data: dict[str, Any], call_type: str
    ) -> None:
        """Open the exchange and decide the request; raise where a policy denies it."""
        del cache
        shape = _SHAPES.get(str(getattr(call_type, "value", call_type)))
        worker = await self._opened() if shape is not None else None
        if shape is None or worker is None:
            return
        asked, headers = _request_in(data)
        state = worker.open_exchange(AuditedRoute(shape), msgspec.json.encode(asked), client=None)
        try:
            state.request = CODECS[shape].read_request(asked)
        except ShapeError:
            # What no auditor could read is denied where a rule might have denied it, and a gap where none could.
            holds = state.holds or enforces_on(state.gate, Phase.REQUEST, worker.chain.vocabulary)
            audit = unasked(Phase.REQUEST, closed=holds)
        else:
            owner = str(getattr(user_api_key_dict, "api_key", "") or "").encode()
            session = worker.sessions.name(state.request, asked, headers=headers, owner=owner)
            state.principal = Principal(session, plain_name(str(asked.get("model", ""))))
            audit = await worker.audit(request_input(state.request, metadata=_metadata(state), trace=state.id))
        record = state.decide(audit)
        if state.add_phase(audit, record):
            await self._deny(worker, state, record.decision)
        self._open[str(data.get(_ID))] = state
        while len(self._open) > _MAX_OPEN:
            # Its end was never reported: it goes on record as it is rather than being forgotten.
            _, forgotten = self._open.popitem(last=False)
            forgotten.add_gap(Phase.RESPONSE, "unscanned")
            await self._record(worker, forgotten)

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: object, response: object
    ) -> object:
        """Return a whole response with its refusal back in place, once it was decided and recorded."""
        del user_api_key_dict
        state, worker = self._ended(data), self._worker
        if state is None or worker is None:
            return response
        refused = _refusal_behind(response, data)
        restore_refusals(response, refused)
        shape = state.route.shape
        try:
            body = plain(response)
            read = refused or CODECS[shape].read_response(body, status=_OK)
        except InputError:
            body, read = {}, _unreadable()
        raw = msgspec.json.encode(body)
        state.upstream_status = state.status = _OK
        seal = TextSeal(next(worker.salts), keep=worker.disclosures is not None)
        seal.add(raw)
        state.seal_response(seal)
        decision = await self._decide(worker, state, read, Coverage(StreamMode.WHOLE, len(raw), len(raw)))
        if decision is not None:
            await self._deny(worker, state, decision)
        await self._record(worker, state)
        return response

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: object, response: AsyncIterator[object], request_data: dict[str, Any]
    ) -> AsyncIterator[object]:
        """Yield a stream's pieces; all of them only after the last one where a rule could withhold the response."""
        del user_api_key_dict
        state, worker = self._ended(request_data), self._worker
        if state is None or worker is None:
            async for piece in response:
                yield piece
            return
        reading = _StreamReading(state.route.shape)
        seal = TextSeal(next(worker.salts), keep=worker.disclosures is not None)
        held: list[object] = []
        cut = "upstream_cut"
        try:
            async for piece in response:
                seal.add(reading.add(piece))
                if state.holds:
                    held.append(piece)
                else:
                    yield piece
            cut = ""
        except (GeneratorExit, asyncio.CancelledError):
            cut = "client_gone"
            raise
        finally:
            # Also what was cut off is on record, as far as it had come.
            decision = await self._end_stream(worker, state, reading, seal=seal, cut=cut)
        if decision is not None and state.holds:
            await self._deny(worker, state, decision)
        await self._record(worker, state)
        for piece in held:
            yield piece

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: object,
        traceback_str: str | None = None,
    ) -> None:
        """Record an exchange that failed, and give a filter's error its code back."""
        del user_api_key_dict, traceback_str
        state, worker = self._ended(request_data), self._worker
        if state is None or worker is None:
            return
        given = getattr(original_exception, "status_code", None)
        status = given if isinstance(given, int) else _FAILED
        body = getattr(original_exception, "body", None)
        error: JsonObject = body if isinstance(body, dict) else {"message": str(original_exception)}
        error = error["error"] if isinstance(error.get("error"), dict) else error
        try:
            state.response = CODECS[Shape.OPENAI_CHAT].read_response({"error": error}, status=status)
        except InputError:
            state.response = None
        state.verdict = classify(state.response)
        state.upstream_status = state.status = status
        if state.verdict.outcome is Outcome.FILTERED:
            # LiteLLM writes the status in place of the code; beside it, it writes what a provider said specifically.
            fields = getattr(original_exception, "provider_specific_fields", None) or {}
            code = error.get("code") or "content_filter"
            original_exception.provider_specific_fields = {**fields, "code": code}  # type: ignore[attr-defined]
        await self._record(worker, state)

    async def _opened(self) -> Worker | None:
        """Return the worker; None where its log cannot be opened and the settings say to go on without."""
        async with self._opening:
            if self._worker is None:
                try:
                    worker = await open_worker(
                        self._settings, metrics_folder=tempfile.mkdtemp(prefix="demur-"), forwards=False
                    )
                    await worker.start()
                except StoreError as exc:
                    closed = self._settings.failure.store is OnFailure.CLOSED
                    log_event(LogEvent.FAILED_CLOSED if closed else LogEvent.FAILED_OPEN, part="store", error=exc)
                    if closed:
                        raise _no_record() from exc
                    return None
                self._worker = worker
                # LiteLLM tells no callback that it ends.
                atexit.register(self.close)
        return self._worker

    def _ended(self, data: Mapping[str, Any]) -> ExchangeState | None:
        """Return the exchange that LiteLLM speaks of, once: whoever ends it records it."""
        return self._open.pop(str(data.get(_ID)), None)

    async def _decide(
        self, worker: Worker, state: ExchangeState, response: Response, coverage: Coverage
    ) -> Decision | None:
        """Judge a response and decide it; return the decision where it may not be passed on."""
        state.response = response
        given = response_input(response, state.request, metadata=_metadata(state), trace=state.id)
        state.verdict = response_verdict(given)
        audit: Audit = await worker.audit(given)
        record: PhaseRecord = state.decide(audit)
        return record.decision if state.add_phase(audit, record, coverage) else None

    async def _end_stream(
        self, worker: Worker, state: ExchangeState, reading: _StreamReading, *, seal: TextSeal, cut: str
    ) -> Decision | None:
        """Decide a stream that has ended; one that was cut off is recorded here, for nothing follows it."""
        state.streamed, state.upstream_status, state.status = True, _OK, _OK
        state.seal_response(seal)
        size, mode = seal.size_bytes, StreamMode.HELD if state.holds else StreamMode.PASSED
        decision = await self._decide(worker, state, reading.close(whole=not cut), Coverage(mode, size, size))
        if decision is not None and not state.holds:
            state.add_gap(Phase.RESPONSE, "unenforced")
        if cut:
            state.add_gap(Phase.RESPONSE, cut)
            await worker.record(state, durable=False)
            worker.publish(state)
        return decision

    async def _deny(self, worker: Worker, state: ExchangeState, decision: Decision) -> None:
        """Put a denial on record, then raise it."""
        state.blocked, state.status = True, _DENIED
        await self._record(worker, state, durable=True)
        rules = ", ".join(rule.id for rule in decision.rules) if decision.effect in ENFORCED else ""
        raise RejectedError(f"denied by policy {rules}".rstrip(), status_code=_DENIED, kind="policy_denied")

    async def _record(self, worker: Worker, state: ExchangeState, *, durable: bool = False) -> None:
        """Put an exchange on record; raise where it is not, and the settings let nothing pass without."""
        kept = await worker.record(state, durable=durable)
        worker.publish(state)
        if not kept:
            closed = self._settings.failure.store is OnFailure.CLOSED
            worker.metrics.count_failure("store", opened=not closed)
            log_event(LogEvent.FAILED_CLOSED if closed else LogEvent.FAILED_OPEN, part="store")
            if closed and not state.blocked:
                raise _no_record()

    def close(self) -> None:
        """Write what is left and sign the log; a process that ends does so by itself."""
        atexit.unregister(self.close)
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                worker.writer.close()
                worker.store.close()
            except DemurError as exc:
                log_event(LogEvent.RECORD_FAILED, part="store", error=exc)


def restore_refusals(response: object, refused: Response | None = None) -> None:
    """Put refusals back where OpenAI has them: out of LiteLLM's extra fields, or out of another provider's response."""
    for choice in _get(response, "choices") or ():
        message = _get(choice, "message")
        said = _get(_get(message, "provider_specific_fields"), "refusal")
        if not said and refused is not None:
            said = next((s.detail for s in refused.signals if s.detail), None)
        if isinstance(said, str) and said and not _get(message, "refusal"):
            if isinstance(message, dict):
                message["refusal"] = said
            else:
                message.refusal = said


def keep_streamed_refusals() -> None:
    """Let LiteLLM pass pieces of a refusal on: it drops pieces without text, tool calls or a role, and these are such."""
    try:
        from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
    except ModuleNotFoundError:
        return
    says_more = CustomStreamWrapper.is_chunk_non_empty
    if hasattr(says_more, "__wrapped__"):
        return

    @wraps(says_more)
    def is_chunk_non_empty(self: object, completion_obj: object, model_response: object, response_obj: object) -> bool:
        refusals = (_get(_get(choice, "delta"), "refusal") for choice in _get(model_response, "choices") or ())
        return bool(says_more(self, completion_obj, model_response, response_obj)) or any(refusals)

    CustomStreamWrapper.is_chunk_non_empty = is_chunk_non_empty


def __getattr__(name: str) -> DemurCallback:
    """Return `handler`, made when LiteLLM asks for it, so that importing this module reads no settings."""
    if name != "handler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    settings = GATEWAY_SETTINGS.load().settings
    _keep_log_apart(settings)
    globals()["handler"] = made = DemurCallback(settings)
    return made


class _StreamReading:
    """What the pieces of a stream say together: LiteLLM's objects for chat and responses, bytes for messages."""

    def __init__(self, shape: Shape) -> None:
        self._reader = CODECS[shape].open_stream()
        self._decoder = Decoder()
        self._read = True

    def add(self, piece: object) -> bytes:
        """Take the next piece; return it as it stands on the wire."""
        try:
            if isinstance(piece, str | bytes):
                raw = piece.encode() if isinstance(piece, str) else piece
                events = self._decoder.feed(raw)
            else:
                body = plain(piece)
                event = ServerEvent(msgspec.json.encode(body).decode(), body.get("type"))
                raw, events = encode(event), (event,)
            for each in events:
                self._reader.feed(each)
        except InputError:
            self._read = False
            raw = str(piece).encode()
        return raw

    def close(self, *, whole: bool) -> Response:
        """Return the response; one of which a piece could not be read is unread where it says nothing else."""
        if whole:
            with suppress(InputError):
                # LiteLLM's proxy writes the mark of the end after the last piece that a callback sees.
                self._reader.feed(ServerEvent("[DONE]"))
        response = self._reader.close()
        return response if self._read or response.choices else _unreadable()


def _request_in(data: Mapping[str, Any]) -> tuple[JsonObject, tuple[tuple[bytes, bytes], ...]]:
    """Return what the client sent to the proxy, and its headers."""
    came = data.get("proxy_server_request")
    came = came if isinstance(came, dict) else {}
    given = came.get("body")
    body = dict(given) if isinstance(given, dict) else {k: data[k] for k in _READ if k in data}
    # LiteLLM keeps notes of its own under this name, with the client's inside.
    notes = body.pop("metadata", None)
    own = notes.get("requester_metadata") if isinstance(notes, dict) else None
    if own:
        body["metadata"] = own
    headers = came.get("headers")
    pairs = headers.items() if isinstance(headers, dict) else ()
    return msgspec.json.decode(msgspec.json.encode(body, enc_hook=str)), tuple(
        (str(name).lower().encode("latin-1", "replace"), str(value).encode("latin-1", "replace"))
        for name, value in pairs
    )


def _refusal_behind(response: object, data: Mapping[str, Any]) -> Response | None:
    """Return the provider's own response where LiteLLM has made a filter's of a model's refusal."""
    if not any(_get(choice, "finish_reason") == "content_filter" for choice in _get(response, "choices") or ()):
        return None
    kept = _get(_get(data.get("litellm_logging_obj"), "model_call_details"), "original_response")
    try:
        original = as_exchange(kept.encode() if isinstance(kept, str) else kept).response
    except InputError:
        return None
    return original if original and classify(original).cause is Cause.PROVIDER_REFUSAL else None


def _get(value: Any, name: str) -> Any:  # noqa: ANN401 — LiteLLM's values have no one type
    """Return a field of LiteLLM's object or of a dict of the same form."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _metadata(state: ExchangeState) -> dict[str, str]:
    return {"model_id": state.principal.model, "session_id": state.principal.session}


def _unreadable() -> Response:
    return Response("", (Choice(0, (OpaquePart("unread.not_text", b"{}"),)),))


def _no_record() -> RejectedError:
    return RejectedError("the exchange could not be put on record", status_code=_NO_RECORD, kind="record_unavailable")


def _keep_log_apart(settings: GatewaySettings) -> None:
    """Write our events through our own filter: LiteLLM's formatters would write every field."""
    logger = logging.getLogger("demur")
    if not logger.handlers:
        out = logging.StreamHandler(sys.stderr)
        out.setFormatter(SafeFormatter(as_json=settings.log.format.value == "json"))
        logger.addHandler(out)
        logger.setLevel(settings.log.level.value.upper())
        logger.propagate = False
