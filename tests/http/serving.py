"""A real server on a free loopback port, for as long as a test needs it."""

from __future__ import annotations

from demur.http.serve import serve_in_thread as serving

__all__ = ["serving"]
