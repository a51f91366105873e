"""Keys count within their window, until a rotation, and under their own id."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.record.logs import signer

from demur.errors import EmptyInputError, ShapeError
from demur.model.passport import FaultKind
from demur.record.keys import Ed25519Signer, KeyRing, key_id_of, read_keys, write_keys

AT = "2026-01-02T00:00:00Z"


def refusal(ring: KeyRing, key: Ed25519Signer, *, at: str = AT) -> FaultKind | None:
    return ring.fault(key.public.key_id, signature=key.sign(b"data"), data=b"data", at=at)


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("2025-12-31T23:59:54.999999Z", FaultKind.KEY_NOT_VALID),
        ("2025-12-31T23:59:55Z", None),
        ("2026-01-01T00:00:00Z", None),
        ("2026-01-31T00:00:00Z", None),
        ("2026-01-31T00:00:05Z", None),
        ("2026-01-31T00:00:05.000001Z", FaultKind.KEY_NOT_VALID),
    ],
)
def test_a_key_counts_within_its_window(at: str, why: FaultKind | None) -> None:
    """Both ends of the window belong to it and what clocks may differ by, nothing beyond does; without slack the ends alone."""
    private = Ed25519PrivateKey.from_private_bytes(bytes(32))
    key = Ed25519Signer(private, not_before="2026-01-01T00:00:00Z", not_after="2026-01-31T00:00:00Z")
    assert refusal(KeyRing([key.public]), key, at=at) is why
    exact = None if "2026-01-01" <= at <= "2026-01-31T00:00:00Z" else FaultKind.KEY_NOT_VALID
    assert refusal(KeyRing([key.public], slack_s=0.0), key, at=at) is exact


def test_a_rotation_retires_one_key_and_trusts_another() -> None:
    """After it the old key's signatures no longer count, the new one's do, and the old one cannot be added again."""
    ring = KeyRing([signer(1).public])
    assert refusal(ring, signer(2)) is FaultKind.UNKNOWN_KEY
    ring.rotate(signer(1).public.key_id, signer(2).public)
    ring.add(signer(1).public)
    assert (refusal(ring, signer(1)), refusal(ring, signer(2))) == (FaultKind.KEY_NOT_VALID, None)
    assert ring.current == (signer(2).public,)
    assert ring.known == (signer(1).public, signer(2).public)


def test_a_wrong_signature_is_told_from_a_wrong_key() -> None:
    """Data signed by a known key and then changed is a bad signature; a signature of odd length is one too."""
    ring, key = KeyRing([signer().public]), signer().public.key_id
    for signature in (signer().sign(b"other"), b"", bytes(64)):
        assert ring.fault(key, signature=signature, data=b"data", at=AT) is FaultKind.BAD_SIGNATURE


def test_a_key_cannot_choose_its_id() -> None:
    """A list that gives a key another's id, half a key or no hex is refused."""
    key = signer().public
    assert key.key_id == key_id_of(bytes.fromhex(key.ed25519))
    for wrong in (replace(key, key_id=signer(2).public.key_id), replace(key, ed25519=key.ed25519[:32])):
        with pytest.raises(ShapeError, match="does not bear its own id"):
            KeyRing([wrong])
    with pytest.raises(ShapeError, match="not in hex"):
        KeyRing([replace(key, ed25519="zz")])


def test_a_list_of_keys_comes_back() -> None:
    """What is published is read as it was, windows and order included."""
    keys = (replace(signer(2).public, not_before=AT), replace(signer(1).public, not_after=AT))
    assert read_keys(write_keys(keys)) == keys


def test_what_is_no_list_of_keys() -> None:
    """Nothing, something else, and a key under a false id or window are refused."""
    with pytest.raises(EmptyInputError, match="no keys"):
        read_keys(write_keys(()))
    with pytest.raises(ShapeError, match="no list of keys"):
        read_keys(b"{}")
    for wrong in (replace(signer().public, key_id="0" * 32), replace(signer().public, not_after="soon")):
        with pytest.raises(ShapeError):
            read_keys(write_keys([wrong]))
