"""Auditors that were written for Lucid's kit, run as they are."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.plain_http import knock

from demur import auditing
from demur.http.serve import listening_socket
from demur.plugins.lucid import SDK_NAME, install

# The form of Lucid's own example: its import line, two async methods, claims that may be null, and no port.
AUDITOR = """
from lucid_auditor_sdk import ClaimsAuditor, claims, Phase, serve

ATTACKS = ["ignore previous instructions", "jailbreak"]
DECLINES = ["i cannot", "i apologize"]

class Checker(ClaimsAuditor):
    auditor_id = "safety-checker"
    version = "0.1.0"

    @claims(phase=Phase.REQUEST)
    async def check_prompt(self, request):
        found = [each for each in ATTACKS if each in request.get("prompt", "").lower()]
        return {
            "toxic_content": min(len(found) * 0.45, 1.0),
            "refusal_category": found[0] if found else None,
            "safety_flagged": len(found) > 0,
        }

    @claims(phase=Phase.RESPONSE)
    async def check_response(self, response):
        found = [each for each in DECLINES if each in response.get("content", "").lower()]
        return {"model_refused": len(found) > 0, "refusal_phrase": found[0] if found else None}

serve(Checker())
"""


def asked(url: str, phase: str, **data: str) -> dict[str, object]:
    answer = json.loads(knock(url, "/claims", {"phase": phase, "data": data}).body)
    return {claim["name"]: claim["value"] for claim in answer["claims"]}


@pytest.mark.heavy
def test_a_file_written_for_lucid_serves_at_the_port_of_its_chain(tmp_path: Path) -> None:
    """It runs unchanged, listens where auditors.yaml has it, and states null where it has nothing to state."""
    with listening_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    chain = f"chain:\n  - name: safety-checker\n    image: 'lucid/safety-refusals:v1'\n    port: {port}\n"
    (tmp_path / "auditors.yaml").write_text(chain, encoding="utf-8")
    (tmp_path / "checker.py").write_text(AUDITOR, encoding="utf-8")
    command = [sys.executable, "-m", "demur.plugins.lucid", "checker.py"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:  # noqa: S603 — our own interpreter
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split()[-1]
            assert url == f"http://127.0.0.1:{port}"
            attacked = asked(url, "request", input="Jailbreak!")
            assert attacked == {"toxic_content": 0.45, "refusal_category": "jailbreak", "safety_flagged": True}
            harmless = asked(url, "request", input="Hello")
            assert harmless == {"toxic_content": 0.0, "refusal_category": None, "safety_flagged": False}
            assert asked(url, "response", output="Sure.") == {"model_refused": False, "refusal_phrase": None}
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_the_name_is_registered_once_and_holds_the_kit() -> None:
    """The kit's names are there under Lucid's, all that its example imports among them, and installing again changes nothing."""
    module = install()
    assert install() is module is sys.modules[SDK_NAME]
    assert {"ClaimsAuditor", "claims", "Phase", "serve"} <= set(module.__all__) <= set(auditing.__all__)
    assert all(getattr(module, name) is getattr(auditing, name) for name in module.__all__)


def test_nothing_is_registered_unasked() -> None:
    """Importing Demur's kit alone leaves Lucid's name free."""
    code = "import sys, demur.auditing; print('lucid_auditor_sdk' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 — our own interpreter
    assert done.stdout.strip() == "False"


def test_the_real_package_is_left_alone(tmp_path: Path) -> None:
    """Where a package of that name is installed, it is what is imported."""
    (tmp_path / "lucid_auditor_sdk.py").write_text("REAL = True", encoding="utf-8")
    code = "import demur.plugins.lucid, lucid_auditor_sdk; print(lucid_auditor_sdk.REAL)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)  # noqa: S603 — our own interpreter
    assert done.stdout.strip() == "True"


def test_without_a_file_it_says_how_it_is_called() -> None:
    """A call without a file ends with its usage, not with a traceback."""
    done = subprocess.run([sys.executable, "-m", "demur.plugins.lucid"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: python -m demur.plugins.lucid FILE\n")
