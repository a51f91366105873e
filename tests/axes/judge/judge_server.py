"""A judge on loopback, over real HTTP: it answers as OpenAI or Anthropic do, by a truth that the test knows."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Truth = Callable[[dict[str, str]], str]
"""From what stands between the marks, by its word, to the text of the judge's reply."""
_MARKED = re.compile(r"<(\w+)-(\w{12})>\n(.*?)\n</\1-\2>", re.DOTALL)


@dataclass
class JudgeServer:
    """Where the judge listens, what it was asked, and what it answers first, before the truth: status and headers."""

    url: str
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    before: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)


def label(name: str, reason: str = "because") -> str:
    """A reply as the rubric asks for it."""
    return json.dumps({"label": name, "reason": reason})


class _Server(ThreadingHTTPServer):
    request_queue_size = 64
    """Several questions at once must not wait for the next try of a connection."""


@contextmanager
def judging(truth: Truth) -> Iterator[JudgeServer]:
    """Yield a running judge; it is gone afterwards."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                server.bodies.append(body)
                server.headers.append(dict(self.headers))
                planned = server.before.pop(0) if server.before else None
            if planned is not None:
                self._answer(*planned)
                return
            shown = {found[1]: found[3] for found in _MARKED.finditer(body["messages"][-1]["content"])}
            self._answer(200, {}, json.dumps(_reply(self.path, truth(shown))).encode())

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    http = _Server(("127.0.0.1", 0), Handler)
    server = JudgeServer(f"http://127.0.0.1:{http.server_port}/v1")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def _reply(path: str, text: str) -> dict[str, Any]:
    if path.endswith("/messages"):
        return {"content": [{"type": "text", "text": text}], "usage": {"input_tokens": 100, "output_tokens": 10}}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}], "usage": usage}
