"""`demur passport`."""

from demur.cli.passport.command import add_parser

__all__ = ["add_parser"]
