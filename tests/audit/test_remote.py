"""Auditors over HTTP that keep to no protocol at all: each is a problem, none is an exception."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from demur.audit.config import Sent
from demur.audit.inputs import AuditorInput
from demur.audit.remote import MAX_BYTES, RemoteAnswer, RemoteAuditor
from demur.model.claim import Phase, Problem

ASKED = AuditorInput(
    Phase.REQUEST, metadata={"session_id": "s"}, trace="t", given_input={"prompt": "hello", "model": "m"}
)


@dataclass
class Recorder:
    """What a raw server was sent."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def raw_server(answer: bytes, *, endless: bool = False) -> AsyncIterator[Recorder]:
    """Yield a server that answers every request with these bytes, or with these over and over."""
    seen = Recorder()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *([0-9]+)", head.lower())
            seen.requests.append(head + await reader.readexactly(int(length[1]) if length else 0))
            writer.write(answer)
            await writer.drain()
            while endless:
                writer.write(b"x" * 65536)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()


def http(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


FINE = http(b'{"status": "success", "claims": []}')


@asynccontextmanager
async def remote_at(port: int, sent: Sent = Sent.MAPPING, *, who: str = "") -> AsyncIterator[RemoteAuditor]:
    remote = RemoteAuditor(f"http://{who}127.0.0.1:{port}", sent)
    try:
        yield remote
    finally:
        await remote.close()


async def asked(
    answer: bytes = FINE,
    given: AuditorInput = ASKED,
    *,
    endless: bool = False,
    sent: Sent = Sent.MAPPING,
    who: str = "",
) -> tuple[RemoteAnswer, Recorder]:
    """What comes of a question to a server that answers so, and what the server was sent."""
    async with raw_server(answer, endless=endless) as seen, remote_at(seen.port, sent, who=who) as remote:
        return await remote.ask(given), seen


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (http(b"<html><body>It works!</body></html>", headers="Content-Type: text/html\r\n"), "bad_answer"),
        (http(b"{"), "bad_answer"),
        (http(b""), "bad_answer"),
        (http(b"[1, 2]"), "bad_answer"),
        (http(b'{"claims": []}'), "bad_answer"),
        (http(b'{"status": "success", "claims": null}'), "bad_answer"),
        (http(b'{"status": "success", "claims": {"a": 1}}'), "bad_answer"),
        (http(b'{"status": "success", "claims": [{"value": 1}]}'), "bad_answer"),
        (http(b'{"status": "success", "claims": [{"name": "a", "value": NaN}]}'), "bad_answer"),
        (http(b"[" * 100_000), "bad_answer"),
        (http(b"\xff\xfe"), "bad_answer"),
        (http(b"{}", status="500 Internal Server Error"), "bad_http"),
        (http(b"{}", status="204 No Content"), "bad_http"),
        (http(b"", status="302 Found", headers="Location: http://127.0.0.1:1/claims\r\n"), "redirected"),
        (http(zlib.compress(b"x"), headers="Content-Encoding: deflate\r\n"), "bad_http"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "bad_http"),
        (b"", "bad_http"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "bad_http"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n", "bad_http"),
    ],
)
async def test_a_bad_answer_is_a_problem(answer: bytes, code: str) -> None:
    """Whatever comes back in place of an answer, a success without a list of claims too, is a problem, and counts as not reached."""
    got, _ = await asked(answer)
    assert [p.code for p in got.problems] == [code]
    assert not got.reached
    assert got.claims == ()


