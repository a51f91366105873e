"""The how-to pages, done: their files written, their commands run in one shell, what they show looked for in what is printed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.contracts.doc_pages import ROOT, blocks_of

pytestmark = pytest.mark.heavy

HOW_TO = sorted((ROOT / "docs").glob("howto_*.md"))
PORT = re.compile(r"\b80[89]\d\b")
DEADLINE_S = 400


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def script_of(page: Path) -> str:
    """Return all commands of a page as one script, its ports moved to free ones so that nothing else is in the way."""
    script = "\n".join(block.text for block in blocks_of(page, languages=("sh",)))
    shown = sorted(set(PORT.findall(script)))
    moved = dict(zip(shown, map(str, free_ports(len(shown))), strict=True))
    return PORT.sub(lambda port: moved[port[0]], script)


def write_files(page: Path, folder: Path) -> None:
    """Write the page's named blocks, and put the examples beside them."""
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in blocks_of(page):
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


def run_script(script: str, folder: Path) -> tuple[int, str]:
    """Return the exit code of a script and what it printed; what it left running is ended with it."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    if sys.platform == "win32":
        pytest.skip("needs bash and process groups")
    # Into a file: a server that is still up would hold a pipe open beyond the end of the script.
    with (folder / "printed.txt").open("w", encoding="utf-8") as printed:
        shell = subprocess.Popen(  # noqa: S603 — the project's own pages
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(DEADLINE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    return code, (folder / "printed.txt").read_text(encoding="utf-8")


def missing_lines(page: Path, printed: str) -> list[str]:
    """Return the lines that a page shows and that were not printed; an ellipsis stands for what differs each time."""
    shown = [line.strip() for block in blocks_of(page, languages=("text",)) for line in block.text.splitlines()]
    patterns = {line: ".*".join(map(re.escape, line.split("…"))) for line in shown if line}
    return [line for line, pattern in patterns.items() if not re.search(pattern, printed)]


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_can_be_followed(page: Path, tmp_path: Path) -> None:
    """Every command of a how-to page succeeds in the order of the page, and prints what the page shows."""
    write_files(page, tmp_path)
    code, printed = run_script(script_of(page), tmp_path)
    assert code == 0, printed
    assert missing_lines(page, printed) == [], printed
