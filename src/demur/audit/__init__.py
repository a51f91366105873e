"""Auditors: the SDK, the chain that asks them, the built-in one and its server."""
