"""`demur policy`."""

from demur.cli.policy.command import add_parser

__all__ = ["add_parser"]
