"""Providers' formats ⇄ `Exchange`: decoded JSON or stream events in, frozen values out, and back.

No sockets and no files; a reader raises only `ShapeError`, with the JSON path; a provider's own signal is never lost.
"""
