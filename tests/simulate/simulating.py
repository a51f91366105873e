"""Official clients for a running simulator; they ask once and never again."""

from __future__ import annotations

from typing import Any

import anthropic
import boto3
import botocore.config
import openai
from google import genai
from tests.plain_http import anthropic_http, openai_http

from demur.simulate.server.run import RunningSimulator

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
