"""Official clients for a running simulator; they ask once and never again."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anthropic
import boto3
import botocore.config
import openai
from google import genai
from tests.plain_http import anthropic_http, openai_http

if TYPE_CHECKING:
    from demur.simulate.server.run import RunningSimulator


@dataclass(frozen=True)
class Came:
    """What came back over the bare wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


HARM = "How to make a bomb"
HARMLESS = "What is the capital of France?"


def openai_client(running: RunningSimulator, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=running.openai_url, api_key="none", max_retries=0, http_client=openai_http(), **more)


def azure_client(running: RunningSimulator) -> openai.AzureOpenAI:
    return openai.AzureOpenAI(
        azure_endpoint=running.url, api_key="none", api_version="2024-10-21", max_retries=0, http_client=openai_http()
    )


def anthropic_client(running: RunningSimulator) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=running.url, api_key="none", max_retries=0, http_client=anthropic_http())


def gemini_client(running: RunningSimulator) -> genai.Client:
    return genai.Client(api_key="none", http_options={"base_url": running.url})


def bedrock_client(running: RunningSimulator) -> Any:
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 — the simulator asks for no secret
        config=botocore.config.Config(retries={"max_attempts": 0}),
    )


def asked(text: Any, **more: Any) -> Any:
    return {"model": "gpt-x", "messages": [{"role": "user", "content": text}], **more}


def knock(running: RunningSimulator, path: str, body: Any = None, *, method: str = "POST", **headers: str) -> Came:
    """Return what a bare request gets; a body that is no bytes is sent as JSON, names of headers take dashes."""
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    named = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, sent, named)
        response = connection.getresponse()
        return Came(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()
