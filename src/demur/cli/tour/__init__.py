"""`demur tour`."""

from demur.cli.tour.tour import add_parser

__all__ = ["add_parser"]
