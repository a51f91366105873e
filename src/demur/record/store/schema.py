"""Which tables does a store have, and of which version? Migrations, numbered files of SQL, applied in order.

Laws: a store is brought up to our version once, in one transaction a step; one of a later version is refused, for we would
write into it what its own writers do not expect; a step that has been released is never edited.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from demur.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Migration", "migrations", "steps_from"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: the version it leads to, and its SQL."""

    version: int
    sql: str


def migrations(engine: str) -> tuple[Migration, ...]:
    """Return the steps for an engine (`sqlite`, `postgres`), first to last."""
    folder = files("demur.record.store") / "migrations" / engine
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    steps = (Migration(int(entry.name.split("_")[0]), entry.read_text(encoding="utf-8")) for entry in found)
    return tuple(sorted(steps, key=lambda step: step.version))


def steps_from(version: int, steps: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return the steps that a store of this version still needs; refuse a version that we do not know."""
    latest = steps[-1].version
    if version > latest:
        what = f"the store is of version {version}, this Demur knows {latest}"
        raise StoreError(what, hint="it was written by a later Demur; upgrade this one")
    return tuple(step for step in steps if step.version > version)
