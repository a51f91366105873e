"""When are kept texts erased? Once they are older than the settings allow, and with their erasure on record.

Laws: what is erased is gone before the record says so; a look that fails is made again, for nothing was said to be erased.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from demur.errors import DemurError
from demur.io.log import LogEvent, log_event
from demur.model.passport import Erasure
from demur.record.store.sealing import utc_now

if TYPE_CHECKING:
    from demur.record.store.location import LogPlace
    from demur.record.store.writer import LogWriter

__all__ = ["erase_when_due", "erased_before"]

_EVERY_S = 3600.0


async def erase_when_due(place: LogPlace, writer: LogWriter, *, days: int) -> None:
    """Look every hour, and at once."""
    while True:
        until = datetime.now(UTC) - timedelta(days=days)
        try:
            digests = await asyncio.to_thread(erased_before, place, until.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            if digests:
                writer.submit(Erasure(utc_now(), digests, f"older than {days} days"))
        except DemurError as exc:
            log_event(LogEvent.RECORD_FAILED, part="store", error=exc)
        await asyncio.sleep(_EVERY_S)


def erased_before(place: LogPlace, at: str) -> tuple[str, ...]:
    """Erase what was kept before a time; return the digests of what was there."""
    # A connection of its own: the writer's belongs to the writer's thread.
    kept = place.disclosures(utc_now, create=True)
    try:
        found = kept.kept_before(at)
        return kept.erase(found) if found else ()
    finally:
        kept.close()
