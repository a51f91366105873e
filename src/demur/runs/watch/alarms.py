"""Where did the last look stop? The state of a watch, kept between calls in a small file without any text of the log.

Laws: a state is of one band: another band is refused, for its sums mean something else; a state is replaced whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from demur.errors import InputError, UsageError
from demur.measure.watching import Band, WatchState
from demur.runs.watch.growing_files import Mark

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Kept", "read_kept", "write_kept"]


@dataclass(frozen=True, slots=True)
class Kept:
    """How far the log was read, what was seen in it, and the lines that could not be read or were failures of the provider."""

    mark: Mark = field(default_factory=Mark)
    state: WatchState = field(default_factory=WatchState)
    unreadable: int = 0
    failed: int = 0


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands in the file."""

    version: int
    band: Band
    kept: Kept


def read_kept(path: Path, band: Band) -> Kept:
    """Return what was kept for this band; nothing was yet where there is no file."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return Kept()
    except (OSError, msgspec.DecodeError) as exc:
        hint = "it is written by `demur watch --state`; take another file, or remove this one"
        raise InputError("no state of a watch", source=str(path), hint=hint) from exc
    if found.band != band:
        raise UsageError(f"`{path}` was kept for another band, step, alpha or rows", hint="ask as before, or remove it")
    return found.kept


def write_kept(path: Path, kept: Kept, band: Band) -> None:
    """Replace the file."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(msgspec.json.encode(_File(1, band, kept)))
        new.replace(path)
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{path}` cannot be written: {what}", hint="check the folder") from exc
