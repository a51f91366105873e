"""The auditor's kit: what a user imports, and the class of the kind that users bring along."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from demur import auditing
from demur.audit.chains import open_chain
from demur.audit.config import parse_chain
from demur.audit.server import read_input
from demur.model.claim import Phase

BROUGHT_ALONG = """
from demur.auditing import ClaimsAuditor, claims, Phase, serve

WORDS = ["jailbreak", "system prompt"]

class Brought(ClaimsAuditor):
    auditor_id = "brought"
    version = "0.1.0"

    @claims(phase=Phase.REQUEST)
    async def asked(self, request):
        found = [word for word in WORDS if word in request.get("prompt", "").lower()]
        return {"toxic_content": min(len(found) * 0.45, 1.0), "refusal_category": found[0] if found else None}

    @claims(phase=Phase.RESPONSE)
    async def answered(self, response):
        return {"model_refused": "i cannot" in response.get("content", "").lower()}

serve(Brought(), port=PORT)
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "brought.py"
    path.write_text(BROUGHT_ALONG.replace("PORT", "0"))
    return path


def test_the_kit_is_this() -> None:
    """The names that users import are pinned."""
    assert sorted(auditing.__all__) == ["Claim", "ClaimType", "ClaimsAuditor", "Phase", "claims", "open_chain", "serve"]


def test_a_claim_is_a_value() -> None:
    """Whoever states a claim names its fields or gives them in order; it equals its like, tells what it holds, and never changes."""
    fields = ("name", "type", "value", "phase", "auditor", "confidence", "sensitive")
    values = ("risk", auditing.ClaimType.SCORE_NORMALIZED, 0.5, Phase.REQUEST, "mine", 0.9, True)
    told, named = auditing.Claim(*values), auditing.Claim(**dict(zip(fields, values, strict=True)))  # type: ignore[arg-type]  # in order
    assert (named, hash(named)) == (told, hash(told))
    assert {named} == {told}
    assert repr(told).startswith("Claim(name='risk', type=<ClaimType.SCORE_NORMALIZED: 'score_normalized'>, value=0.5,")
    match told:
        case auditing.Claim("risk", _, value, confidence=sure):
            assert (value, sure) == (0.5, 0.9)
        case _:
            pytest.fail("no match")
    with pytest.raises(AttributeError):
        told.value = 0.1  # type: ignore[misc]  # what must not work
    with pytest.raises(TypeError):
        auditing.Claim("risk")  # type: ignore[call-arg]  # as above


def test_importing_the_kit_loads_no_server() -> None:
    """A class can be written and tested where neither uvicorn nor httptools is installed."""
    code = "import sys, demur.auditing; print([m for m in ('uvicorn', 'httptools', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 — our own interpreter
    assert done.stdout.strip() == "[]"


def test_a_class_that_was_brought_along_runs_in_the_process(module: Path) -> None:
    """A module that ends in `serve(…)` is imported for its class without serving, and its methods are asked."""

    async def go() -> list[dict[str, object]]:
        chain = open_chain(parse_chain(f"chain: [{{name: brought, python: '{module}:Brought'}}]"))
        subjects = (
            read_input(Phase.REQUEST, {"input": "Jailbreak!"}),
            read_input(Phase.REQUEST, {"input": "hello"}),
            read_input(Phase.RESPONSE, {"output": {"content": None, "refusal": "I cannot"}}),
        )
        return [{c.name: c.value for c in (await chain.audit(subject)).claims} for subject in subjects]

    assert asyncio.run(go()) == [
        {"toxic_content": 0.45, "refusal_category": "jailbreak"},
        {"toxic_content": 0.0},
        {"model_refused": False},
    ]


def test_a_class_that_was_brought_along_is_served(module: Path) -> None:
    """The same module run as a script serves, says where, and ends in good order when told to."""
    with subprocess.Popen([sys.executable, str(module)], stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 — our own interpreter
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split()[-1]

            async def go() -> object:
                body = {"data": {"input": "jailbreak"}, "phase": "request"}
                async with aiohttp.ClientSession() as session, session.post(f"{url}/claims", json=body) as got:
                    return [claim["value"] for claim in (await got.json())["claims"]]

            assert asyncio.run(go()) == [0.45, "jailbreak"]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_chain_is_opened_from_its_file(tmp_path: Path) -> None:
    """The door to a chain takes the path of its file."""
    path = tmp_path / "auditors.yaml"
    path.write_text("chain: [{name: a, python: safety-checker}]")
    assert [link.name for link in auditing.open_chain(str(path)).links] == ["a"]
