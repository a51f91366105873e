"""`demur tour`."""

from demur.cli.tour.command import add_parser

__all__ = ["add_parser"]
