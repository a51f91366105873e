"""Transports for the providers' own clients on loopback: they read no certificates, which costs each client 30 ms."""

from __future__ import annotations

import ssl

import anthropic
import openai

__all__ = ["anthropic_http", "openai_http"]

# Trusts nobody: whoever speaks TLS by mistake is told so.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def openai_http() -> openai.DefaultHttpxClient:
    """Return what OpenAI's client sends with, with its own timeouts and limits."""
    return openai.DefaultHttpxClient(verify=_NO_CERTIFICATES)


def anthropic_http() -> anthropic.DefaultHttpxClient:
    """Return what Anthropic's client sends with, with its own timeouts and limits."""
    return anthropic.DefaultHttpxClient(verify=_NO_CERTIFICATES)
