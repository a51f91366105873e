"""What an exchange costs through the gateway: detector, policy and signed record on, everything in one run.

    python benchmarks/gateway.py                      # a few seconds each
    python benchmarks/gateway.py --seconds 20 --soak 100000
    python benchmarks/gateway.py --against OLD/src    # another tree of ours, in turns with this one
    python benchmarks/gateway.py --litellm /path/to/litellm

A provider of ready bytes runs in a process of its own; `wrk` asks it directly, then through nginx and LiteLLM where these are
installed, then through the gateway. 1,000 different requests meet 1,009 different answers (see `asked`), so that no pair comes
twice within a million exchanges and a cache by text has nothing to win but what real repetition would give it. CPU is that
of all processes of a server, over all their threads; on a machine that others use, read the ratios. The first token is
timed over single connections, direct and through the gateway, in turns.
Goals: 1 ms of CPU a request, 20 times the requests a second of LiteLLM with a guard, 3 ms more to the first token at the
median, 150 MB a worker and flat, 2 s from start to ready.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asked import answer_bodies, request_bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECTIONS = 32
REQUESTS, ANSWERS = 1000, 1009
PIECES, PACE_S = 20, 0.002
PATH = "/v1/chat/completions"
LUA = """local bodies, at = {{}}, 0
for line in io.lines("{file}") do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = "Bearer sk-none"
request = function()
  at = at % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[at])
