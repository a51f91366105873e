"""What does a durable, signed record cost beyond the disk itself? Stores beside plain appends, in the same run.

    python benchmarks/store.py [--postgres postgresql://…] [--seconds 3]

Goals: 3,000 durable, signed records a second in SQLite with a commit every 10 ms; 600 µs of CPU and 2.5 KB a record; 1,000
records a second verified on one core; rates over a million passports in a second. The floor is a file that the same
envelopes are appended to, with one fdatasync at the same interval.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from demur.model.claim import AuditorRun, AuditorStatus, Claim, ClaimType, Decision, Effect, Phase
from demur.model.passport import Commitment, Passport, PhaseRecord
from demur.record.store.checks import StoreCheck
from demur.record.store.location import log_place
from demur.record.store.rates import rates_of
from demur.record.store.writer import Durability, LogWriter, WriterSettings
from demur.record.verify import Evidence, Trust, verify

INTERVAL_S = 0.010
CLIENTS = 256
GOALS = {"records/s": 3000, "cpu_us": 600, "bytes": 2500, "verified/s": 1000, "rates_s": 1.0}
CONTEXT = '{"claims":{"toxic_content":{"__extn":{"arg":"0.4500","fn":"decimal"}}}}'
MILLION = 1_000_000


def passport_of(session: str) -> Passport:
    """Return an ordinary passport: two phases of one score, digests, nothing fired."""
    phases = tuple(
        PhaseRecord(
            phase,
            (Claim("toxic_content", ClaimType.SCORE_NORMALIZED, 0.45, phase, "safety"),),
            Decision(Effect.ALLOW),
            (AuditorRun("safety", "1.2.0", AuditorStatus.OK, 812),),
            CONTEXT,
        )
        for phase in (Phase.REQUEST, Phase.RESPONSE)
    )
    texts = (Commitment("a" * 64, 512), Commitment("b" * 64, 1800))
    digests = ("c" * 64, "d" * 64)
    return Passport(session, 0, "", "small", "small-2026", *digests, *texts, phases, upstream_status=200)


def plain_appends(envelopes: list[bytes], folder: Path, seconds: float) -> float:
    """Return how many envelopes a second a file takes, synchronised once an interval."""
    done = 0
    handle = os.open(folder / "plain", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    start = last = time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        os.write(handle, envelopes[done % len(envelopes)])
        done += 1
        if now - last >= INTERVAL_S:
            os.fdatasync(handle)
            last = now
    os.fdatasync(handle)
    elapsed = time.perf_counter() - start
    os.close(handle)
    return done / elapsed


async def _client(writer: LogWriter, session: str, until: float) -> int:
    done = 0
    while time.perf_counter() < until:
        await writer.submit(replace(passport_of(session)), durable=True).acknowledged()
        done += 1
    return done


async def _clients(writer: LogWriter, seconds: float) -> int:
    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(_client(writer, f"session-{n:032}", until) for n in range(CLIENTS))))


def durable_records(address: str, folder: Path, seconds: float) -> tuple[int, float, float]:
    """Return records, records a second and CPU µs a record, each waited for by one of many clients."""
    place = log_place(address, str(folder))
    store = place.open(origin="bench.example/log", read_only=False)
    writer = LogWriter(store, place.keys(), settings=WriterSettings(Durability.SYNC, interval_s=INTERVAL_S))
    writer.start("c" * 64, "d" * 64)
    start, used = time.perf_counter(), time.process_time()
    done = asyncio.run(_clients(writer, seconds))
    elapsed, used = time.perf_counter() - start, time.process_time() - used
    writer.close()
    store.close()
    return done, done / elapsed, 1e6 * used / done


def verification(folder: Path) -> tuple[float, list[bytes]]:
    """Return how many records a second of CPU are verified, with the store's own tables, and the envelopes."""
    place = log_place(str(folder))
    store = place.open(read_only=True)
    start = time.process_time()
    check = StoreCheck(store)
    found = verify(check.envelopes(), Trust(store.origin, place.keys().public()), Evidence(tuple(store.checkpoints())))
    check.close()
    used = time.process_time() - start
    if not found.ok or check.faults:
        raise SystemExit(f"the log that was made here does not verify: {found.first_bad or check.faults[0]}")
    envelopes = list(store.read(0, min(found.records, 2000)))
    store.close()
    return found.records / used, envelopes


def million_rates(folder: Path) -> tuple[float, int]:
    """Return the seconds that rates by model and day take over a month of a million passports, and the groups."""
    place = log_place(str(folder / "million"))
    place.open(origin="bench.example/log", read_only=False).close()
    db = sqlite3.connect(place.store)
    causes = ("", "text_refusal", "gateway_block", "provider_filter")
    cells = [
        (f"2026-01-{day:02}T{hour:02}", f"model-{model}", "deny" if cause == "gateway_block" else "allow", cause, 1)
        for day in range(1, 31)
        for hour in range(24)
        for model in range(8)
        for cause in causes
    ]
    share, over = divmod(MILLION, len(cells))
    rows = [(*cell, share + (number < over)) for number, cell in enumerate(cells)]
    db.executemany("INSERT INTO rollup VALUES (?, ?, ?, ?, ?, ?)", rows)
    db.commit()
    db.close()
    start = time.perf_counter()
    store = place.open(read_only=True)
    groups = rates_of(store.rollup(), ("model", "day"))
    store.close()
    if sum(group.exchanges for group in groups) != MILLION:
        raise SystemExit("the rates do not speak of a million")
    return time.perf_counter() - start, len(groups)


def main() -> int:
    """Print the figures and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description="Times the stores of passports beside plain appends.")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each store is written to")
    parser.add_argument("--postgres", metavar="URL", help="an empty database of a running server")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done, rate, cpu = durable_records(str(folder), folder, args.seconds)
        size = (folder / "log.db").stat().st_size / done
        verified, envelopes = verification(folder)
        floor = plain_appends(envelopes, folder, args.seconds)
        seconds, groups = million_rates(folder)
        figures = {"records/s": rate, "cpu_us": cpu, "bytes": size, "verified/s": verified, "rates_s": seconds}
        print(f"{CLIENTS} clients, each waiting for its own record; a commit every {1000 * INTERVAL_S:.0f} ms")
        print(f"plain appends, fdatasync: {floor:,.0f}/s (unsigned, unordered: the disk alone)")
        print(
            f"SQLite, durable, signed: {rate:,.0f}/s, ratio to plain {rate / floor:.3f}, {cpu:.0f} µs of CPU a record"
        )
        print(f"on disk: {size:,.0f} bytes a record, tree and indices included; the envelope {len(envelopes[0]):,}")
        print(f"verify, signatures and tables: {verified:,.0f} records/s of one core")
        print(f"rates by model and day over 1,000,000 passports: {1000 * seconds:.0f} ms, {groups} groups")
        if args.postgres:
            _, rate, cpu = durable_records(args.postgres, folder / "keys", args.seconds)
            print(f"PostgreSQL, durable, signed: {rate:,.0f}/s, ratio to plain {rate / floor:.3f}, {cpu:.0f} µs of CPU")
    above = ("records/s", "verified/s")
    missed = [n for n, goal in GOALS.items() if (figures[n] < goal if n in above else figures[n] > goal)]
    print(f"missed: {', '.join(missed)}" if missed else "all goals met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
