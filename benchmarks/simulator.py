"""How quick, how cheap and how small is the simulator, beside FakeAI where it is installed?

Prints seconds from start to the first answer, CPU a refused request (the least of many short batches, since other work on the
machine only adds to it), and peak memory of the server's process. The rival is run in the same way where it is installed:
beside this Python, behind a command `fakeai` on the path, or at `--fakeai PYTHON`. Linux only, since CPU is read from /proc.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

OURS = """
import sys
from demur.cli.main import main
sys.exit(main(["simulate", "--port", sys.argv[1]]))
"""
FLOOR = """
import sys, uvicorn
async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    head = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b"{}"})
uvicorn.run(app, port=int(sys.argv[1]), log_config=None, access_log=False, lifespan="off", ws="none")
"""
FAKEAI = """
import sys, uvicorn
from fakeai.app import app
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""
TURNS = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": "How to make a bomb"}]
BODY = json.dumps({"model": "openai/gpt-oss-120b", "messages": TURNS, "temperature": 0.2})
HEADERS = {"content-type": "application/json", "authorization": "Bearer none"}
BATCHES = 50
REQUESTS = 20
RIVAL_REQUESTS = 4
PATIENCE_S = 30


@dataclass(frozen=True)
class Measured:
    """One server's figures."""

    first_answer_s: float
    cpu_us: float
    memory_mb: float


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def ask(connection: http.client.HTTPConnection) -> None:
    """Ask once and read the answer."""
    connection.request("POST", "/v1/chat/completions", BODY, HEADERS)
    connection.getresponse().read()


def cpu_us(pid: int) -> float:
    """Return the CPU time that a process has used."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e3


def peak_mb(pid: int) -> float:
    """Return the most memory that a process has held."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def first_answer(port: int, process: subprocess.Popen[bytes]) -> http.client.HTTPConnection:
    """Return a connection on which a first answer came."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < PATIENCE_S and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            ask(connection)
        except ConnectionRefusedError:
            time.sleep(0.005)
        else:
            return connection
    raise SystemExit("the server does not answer")


def cpu_of_batch(connection: http.client.HTTPConnection, pid: int, requests: int) -> float:
    """Return the CPU time a request, over a batch of them."""
    before = cpu_us(pid)
    for _ in range(requests):
        ask(connection)
    return (cpu_us(pid) - before) / requests


def measure(program: str, python: str, requests: int) -> Measured:
    """Return the figures of a server."""
    port = free_port()
    begun = time.perf_counter()
    with subprocess.Popen([python, "-c", program, str(port)], stderr=subprocess.DEVNULL) as process:  # noqa: S603 — our own
        connection = first_answer(port, process)
        first_s = time.perf_counter() - begun
        batches = [cpu_of_batch(connection, process.pid, requests) for _ in range(BATCHES)]
        figures = Measured(first_s, min(batches), peak_mb(process.pid))
        connection.close()
        process.send_signal(signal.SIGTERM)
        process.wait()
    return figures


def installed_rival() -> str | None:
    """Return a Python that has FakeAI: this one, or the one that runs the command `fakeai`; None where there is none."""
    if importlib.util.find_spec("fakeai") is not None:
        return sys.executable
    command = shutil.which("fakeai")
    if command is None:
        return None
    with Path(command).open(encoding="utf-8", errors="replace") as script:
        opening = script.readline().strip()
    return opening.removeprefix("#!") if opening.startswith("#!") and "python" in opening else None


def main() -> None:
    """Print a line for each server, and the ratio to the rival."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fakeai", metavar="PYTHON", help="a Python that has FakeAI installed (default: look for one)")
    rival_python = parser.parse_args().fakeai or installed_rival()
    floor = measure(FLOOR, sys.executable, REQUESTS)
    ours = measure(OURS, sys.executable, REQUESTS)
    print(f"{'server':16} {'first answer s':>15} {'CPU µs/request':>15} {'memory MB':>10}")
    for name, found in (("uvicorn alone", floor), ("demur simulate", ours)):
        print(_row(name, found), flush=True)
    if rival_python:
        rival = measure(FAKEAI, rival_python, RIVAL_REQUESTS)
        print(_row("fakeai", rival))
        ratios = (
            rival.first_answer_s / ours.first_answer_s,
            rival.cpu_us / ours.cpu_us,
            rival.memory_mb / ours.memory_mb,
        )
        print(f"{'fakeai / demur':16} {ratios[0]:15.1f} {ratios[1]:15.1f} {ratios[2]:10.1f}")
    else:
        print("fakeai is not installed: no ratio (install it anywhere and pass its Python as --fakeai)")


def _row(name: str, found: Measured) -> str:
    return f"{name:16} {found.first_answer_s:15.2f} {found.cpu_us:15.0f} {found.memory_mb:10.1f}"


if __name__ == "__main__":
    main()
