"""The assertion for promptfoo, under the name that its configuration files use."""

from __future__ import annotations

from demur.plugins.promptfoo import get_assert

__all__ = ["get_assert"]
