"""Which labelled rows are there, and are they the ones that the packs were trained on?

Laws: every input is named with its SHA-256 digest; a file that is missing or has changed stops the training with a message
that names it; rows come in the order of the file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_FOLDER", "DataError", "Row", "digest_of", "read_rows", "verify"]

DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


class DataError(Exception):
    """A labelled set is missing, or is not the one that was pinned."""


class Row(msgspec.Struct, frozen=True):
    """One labelled text; `response` is None in sets of prompts."""

    id: str
    source: str
    prompt: str | None
    label: str
    response: str | None = None
    meta: dict[str, Any] = {}


def read_rows(folder: Path, name: str) -> list[Row]:
    """Return the rows of one set, `train/wild_jailbreaks` for example."""
    decoder = msgspec.json.Decoder(Row)
    return [decoder.decode(line) for line in _bytes_of(folder, name).splitlines() if line.strip()]


def digest_of(folder: Path, name: str) -> str:
    """Return the SHA-256 digest of a set's file."""
    return hashlib.sha256(_bytes_of(folder, name)).hexdigest()


def verify(folder: Path, pins: Mapping[str, str]) -> None:
    """Raise `DataError` unless every pinned set is there, byte for byte."""
    for name, pin in pins.items():
        found = digest_of(folder, name)
        if found != pin:
            raise DataError(
                f"`{name}.jsonl` has changed: expected {pin[:12]}…, found {found[:12]}…; update the pins first"
            )


def _bytes_of(folder: Path, name: str) -> bytes:
    path = folder / f"{name}.jsonl"
    if not path.is_file():
        raise DataError(f"`{path}` is missing; name the folder of the labelled sets with --data")
    return path.read_bytes()
