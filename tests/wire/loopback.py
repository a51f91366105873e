"""A stub server on loopback that answers every request with the same bytes, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec


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
