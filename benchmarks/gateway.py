"""What an exchange costs through the gateway: detector, policy and signed record on, everything in one run.

    python benchmarks/gateway.py                 # a few seconds each
    python benchmarks/gateway.py --seconds 20

A provider of ready bytes runs in a process of its own; `wrk` asks it directly, then through nginx and LiteLLM where these are
installed, then through the gateway. CPU is that of the gateway's own process, over all its threads; on a machine that others use,
read the ratios. The first token is timed over single connections, direct and through the gateway, in turns.
Goals: 1 ms of CPU a request, 3 ms more to the first token at the median, 150 MB, 2 s from start to ready.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECTIONS = 32
TEXT = "Photosynthesis is how plants make food from sunlight, water and carbon dioxide. "
ASKED = {
    "model": "m",
    "messages": [{"role": "user", "content": "How does photosynthesis work? Explain it to a child."}],
}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": TEXT * 8}, "finish_reason": "stop"}
WHOLE = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}).encode()
PIECES, PACE_S = 20, 0.002
PATH = "/v1/chat/completions"
LUA = 'wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\nwrk.body = [[{}]]\n'
NGINX = """daemon off; worker_processes 1; error_log /dev/null; pid {folder}/pid;
events {{ }}
http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
uwsgi_temp_path {folder}; scgi_temp_path {folder};
upstream u {{ server 127.0.0.1:{provider}; keepalive 64; }}
server {{ listen 127.0.0.1:{port};
location / {{ proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
COMMAND = (
    "import argparse, sys; from demur.cli import gateway; top = argparse.ArgumentParser(); "
    "gateway.add_parser(top.add_subparsers()); args = top.parse_args(); sys.exit(args.run(args))"
)


class _Provider(asyncio.Protocol):
    """Answers with ready bytes, or with a paced stream where one is asked for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._left = transport, b""

    def data_received(self, data: bytes) -> None:
        self._left += data
        while (end := self._left.find(b"\r\n\r\n")) >= 0:
            found = re.search(rb"(?i)content-length: *(\d+)", self._left[:end])
            size = end + 4 + (int(found[1]) if found else 0)
            if len(self._left) < size:
                return
            body, self._left = self._left[end + 4 : size], self._left[size:]
            if b'"stream": true' in body:
                self._task = asyncio.ensure_future(self._streamed())
            else:
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(WHOLE)
                self._transport.write(head + WHOLE)  # type: ignore[attr-defined]  # a transport that writes

    async def _streamed(self) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self._transport.write(head)  # type: ignore[attr-defined]  # a transport that writes
        for _ in range(PIECES):
            chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": TEXT[:20]}}]}
            self._event(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            await asyncio.sleep(PACE_S)
        self._event(b"data: [DONE]\n\n")
        self._transport.write(b"0\r\n\r\n")  # type: ignore[attr-defined]  # a transport that writes

    def _event(self, event: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))  # type: ignore[attr-defined]  # a transport that writes


async def provide(port: int) -> None:
    """Be the provider."""
    server = await asyncio.get_running_loop().create_server(_Provider, "127.0.0.1", port)
    await server.serve_forever()


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def until_open(port: int) -> float:
    """Return how long it took until somebody listens."""
    began = time.perf_counter()
    while time.perf_counter() - began < 60:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.005)
        else:
            return time.perf_counter() - began
    raise SystemExit("it never listened")


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that ends with the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 — ours
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return int(found[1]) / 1024 if found else 0.0


def asked(port: int, seconds: int, script: str) -> tuple[int, float]:
    """Return how many requests were answered, and how many a second."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{port}{PATH}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 — wrk
    if "Non-2xx" in said:
        raise SystemExit(said)
    total, rate = re.search(r"(\d+) requests in", said), re.search(r"Requests/sec:\s+([\d.]+)", said)
    return (int(total[1]), float(rate[1])) if total and rate else (0, 0.0)


def measured(name: str, port: int, pid: int, *, seconds: int, script: str) -> float:
    """Print what a request costs a server; return its CPU in µs."""
    asked(port, 2, script)
    before = cpu_s(pid)
    count, rate = asked(port, seconds, script)
    cost = (cpu_s(pid) - before) / max(1, count) * 1e6
    print(f"{name:<22}{cost:>10.0f} µs CPU a request{rate:>10.0f} requests/s{resident_mb(pid):>8.0f} MB")
    return cost


def first_token_s(port: int) -> float:
    """Return how long the first token takes."""
    body = json.dumps({**ASKED, "stream": True}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        sock.sendall(head.encode() + body)
        got = b""
        while b"data:" not in got:
            got += sock.recv(65536)
        took = time.perf_counter() - began
        while b"[DONE]" not in got:
            got += sock.recv(65536)
    return took


def first_tokens(direct: int, ours: int, times: int) -> None:
    """Print how much later the first token comes."""
    pairs = [(first_token_s(direct), first_token_s(ours)) for _ in range(times)]
    one, two = (statistics.median(pair[side] for pair in pairs) * 1000 for side in (0, 1))
    print(f"first token (median)    direct {one:.2f} ms, ours {two:.2f} ms, added {two - one:.2f} ms (goal 3)")


def rivals(provider: int, folder: Path, *, seconds: int, script: str) -> None:
    """Measure those that are installed."""
    if shutil.which("nginx"):
        port = free_port()
        config = folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, provider=provider, port=port), encoding="utf-8")
        with running(["nginx", "-c", str(config)]) as process:
            until_open(port)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
            measured("nginx proxy_pass", port, int((children or [str(process.pid)])[0]), seconds=seconds, script=script)
    if shutil.which("litellm"):
        port = free_port()
        command = [
            "litellm",
            "--model",
            "openai/m",
            "--api_base",
            f"http://127.0.0.1:{provider}/v1",
            "--port",
            str(port),
        ]
        with running(command) as process:
            until_open(port)
            measured("LiteLLM", port, process.pid, seconds=seconds, script=script)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--provide", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.provide:
        asyncio.run(provide(args.provide))
    if not shutil.which("wrk"):
        raise SystemExit("this benchmark asks by wrk; install it first")
    provider, ours = free_port(), free_port()
    with (
        tempfile.TemporaryDirectory() as name,
        running([sys.executable, __file__, "--provide", str(provider)]) as direct,
    ):
        folder = Path(name)
        script = folder / "ask.lua"
        script.write_text(LUA.replace("{}", json.dumps(ASKED)), encoding="utf-8")
        until_open(provider)
        floor = measured("direct", provider, direct.pid, seconds=args.seconds, script=str(script))
        rivals(provider, folder, seconds=args.seconds, script=str(script))
        flags = ["--upstream", f"http://127.0.0.1:{provider}", "--port", str(ours), "--store", str(folder / "log")]
        flags += ["--policy", "block-attacks", "--log-level", "warning"]
        began = time.perf_counter()
        with running([sys.executable, "-c", COMMAND, "gateway", *flags]) as process:
            until_open(ours)
            first_token_s(ours)
            print(f"start to first answer   {time.perf_counter() - began:.2f} s (goal 2)")
            cost = measured("demur gateway", ours, process.pid, seconds=args.seconds, script=str(script))
            first_tokens(provider, ours, 200)
            print(f"ours over direct        {cost / floor:.1f} times the CPU; goal 1000 µs: {cost / 1000:.2f} of it")
            print(f"memory                  {resident_mb(process.pid):.0f} MB (goal 150)")


if __name__ == "__main__":
    main()