end
"""
NGINX = """daemon off; worker_processes 1; error_log /dev/null; pid {folder}/pid;
events {{ }}
http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
uwsgi_temp_path {folder}; scgi_temp_path {folder};
upstream u {{ server 127.0.0.1:{provider}; keepalive 64; }}
server {{ listen 127.0.0.1:{port};
location / {{ proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
LITELLM = """model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "http://127.0.0.1:{provider}/v1", api_key: none}}
guardrails:
  - guardrail_name: words
    litellm_params: {{guardrail: litellm_guard.WordGuard, mode: [pre_call, post_call], default_on: true}}
"""
LITELLM_GUARD = '''"""Looks for a few phrases in what is asked and answered."""
from litellm.integrations.custom_guardrail import CustomGuardrail

PHRASES = ("ignore all previous instructions", "reveal your system prompt", "developer mode", "do anything now")


def look(text):
    if any(phrase in str(text).lower() for phrase in PHRASES):
        raise ValueError("blocked")


class WordGuard(CustomGuardrail):
    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        look(data.get("messages"))
        return data

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        look(response.choices[0].message.content)
        return response
'''
COMMAND = (
    "import argparse, sys; from demur.cli import gateway; top = argparse.ArgumentParser(); "
    "gateway.add_parser(top.add_subparsers()); args = top.parse_args(); sys.exit(args.run(args))"
)


class _Provider(asyncio.Protocol):
    """Answers with ready bytes, each time others, or with a paced stream where one is asked for."""

    ready: Iterator[bytes]

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
                self._transport.write(next(self.ready))  # type: ignore[attr-defined]  # a transport that writes

    async def _streamed(self) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self._transport.write(head)  # type: ignore[attr-defined]  # a transport that writes
        for number in range(PIECES):
            chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": f"and then {number} "}}]}
            self._event(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            await asyncio.sleep(PACE_S)
        self._event(b"data: [DONE]\n\n")
        self._transport.write(b"0\r\n\r\n")  # type: ignore[attr-defined]  # a transport that writes

    def _event(self, event: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))  # type: ignore[attr-defined]  # a transport that writes


async def provide(port: int) -> None:
    """Be the provider."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    _Provider.ready = itertools.cycle([head % (len(body), body) for body in answer_bodies(ANSWERS)])
    server = await asyncio.get_running_loop().create_server(_Provider, "127.0.0.1", port)
    await server.serve_forever()


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def until_ready(port: int, process: subprocess.Popen[bytes], path: str = "/readyz") -> float:
    """Return how long it took until a page is answered well."""
    began = time.perf_counter()
    while time.perf_counter() - began < 120 and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as sock:
                sock.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
                if sock.recv(64).startswith(b"HTTP/1.1 200"):
                    return time.perf_counter() - began
        except OSError:
            pass
        time.sleep(0.005)
    raise SystemExit("it was never ready")


def until_open(port: int) -> None:
    """Wait until somebody listens."""
    for _ in range(12_000):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise SystemExit("it never listened")


@contextmanager
def running(command: list[str], *, cwd: Path | None = None, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that ends with the block."""
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **more}, **quiet)  # noqa: S603 — ours
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def family(pid: int) -> list[int]:
    """Return a process and all that it started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(word) for path in tasks for word in path.read_text(encoding="ascii").split()]
    return [pid, *(member for child in children for member in family(child))]


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of those it started, all threads."""
    ticks = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the memory of the largest of a server's processes."""
    texts = [Path(f"/proc/{member}/status").read_text(encoding="ascii") for member in family(pid)]
    return max(int(found[1]) for text in texts if (found := re.search(r"VmRSS:\s+(\d+)", text))) / 1024


@dataclass(frozen=True)
class Figures:
    """What was measured of a server."""

    cpu_us: float
    rate: float


def asked_for(port: int, seconds: int, script: Path) -> tuple[int, float]:
    """Return how many requests were answered, and how many a second."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "20s", "-s", str(script)]
    url = f"http://127.0.0.1:{port}{PATH}"
    said = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout  # noqa: S603 — wrk
    if "Non-2xx" in said:
        raise SystemExit(said)
    total, rate = re.search(r"(\d+) requests in", said), re.search(r"Requests/sec:\s+([\d.]+)", said)
    return (int(total[1]), float(rate[1])) if total and rate else (0, 0.0)


def measured(name: str, port: int, pid: int, *, seconds: int, script: Path) -> Figures:
    """Print and return what a request costs a server."""
    asked_for(port, 2, script)
    before = cpu_s(pid)
    count, rate = asked_for(port, seconds, script)
    cost = (cpu_s(pid) - before) / max(1, count) * 1e6
    print(f"{name:<22}{cost:>10.0f} µs CPU a request{rate:>10.0f} requests/s{resident_mb(pid):>8.0f} MB", flush=True)
    return Figures(cost, rate)


def first_token_s(port: int, body: bytes) -> float:
    """Return how long the first token takes."""
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
    bodies = list(request_bodies(times, seed=3, stream=True))
    pairs = [(first_token_s(direct, body), first_token_s(ours, body)) for body in bodies]
    one, two = (statistics.median(pair[side] for pair in pairs) * 1000 for side in (0, 1))
    print(f"first token (median)    direct {one:.2f} ms, ours {two:.2f} ms, added {two - one:.2f} ms (goal 3)")


@contextmanager
def nginx(provider: int, folder: Path) -> Iterator[tuple[int, int]]:
    """Yield the port and the process of an nginx that passes on."""
    port, config = free_port(), folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, provider=provider, port=port), encoding="utf-8")
    with running(["nginx", "-c", str(config)]) as process:
        until_open(port)
        yield port, process.pid


@contextmanager
def litellm(command: str, provider: int, folder: Path) -> Iterator[tuple[int, int]]:
    """Yield the port and the process of a LiteLLM proxy that looks for four phrases."""
    port, config = free_port(), folder / "litellm.yaml"
    config.write_text(LITELLM.format(provider=provider), encoding="utf-8")
    (folder / "litellm_guard.py").write_text(LITELLM_GUARD, encoding="utf-8")
    # Without a key of its own it would not start; with one it would look it up for every request.
    settings = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
    with running([command, "--config", str(config), "--port", str(port)], cwd=folder, **settings) as process:
        until_ready(port, process, "/health/liveliness")
        yield port, process.pid


@contextmanager
def gateway(
    provider: int, folder: Path, *, name: str = "ours", tree: str = "", **settings: str
) -> Iterator[tuple[int, int]]:
    """Yield the port and the process of a gateway with all of it on; say how long it took to be ready."""
    port = free_port()
    flags = ["--upstream", f"http://127.0.0.1:{provider}", "--port", str(port), "--store", str(folder / name)]
    flags += ["--policy", "block-attacks", "--log-level", "warning"]
    more = {"PYTHONPATH": tree} if tree else {}
    with running([sys.executable, "-c", COMMAND, "gateway", *flags], **more, **settings) as process:
        took = until_ready(port, process)
        print(f"start to ready          {took:.2f} s ({name}; goal 2), {resident_mb(process.pid):.0f} MB")
        yield port, process.pid


def rivals(args: argparse.Namespace, provider: int, folder: Path, script: Path) -> dict[str, Figures]:
    """Measure those that are installed."""
    found: dict[str, Figures] = {}
    if shutil.which("nginx"):
        with nginx(provider, folder) as (port, pid):
            found["nginx proxy_pass"] = measured("nginx proxy_pass", port, pid, seconds=args.seconds, script=script)
    if shutil.which(args.litellm):
        try:
            with litellm(args.litellm, provider, folder) as (port, pid):
                found["LiteLLM"] = measured("LiteLLM with a guard", port, pid, seconds=args.seconds, script=script)
        except SystemExit as exc:
            print(f"LiteLLM with a guard    not measured: {exc} (is `litellm[proxy]` installed?)")
    return found


def in_turns(args: argparse.Namespace, servers: dict[str, tuple[int, int]], script: Path) -> Figures:
    """Measure the gateway, in turns with the other tree where one is named; return the median of ours."""
    rounds: dict[str, list[Figures]] = {name: [] for name in servers}
    for _ in range(args.rounds):
        for name, (port, pid) in servers.items():
            figures = measured(f"demur gateway, {name}", port, pid, seconds=args.seconds, script=script)
            rounds[name].append(figures)
    costs = {name: statistics.median(one.cpu_us for one in found) for name, found in rounds.items()}
    if len(costs) > 1:
        print(f"ours over the other     {costs['ours'] / costs['other']:.2f} of its CPU a request")
    return Figures(costs["ours"], statistics.median(one.rate for one in rounds["ours"]))


def beside(args: argparse.Namespace, provider: int, folder: Path, script: Path) -> None:
    """Print what other settings cost: every answer waits for its record, and two workers."""
    for name, settings in {
        "waiting": {"DEMUR_GATEWAY_STORE_DURABILITY": "sync"},
        "two workers": {"DEMUR_GATEWAY_LISTEN_WORKERS": "2"},
    }.items():
        with gateway(provider, folder, name=name, **settings) as (port, pid):
            measured(f"demur gateway, {name}", port, pid, seconds=args.seconds, script=script)


def soaked(port: int, pid: int, count: int, script: Path) -> None:
    """Print the memory of a worker while so many requests pass."""
    done, shown = 0, []
    while done < count:
        done += asked_for(port, 10, script)[0]
        shown.append(f"{done:,}: {resident_mb(pid):.0f}")
    kept = shown[:: max(1, len(shown) // 8)]
    print(f"memory (MB) after       {', '.join([*kept, shown[-1]])}")


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--soak", type=int, default=0, metavar="N", help="then so many requests more, for the memory")
    parser.add_argument("--litellm", default="litellm", metavar="COMMAND")
    parser.add_argument("--against", default="", metavar="SRC", help="the sources of another version, in turns")
    parser.add_argument("--provide", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.provide:
        asyncio.run(provide(args.provide))
    if not shutil.which("wrk"):
        raise SystemExit("this benchmark asks by wrk; install it first")
    provider = free_port()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        direct = stack.enter_context(running([sys.executable, __file__, "--provide", str(provider)]))
        (folder / "bodies").write_bytes(b"\n".join(request_bodies(REQUESTS)))
        script = folder / "ask.lua"
        script.write_text(LUA.format(file=folder / "bodies"), encoding="utf-8")
        until_open(provider)
        others = {"direct": measured("direct", provider, direct.pid, seconds=args.seconds, script=script)}
        others |= rivals(args, provider, folder, script)
        servers = {"ours": stack.enter_context(gateway(provider, folder))}
        if args.against:
            servers["other"] = stack.enter_context(gateway(provider, folder, name="other", tree=args.against))
        ours = in_turns(args, servers, script)
        for name, found in others.items():
            rates, costs = ours.rate / found.rate, ours.cpu_us / found.cpu_us
            print(f"ours to {name:<16}{rates:.3g} times the requests a second, {costs:.3g} times the CPU")
        print(f"goal 1000 µs            {ours.cpu_us / 1000:.2f} of it")
        first_tokens(provider, servers["ours"][0], 200)
        beside(args, provider, folder, script)
        if args.soak:
            soaked(*servers["ours"], args.soak, script)


if __name__ == "__main__":
    main()
