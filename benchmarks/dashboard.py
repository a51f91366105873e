"""How long does a page of the dashboard take over a million records? Every page, while it still counts and once it has.

    python benchmarks/dashboard.py [--records 1000000] [--folder DIR]

Goals: every page within a second, and 150 MB of memory for the whole process beyond what it began with. The floor is the least that any
answer about so many records takes: counting them in SQL, in the same file. With `--folder` the log is kept and used again.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.dashboard.app import DashboardSettings, dashboard_app
from demur.model.claim import (
    AuditorRun,
    AuditorStatus,
    Claim,
    ClaimType,
    Decision,
    Effect,
    EnforcementGap,
    FiredRule,
    Phase,
)
from demur.model.passport import Commitment, DeclineCause, Passport, PhaseRecord
from demur.record.checkpoint import Checkpoint, issue_checkpoint
from demur.record.seal import seal_entry
from demur.record.store.location import log_place

if TYPE_CHECKING:
    from demur.http.asgi import App
    from demur.record.store.location import LogPlace

BASE = 1000
HOURS = 2
"""Of which so many hours are copied, into later hours and other sessions."""
START = datetime(2026, 1, 1, tzinfo=UTC)
MODELS = ("small-2026", "large-2026", "legacy-chat", "tiny-2025", "judge-2026", "draft-2026")
GOAL_S, GOAL_MB = 1.0, 150.0
AGAIN = 5
TOKEN = "a-token-for-the-benchmark"  # noqa: S105 — no secret
PAGES = {
    "overview": "",
    "overview, all": "?range=all",
    "overview, one model": "?range=30d&model=large-2026",
    "sessions, first": "sessions",
    "sessions, last": "sessions?before=90",
    "sessions, denied": "sessions?decision=deny",
    "sessions, rare rule": "sessions?rule=rare",
    "sessions, nothing fits": "sessions?model=nobody",
    "sessions, one old day": "sessions?since=2026-01-04&until=2026-01-04",
    "sessions, by name": "sessions?q=01f-",
    "session": "session?id=000-s0001",
    "exchange, first": "exchange/3",
    "exchange, last": "exchange/{last}",
    "compare": "compare?a_model=small-2026&b_model=large-2026",
    "policies": "policies?range=all",
    "health": "health",
}


def passport_of(number: int) -> Passport:
    """Return the passport of an exchange; of forty some are refused, denied, filtered, warned of, or had a gap."""
    kind, model = number % 40, MODELS[(number * number + number // 7) % len(MODELS)]
    denied, refused = kind == 0, kind in (1, 2, 3)
    rules: tuple[FiredRule, ...] = ()
    rules += (FiredRule("no-attacks", Effect.DENY, "it tries to override its instructions"),) if denied else ()
    rules += (FiredRule("watch", Effect.WARN, "a harmful topic"),) if kind == 4 else ()
    rules += (FiredRule("rare", Effect.LOG, "rare"),) if number == BASE // 2 else ()
    effect = Effect.DENY if denied else Effect.WARN if kind == 4 else Effect.ALLOW
    claims = '{"claims":{"adversarial_flagged":true,"refusal_category":"injection"}}' if denied else '{"claims":{}}'
    phases = tuple(
        PhaseRecord(
            phase,
            (Claim("toxic_content", ClaimType.SCORE_NORMALIZED, 0.45, phase, "safety"),),
            Decision(effect, rules) if phase is Phase.REQUEST else Decision(Effect.ALLOW),
            (AuditorRun("safety", "1.2.0", AuditorStatus.OK, 812),),
            claims,
        )
        for phase in ((Phase.REQUEST,) if denied else (Phase.REQUEST, Phase.RESPONSE))
    )
    causes = (DeclineCause.GATEWAY_BLOCK,) if denied else (DeclineCause.TEXT_REFUSAL,) if refused else ()
    gaps = (EnforcementGap(Phase.RESPONSE, "failed_open", "safety"),) if kind == 5 else ()
    texts = (Commitment("a" * 64, 512), None if denied else Commitment("b" * 64, 1800))
    made = Passport(
        "", 0, "", model, None if denied else model, "c" * 64, "d" * 64, *texts, phases, causes=causes, gaps=gaps
    )
    return replace(made, upstream_status=None if denied else 200)


def first_records(place: LogPlace) -> None:
    """Write the records that are copied afterwards, sealed and under a signed checkpoint."""
    store = place.open(origin="bench.example/log", read_only=False)
    signer = place.keys().signer(START.strftime("%Y-%m-%dT%H:%M:%SZ"))
    tails: dict[str, tuple[int, str | None]] = {}
    entries = []
    for number in range(BASE):
        session = f"000-s{number // 12 * 3 + number % 3:04}"
        seq, previous = tails.get(session, (-1, None))
        at = (START + timedelta(hours=HOURS * number / BASE)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        entry = replace(passport_of(number), session=session, seq=seq + 1, previous=previous, at=at)
        entries.append(seal_entry(entry, signer))
        tails[session] = (seq + 1, entries[-1].leaf.hex())
    with store.exclusive() as held:
        held.append(entries)
    frontier = store.frontier()
    store.add_checkpoint(
        frontier.size, issue_checkpoint(Checkpoint(store.origin, frontier.size, frontier.root()), signer)
    )
    store.close()


def copied(place: LogPlace, copies: int) -> None:
    """Copy the first records by SQL, with a checkpoint for each copy as a gateway would sign it; the tree covers the first alone."""
    db = sqlite3.connect(place.store, isolation_level=None)
    db.execute("BEGIN")
    for copy in range(1, copies):
        later = f"+{HOURS * copy} hours"
        db.execute(
            "INSERT INTO records SELECT idx + ?, payload, rest, kind, strftime('%Y-%m-%dT%H:%M:%fZ', at, ?), ? || substr(session, 4), seq "
            "FROM records WHERE idx < ?",
            (BASE * copy, later, f"{copy:03x}", BASE),
        )
        db.execute(
            "INSERT INTO rollup SELECT strftime('%Y-%m-%dT%H', hour || ':00', ?), model, decision, causes, answered, n FROM rollup "
            "WHERE hour < ?",
            (later, (START + timedelta(hours=HOURS)).strftime("%Y-%m-%dT%H")),
        )
        db.execute("INSERT INTO checkpoints SELECT ?, note FROM checkpoints WHERE size = ?", (BASE * (copy + 1), BASE))
    db.execute("COMMIT")
    db.close()


async def asked(app: App, path: str) -> str:
    """Return a page, asked for without a socket."""
    route, _, query = path.partition("?")
    sent: list[bytes] = []
    statuses: list[int] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(int(str(message["status"])))
        else:
            body = message.get("body", b"")
            sent.append(body if isinstance(body, bytes) else b"")

    headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "GET", "path": f"/-/{route}", "query_string": query.encode(), "headers": headers}
    await app(scope, receive, send)  # type: ignore[arg-type]  # the least that an application needs
    if statuses != [200]:
        raise SystemExit(f"{path}: status {statuses}")
    return b"".join(sent).decode()


async def timed(app: App, pages: dict[str, str], *, again: int) -> dict[str, tuple[float, float]]:
    """Return the seconds that each page took, and those of CPU: the middle of so many times."""
    found: dict[str, tuple[float, float]] = {}
    for name, path in pages.items():
        took = []
        for _ in range(again):
            start, used = time.perf_counter(), time.process_time()
            await asked(app, path)
            took.append((time.perf_counter() - start, time.process_time() - used))
        found[name] = statistics.median(wall for wall, _ in took), statistics.median(cpu for _, cpu in took)
    return found


async def caught_up(app: App) -> float:
    """Return the seconds until all records are counted, a reader looking in now and then."""
    start = time.perf_counter()
    while re.search("Counted over the latest", await asked(app, "policies")):  # noqa: ASYNC110 — a reader who looks again
        await asyncio.sleep(1)
    return time.perf_counter() - start


def floor_of(place: LogPlace) -> float:
    """Return the seconds that bare SQL takes to count the records and to sum their hourly counts."""
    db = sqlite3.connect(place.store)
    start = time.perf_counter()
    db.execute("SELECT count(*) FROM records").fetchone()
    db.execute("SELECT sum(n) FROM rollup").fetchone()
    took = time.perf_counter() - start
    db.close()
    return took


def memory_mb() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def size_gb(place: LogPlace) -> float:
    """Return the size of the log on disk."""
    return Path(place.store).stat().st_size / 1e9


async def measure(place: LogPlace, records: int) -> int:
    """Print the figures and return 1 where a goal is missed."""
    pages = {name: path.format(last=records - 1) for name, path in PAGES.items()}
    floor_of(place)
    floor, before = floor_of(place), memory_mb()
    app = dashboard_app(place, DashboardSettings(TOKEN))
    counting = await timed(app, pages, again=1)
    took = await caught_up(app)
    settled = await timed(app, pages, again=AGAIN)
    grown = memory_mb() - before
    print(f"{records:,} records, {size_gb(place):.1f} GB; floor {1000 * floor:.0f} ms of bare SQL")
    print(f"{'page':24} {'counting, ms':>13} {'settled, ms':>12} {'its CPU, ms':>12} {'to the floor':>13}")
    for name in pages:
        (first, _), (middle, cpu) = counting[name], settled[name]
        print(f"{name:24} {1000 * first:13.0f} {1000 * middle:12.0f} {1000 * cpu:12.0f} {middle / floor:13.2f}")
    print(f"all records counted after {took:.0f} s; memory {grown:+.0f} MB")
    slow = [name for name in pages if max(counting[name][0], settled[name][0]) > GOAL_S]
    missed = slow + (["memory"] if grown > GOAL_MB else [])
    print(f"missed: {', '.join(missed)}" if missed else "all goals met")
    return int(bool(missed))


def main() -> int:
    """Build the log, and measure."""
    parser = argparse.ArgumentParser(description="Times the dashboard's pages over a long log.")
    parser.add_argument("--records", type=int, default=1_000_000, help="how many; rounded to thousands")
    parser.add_argument("--folder", help="where the log is kept, and found again")
    args = parser.parse_args()
    copies = max(1, args.records // BASE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(args.folder or name)
        place = log_place(str(folder))
        if not Path(place.store).exists():
            first_records(place)
            copied(place, copies)
        return asyncio.run(measure(place, copies * BASE))


if __name__ == "__main__":
    sys.exit(main())
