"""A real server on a free loopback port, for as long as a test needs it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from demur.http.serve import listening_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.http.asgi import App


@contextmanager
def serving(app: App) -> Iterator[str]:
    """Yield the address of an application that runs in a thread; its socket listens from the start."""
    sock = listening_socket("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        sock.close()
