"""The record: entries are sealed, their envelopes become the leaves of an append-only log, and anyone can verify both.

Clocks, keys, files and randomness arrive as arguments, so the same input gives the same bytes; `store` is where they come from.
"""
