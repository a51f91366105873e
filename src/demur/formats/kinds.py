"""How do several formats share one module? Each is a `Kind`: a name, a sniffer and a way to open its reader.

Laws: those of `interface.TraceFormat`, which it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.formats.interface import TraceReader
    from demur.wire.interface import JsonObject

__all__ = ["Kind"]


class Kind:
    """A trace format that is a value and not a module."""

    __slots__ = ("NAME", "open_reader", "sniffs")

    def __init__(
        self, name: str, sniffs: Callable[[JsonObject], bool], *, open_reader: Callable[[], TraceReader]
    ) -> None:
        """Keep the three."""
        self.NAME = name
        self.sniffs = sniffs
        self.open_reader = open_reader
