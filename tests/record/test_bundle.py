"""One passport, shown to somebody who has none of our code."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.record.logs import ORIGIN, Log, busy_log, signer

from demur.errors import ShapeError, UsageError
from demur.model.passport import FaultKind
from demur.record.verify import check_bundle, prove, read_bundle

SCRIPT = Path(__file__).parents[2] / "examples" / "verify_passport.py"
KEY = signer().public


def bundle_of(log: Log, index: int = 4) -> bytes:
    return prove(log.envelopes[index], index, checkpoint=log.checkpoint(), node=log.tree.node, keys=[KEY])


def script(path: Path, *keys: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, path, *keys], capture_output=True, text=True, check=False)  # noqa: S603 — our own example
    return done.returncode, done.stdout + done.stderr


def flipped(envelope: str) -> str:
    raw = bytearray(b64decode(envelope))
    raw[200] ^= 1
    return b64encode(raw).decode()


STRANGER = signer(2).public
SPOILERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "flipped bit": lambda form: {"envelope": flipped(form["envelope"])},
    "other index": lambda _: {"index": 3},
    "index beyond": lambda _: {"index": 6},
    "short proof": lambda form: {"proof": form["proof"][:-1]},
    "other size": lambda form: {"checkpoint": form["checkpoint"].replace("\n6\n", "\n7\n")},
    "respaced": lambda form: {"envelope": b64encode(b64decode(form["envelope"]) + b" ").decode()},
    "other key": lambda _: {"keys": [{"key_id": STRANGER.key_id, "ed25519": STRANGER.ed25519}]},
}


def spoiled(how: str) -> bytes:
    form = json.loads(bundle_of(busy_log()))
    return json.dumps(form | SPOILERS[how](form)).encode()


def test_a_bundle_verifies_here() -> None:
    """A record under a signed checkpoint is accepted by who trusts its key, and by nobody else."""
    bundle = read_bundle(bundle_of(busy_log()))
    assert check_bundle(bundle, [KEY], origin=ORIGIN) is None
    wrong_key = check_bundle(bundle, [signer(2).public], origin=ORIGIN)
    wrong_log = check_bundle(bundle, [KEY], origin="elsewhere.example/log")
    assert wrong_key is not None
    assert wrong_key.kind is FaultKind.UNKNOWN_KEY
    assert wrong_log is not None
    assert wrong_log.kind is FaultKind.BAD_CHECKPOINT


@pytest.mark.heavy
@pytest.mark.parametrize("index", range(6))
def test_a_good_bundle_verifies_anywhere(tmp_path: Path, index: int) -> None:
    """The example accepts what we prove, with only a common library, and prints the record."""
    path = tmp_path / "bundle.json"
    path.write_bytes(bundle_of(busy_log(), index))
    code, said = script(path, KEY.ed25519)
    assert (code, f"verified: record {index} of 6" in said, '"session":' in said) == (0, True, True)


def test_without_a_key_of_your_own_you_are_told(tmp_path: Path) -> None:
    """The bundle's own keys do not vouch for it: the example says which to compare."""
    path = tmp_path / "bundle.json"
    path.write_bytes(bundle_of(busy_log()))
    assert f"compare the keys: {KEY.ed25519}" in script(path)[1]
    assert script(path, signer(2).public.ed25519)[0] == 1


@pytest.mark.heavy
@pytest.mark.parametrize("how", SPOILERS)
def test_a_spoiled_bundle_is_refused_everywhere(tmp_path: Path, how: str) -> None:
    """Whatever is changed in a bundle, the example refuses it, and so do we, who take no key from the bundle itself."""
    path = tmp_path / "bundle.json"
    path.write_bytes(spoiled(how))
    code, said = script(path)
    assert (code, said.startswith("NOT VERIFIED")) == (1, True)
    try:
        fault = check_bundle(read_bundle(spoiled(how)), [KEY], origin=ORIGIN)
    except ShapeError:
        return
    assert (fault is None) == (how == "other key")


def test_nothing_false_is_proved() -> None:
    """A record of another log, or one after the checkpoint, gets no bundle."""
    log = busy_log()
    note = log.checkpoint()
    log.exchange("a")
    with pytest.raises(UsageError, match="leaf 6 is not in a tree of 6"):
        prove(log.envelopes[6], 6, checkpoint=note, node=log.tree.node, keys=[KEY])
    with pytest.raises(UsageError, match="not under this checkpoint"):
        prove(log.envelopes[5], 4, checkpoint=note, node=log.tree.node, keys=[KEY])


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"format":"urn:demur:bundle:v1"}'])
def test_what_is_no_bundle(data: bytes) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ShapeError, match="no bundle"):
        read_bundle(data)


def test_a_bundle_of_another_format() -> None:
    """A later format is not read as this one."""
    with pytest.raises(ShapeError, match="bundle:v2"):
        read_bundle(bundle_of(busy_log()).replace(b"bundle:v1", b"bundle:v2"))
