"""How a test speaks HTTP on loopback: by itself, and by the providers' own clients.

Their transports read no certificates, which would cost each client 30 ms.
"""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

# Trusts nobody: whoever speaks TLS by mistake is told so.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def openai_http() -> openai.DefaultHttpxClient:
    """Return what OpenAI's client sends with, with its own timeouts and limits."""
    return openai.DefaultHttpxClient(verify=_NO_CERTIFICATES)


def anthropic_http() -> anthropic.DefaultHttpxClient:
    """Return what Anthropic's client sends with, with its own timeouts and limits."""
    return anthropic.DefaultHttpxClient(verify=_NO_CERTIFICATES)


@dataclass(frozen=True)
class Got:
    """What came back over the bare wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


def knock(url: str, path: str, body: Any = None, *, method: str = "POST", **headers: str) -> Got:
    """Return what a bare request gets; a body that is no bytes is sent as JSON, names of headers take dashes."""
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    named = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)) as connection:
        connection.request(method, path, sent, named)
        # A response that ends with its connection holds the socket by itself.
        with connection.getresponse() as response:
            return Got(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
