"""A stub server on loopback that answers every request with the same bytes, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from demur.model.exchange import Response
from demur.wire import sse
from demur.wire.fields import Codec, encode


@dataclass
class Stub:
    """Where the server listens, and the requests that it got."""

    url: str
    paths: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)


@contextmanager
def answering(payload: bytes, *, content_type: str = "application/json", status: int = 200) -> Iterator[Stub]:
    """Yield a running server; it is gone afterwards."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            stub.paths.append(self.path)
            stub.bodies.append(msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub = Stub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def serving(codec: Codec, response: Response, *, status: int = 200) -> AbstractContextManager[Stub]:
    """Return a server of the response as the codec writes it."""
    return answering(encode(codec.write_response(response)), status=status)


def streaming(codec: Codec, response: Response) -> AbstractContextManager[Stub]:
    """Return a server of the response as the codec streams it, in pieces."""
    wire = b"".join(map(sse.encode, codec.write_stream(response, piece_chars=4)))
    return answering(wire, content_type="text/event-stream")