async def test_reading_is_bounded() -> None:
    """Of an answer without end, or of 200 megabytes, no more than the limit is read."""
    for head in (b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 209715200\r\n\r\n"):
        got, _ = await asked(head, endless=True)
        assert [p.what for p in got.problems] == [f"its answer is longer than {MAX_BYTES} bytes"]


async def test_nobody_there_is_a_problem() -> None:
    """A refused connection is a problem."""
    async with raw_server(b"") as seen:
        pass
    async with remote_at(seen.port) as remote:
        assert [p.code for p in (await remote.ask(ASKED)).problems] == ["unreachable"]


async def test_an_error_in_band_is_a_failure_that_was_reached() -> None:
    """`"status": "error"` with HTTP 200 is a failure; its message, which may quote, is not repeated."""
    body = b'{"status": "error", "error": {"code": "invalid_claim", "message": "secret"}, "claims": [{"name": "a"}]}'
    got, _ = await asked(http(body))
    assert [p.what for p in got.problems] == ["it answers with the error `invalid_claim`"]
    assert got.reached
    assert [c.name for c in got.claims] == ["a"]


async def test_what_is_sent_is_the_protocol() -> None:
    """The request has data, phase and context, under the path of the protocol; `send: text` sends the prompt itself."""
    inputs = {Sent.MAPPING: {"prompt": "hello", "model": "m"}, Sent.TEXT: "hello"}
    for sent, given in inputs.items():
        _, seen = await asked(sent=sent)
        head, _, body = seen.requests[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /claims HTTP/1.1\r\n")
        assert msgspec.json.decode(body) == {
            "data": {"input": given, "output": None, "metadata": {"session_id": "s"}},
            "phase": "request",
            "lucid_context": {"trace_id": "t", "claims": {}},
        }


async def test_credentials_in_the_address_are_sent_in_a_header() -> None:
    """A name and a password in the URL are basic authorisation, and no part of the target."""
    got, seen = await asked(who="me:p%40ss@")
    assert got.reached
    assert b"\r\nauthorization: Basic bWU6cEBzcw==\r\n" in seen.requests[0]


async def test_half_a_surrogate_pair_is_sent() -> None:
    """A text that has no UTF-8 does not escape the audit."""
    answer, seen = await asked(given=AuditorInput(Phase.REQUEST, given_input={"prompt": "\ud800"}))
    assert answer.problems == ()
    assert b"\\ud800" in seen.requests[0]


@pytest.mark.parametrize("answer", [http(b"<html>"), http(b"{}", status="404 Not Found"), http(b'{"claims": [1]}')])
async def test_a_vocabulary_that_cannot_be_read_is_a_problem(answer: bytes) -> None:
    """An auditor that does not tell its vocabulary is a problem, not an exception."""
    async with raw_server(answer) as seen, remote_at(seen.port) as remote:
        assert isinstance(await remote.words(), Problem)


async def test_a_version_is_bounded() -> None:
    """A version of 900 kB does not become that of the run: it is a problem beside the claims."""
    body = msgspec.json.encode({"status": "success", "claims": [{"name": "a", "value": 1}], "version": "v" * 900_000})
    got, _ = await asked(http(body))
    assert got.version is None
    assert [p.what for p in got.problems] == ["its version is longer than 128 characters"]
    assert [c.name for c in got.claims] == ["a"]


async def ids_asked(*bodies: bytes, expected: str | None) -> list[str]:
    """The codes of the problems with several answers in a row, empty for none."""
    remote, codes = RemoteAuditor("", auditor_id=expected), []
    for body in bodies:
        async with raw_server(http(body)) as seen:
            remote.url = f"http://127.0.0.1:{seen.port}"
            answer = await remote.ask(ASKED)
            codes.append(answer.problems[0].code if answer.problems else "")
            await remote.close()
    return codes


async def test_another_auditors_answer_is_a_problem() -> None:
    """An answer under another id than the expected one, or than the first, is no answer; one without an id is."""
    mine, other = (b'{"status":"success","claims":[],"auditor_id":"%s"}' % name for name in (b"mine", b"other"))
    bare, odd = b'{"status":"success","claims":[]}', b'{"status":"success","claims":[],"auditor_id":7}'
    assert await ids_asked(mine, other, bare, mine, expected=None) == ["", "another_auditor", "", ""]
    assert await ids_asked(other, mine, odd, expected="mine") == ["another_auditor", "", "another_auditor"]


async def test_names_of_unsound_claims_are_read() -> None:
    """An auditor may say which claims it could not state; anything else in that place is passed over."""
    for said, names in ((b'["a", 7]', ("a",)), (b'"a"', ()), (b"null", ())):
        body = b'{"status": "error", "error": {"code": "c", "claims": %s}, "claims": []}' % said
        got, _ = await asked(http(body))
        assert got.unsound == names
