"""Several real gateways on one PostgreSQL store: under load, with one killed, the log is whole, and the other goes on."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cli.passport.test_command import run
from tests.gateway.gateway_process import Started, gateway_process
from tests.gateway.gatewaying import ATTACK, CHAT, HARMLESS, Stub, chat, provider
from tests.gateway.test_dashboard import followed
from tests.http.serving import serving

from demur.model.passport import DeclineCause, Passport
from demur.record.seal import open_sealed
from demur.record.store.postgres import PostgresLog

pytestmark = pytest.mark.heavy

CLIENTS = 4
BEFORE, AFTER = 20, 10
"""Answers of each client before one gateway is killed, and of each at the other one afterwards."""
STREAM = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Paris."},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)


@dataclass
class Client:
    """One client that asks again and again over one connection, and keeps the ids that it was answered with."""

    url: str
    number: int
    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)
    goal: int = BEFORE
    broken: bool = False

    def work(self, stop: threading.Event) -> None:
        """Ask until told to stop, or until nobody answers."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        try:
            while not stop.is_set():
                self._ask(connection)
        except (OSError, http.client.HTTPException):
            self.broken = True
        finally:
            self.enough.set()
            connection.close()

    def _ask(self, connection: http.client.HTTPConnection) -> None:
        turn = len(self.acknowledged)
        body = chat(ATTACK if turn % 5 == 4 else HARMLESS)
        session = "shared" if turn % 3 == 0 else f"s{self.number}"
        headers = {"content-type": "application/json", "x-session-id": session}
        connection.request("POST", CHAT, json.dumps(body), headers)
        response = connection.getresponse()
        response.read()
        self.acknowledged.append((response.headers["x-demur-passport"], response.status))
        if len(self.acknowledged) >= self.goal:
            self.enough.set()

    def wait_for(self, more: int) -> None:
        """Return once it was answered so often again."""
        self.goal = len(self.acknowledged) + more
        self.enough.clear()
        assert self.enough.wait(120)


@contextmanager
def load(url: str, numbers: range) -> Iterator[list[Client]]:
    """Yield clients at work."""
    stop = threading.Event()
    clients = [Client(url, number) for number in numbers]
    threads = [threading.Thread(target=client.work, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield clients
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def on_database(database: str, folder: Path, upstream: str, *flags: str) -> Iterator[Started]:
    """Yield a gateway on the shared log, with keys of its own; each answer waits for its record."""
    folder.mkdir(exist_ok=True)
    named = ("--upstream", upstream, "--store", database, "--policy", "block-attacks", *flags)
    part = {"DEMUR_GATEWAY_STORE_FOLDER": str(folder / "keys"), "DEMUR_GATEWAY_STORE_DURABILITY": "sync"}
    with gateway_process(folder, *named, **part) as started:
        yield started


def check_log(capsys: pytest.CaptureFixture[str], database: str, folders: list[Path]) -> list[Passport]:
    """Verify the log by the command, with the keys of all its gateways; return its passports, once their order is checked."""
    keys: list[object] = []
    for folder in folders:
        code, out = run(capsys, "keys", database, "--folder", folder / "keys", "--json")
        assert code == 0, out
        keys += json.loads(out)
    merged = folders[0] / "all-keys.json"
    merged.write_text(json.dumps(keys), encoding="utf-8")
    code, out = run(
        capsys, "verify", database, "--folder", folders[0] / "keys", "--keys", merged, "--policy", "block-attacks"
    )
    assert code == 0, out
    with closing(PostgresLog(database, read_only=True)) as store:
        rows = list(store.entries(0, None))
    assert [row.index for row in rows] == list(range(len(rows)))
    found = [entry for row in rows if isinstance(entry := open_sealed(row.envelope).entry, Passport)]
    for session in {each.session for each in found}:
        numbers = [each.seq for each in found if each.session == session]
        assert numbers == list(range(len(numbers)))
    return found


def test_a_killed_gateway_leaves_a_whole_log(capsys: pytest.CaptureFixture[str], database: str, tmp_path: Path) -> None:
    """Of two gateways under load one is killed: each answer given is on record once, none is missing between, the other goes on."""
    folders = [tmp_path / "one", tmp_path / "two"]
    with (
        serving(provider()) as upstream,
        on_database(database, folders[0], upstream) as killed,
        on_database(database, folders[1], upstream, "--workers", "2") as survivor,
        load(killed.url, range(CLIENTS)) as lost,
        load(survivor.url, range(CLIENTS, 2 * CLIENTS)) as kept,
    ):
        for client in (*lost, *kept):
            assert client.enough.wait(120)
        killed.process.kill()
        assert killed.process.wait(30) != 0
        for client in kept:
            client.wait_for(AFTER)
        assert survivor.running.knock("/readyz", method="GET").status == 200
        with on_database(database, folders[0], upstream) as again:
            assert again.running.knock(CHAT, chat(HARMLESS)).status == 200
            assert again.end() == 0
    assert all(client.broken for client in lost)
    assert not any(client.broken for client in kept)
    clients = [*lost, *kept]
    answers = [answer for client in clients for answer in client.acknowledged]
    assert all(len(client.acknowledged) >= BEFORE for client in clients)
    assert {status for _, status in answers} == {200, 403}
    found = check_log(capsys, database, folders)
    recorded = Counter(passport.request.digest for passport in found if passport.request is not None)
    assert set(recorded.values()) == {1}
    assert {digest for digest, _ in answers} <= set(recorded)
    denied = {each.request.digest for each in found if each.request and DeclineCause.GATEWAY_BLOCK in each.causes}
    assert {digest for digest, status in answers if status == 403} <= denied


def test_the_dashboard_reads_the_shared_log(capsys: pytest.CaptureFixture[str], database: str, tmp_path: Path) -> None:
    """Each gateway's dashboard, in each of its workers, shows what all of them wrote, streams included."""
    folders = [tmp_path / "one", tmp_path / "two"]
    with (
        serving(Stub(pieces=STREAM)) as upstream,
        on_database(database, folders[0], upstream) as one,
        on_database(database, folders[1], upstream, "--workers", "2") as two,
    ):
        assert one.token != two.token
        for started in (one, two):
            for _ in range(3):
                assert started.running.knock(CHAT, chat(HARMLESS, stream=True), x_session_id="both").status == 200
        for started in (one, two):
            followed(started)
        assert (one.end(), two.end()) == (0, 0)
    assert len(check_log(capsys, database, folders)) == 6
