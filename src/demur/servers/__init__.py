"""Demur over HTTP: raw ASGI applications, one a file, and what they share."""
