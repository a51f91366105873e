"""The assertion that `promptfooconfig.yaml` names."""

from demur.promptfoo import get_assert

__all__ = ["get_assert"]
