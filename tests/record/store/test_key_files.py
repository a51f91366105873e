"""Keys on disk: made once, for their owner alone, replaced without a gap."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from demur.errors import DemurError
from demur.record.store.key_files import KeyFolder, read_private_key

FOREIGN = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
NOW, LATER = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def test_a_key_is_made_once_and_is_its_owners(tmp_path: Path) -> None:
    """The first use makes the key, mode 0600, listed with the start of its window; the second finds it."""
    keys = KeyFolder(tmp_path / "new")
    assert (keys.exists, keys.public()) == (False, ())
    first = keys.signer(NOW)
    assert keys.signer(LATER).public == first.public
    assert first.public.not_before == NOW
    assert keys.public() == (first.public,)
    assert stat.S_IMODE((tmp_path / "new" / "signing.pem").stat().st_mode) == 0o600
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["keys.json", "signing.pem"]


def test_two_who_start_at_once_share_one_key(tmp_path: Path) -> None:
    """Of several that make a key at once, one wins and all sign with it."""
    with ThreadPoolExecutor(8) as pool:
        ids = {f.result().public.key_id for f in [pool.submit(KeyFolder(tmp_path).signer, NOW) for _ in range(8)]}
    assert len(ids) == 1


def test_a_rotation_ends_one_window_and_begins_another(tmp_path: Path) -> None:
    """After a rotation both keys are listed, the old with its end, the new with its start, and only the new signs."""
    keys = KeyFolder(tmp_path)
    old = keys.signer(NOW).public
    prepared = keys.prepare_next(LATER).public
    assert keys.signer(LATER).public == old
    assert keys.prepare_next(LATER).public == prepared
    new = keys.renew(old.key_id, LATER)
    assert new.public == prepared
    assert keys.renew(old.key_id, LATER).public == prepared
    listed = keys.public()
    assert [(key.key_id, key.not_before, key.not_after) for key in listed] == [
        (old.key_id, NOW, LATER),
        (prepared.key_id, LATER, None),
    ]


def test_a_lost_list_is_made_again(tmp_path: Path) -> None:
    """A key without its list is listed again, without a window that nobody knows any more."""
    keys = KeyFolder(tmp_path)
    made = keys.signer(NOW).public
    keys.public_file.unlink()
    assert keys.signer(NOW).public.key_id == made.key_id
    assert [key.not_before for key in keys.public()] == [None]


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (None, 0o600, "no such file"),
        (b"noise", 0o600, "no private key in it"),
        (b"noise", 0o644, "others can read the key"),
        (FOREIGN, 0o600, "not an Ed25519 key"),
    ],
    ids=["missing", "broken", "readable", "foreign"],
)
def test_what_is_no_key_of_ours_is_refused(tmp_path: Path, content: bytes | None, mode: int, message: str) -> None:
    """A missing, broken, readable or foreign key is refused with the reason."""
    path = tmp_path / "signing.pem"
    if content is not None:
        path.write_bytes(content)
        os.chmod(path, mode)  # noqa: PTH101 — the mode is the subject
    with pytest.raises(DemurError, match=message):
        read_private_key(path)
