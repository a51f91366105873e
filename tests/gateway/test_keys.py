"""The clients' keys: who asks, without any key on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import DemurError, EmptyInputError, ShapeError, UsageError
from demur.gateway.keys import ClientKeys, hash_key, new_client_key, parse_client_keys, presented_key, read_client_keys

KEY = "demur_0123456789abcdefghij"


def ring(*rows: str) -> ClientKeys:
    return parse_client_keys("\n".join(rows), source="keys.toml")


def row(name: str, key: str, more: str = "") -> str:
    return f'[[key]]\nname = "{name}"\nhash = "{hash_key(key)}"\n{more}\n'


TWICE = f'[[key]]\nname = "a"\nhash = "{hash_key(KEY, bytes(16))}"\n'


def test_a_key_leads_to_its_client() -> None:
    """The key that was hashed finds its name and labels, the first time and the next; no other key finds any, nor one that is disabled."""
    keys = ring(row("a", KEY, 'labels = ["team:a"]'), row("b", KEY + "b"), row("c", KEY + "c", "disabled = true"))
    for _ in range(2):
        found = keys.find(KEY)
        assert found is not None
        assert (found.name, found.labels) == ("a", ("team:a",))
    assert keys.names == ("a", "b", "c")
    assert [keys.find(shown) for shown in (None, "", KEY[:-1], KEY + "c", "x" * 5000, KEY.upper())] == [None] * 6


@given(st.text(min_size=0, max_size=40))
def test_only_the_key_itself_is_accepted(shown: str) -> None:
    """Whatever else is shown, even what no client could send, finds nobody and raises nothing."""
    assert (RING.find(shown) is not None) == (shown == KEY)


RING = ring(row("a", KEY))


def test_the_hash_is_salted_sha256() -> None:
    """A hash is that of the salt and then the key, and no salt is used twice."""
    # (head -c 16 /dev/zero; printf demur_0123456789abcdefghij) | sha256sum
    expected = "647c6e2cad36e03ebe0b67f958687f8918bc7154dac38578fad7f725e88bac2d"
    assert hash_key(KEY, bytes(16)) == f"sha256:{'00' * 16}:{expected}"
    assert hash_key(KEY) != hash_key(KEY)


def test_new_keys_are_long_and_never_the_same() -> None:
    """A new key can be hashed, and is not the one before."""
    made = {new_client_key() for _ in range(50)}
    assert len(made) == 50
    assert all(hash_key(key) for key in made)


@pytest.mark.parametrize("key", ["", "short", " " + KEY])
def test_a_key_that_could_be_guessed_is_not_hashed(key: str) -> None:
    """A short key would be found from its hash."""
    with pytest.raises(UsageError):
        hash_key(key)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", EmptyInputError),
        ("[[key]]\n", ShapeError),
        (f'[[key]]\nname = "a"\nhash = "{KEY}"\n', ShapeError),
        (f'[[key]]\nname = "a"\nkey = "{KEY}"\n', ShapeError),
        (f'[[key]]\nname = "{KEY} x"\nhash = "{hash_key(KEY)}"\n', ShapeError),
        (f"[[key]]\nname = {KEY}\n", ShapeError),
        (row("a", KEY) + row("a", KEY + "x"), UsageError),
        (TWICE + TWICE.replace('"a"', '"b"'), UsageError),
    ],
    ids=["empty", "no fields", "key as hash", "key", "name", "no TOML", "one name twice", "one hash twice"],
)
def test_a_file_that_is_not_sound_is_refused_without_repeating_it(text: str, kind: type[DemurError]) -> None:
    """One key has one owner; what is wrong is said, and a key that was written by mistake is not in the message."""
    with pytest.raises(kind) as caught:
        ring(text)
    assert KEY not in str(caught.value)


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    """The file on disk finds the same client."""
    (tmp_path / "keys.toml").write_text(row("a", KEY))
    assert read_client_keys(str(tmp_path / "keys.toml")).find(KEY) is not None


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        (((b"authorization", b"Bearer  k1 "),), "k1"),
        (((b"authorization", b"bearer k1"),), "k1"),
        (((b"x-api-key", b"k1"),), "k1"),
        (((b"api-key", b"k1"),), "k1"),
        (((b"authorization", b"Basic k1"),), None),
        (((b"x-api-key", b" "),), None),
        ((), None),
    ],
)
def test_the_key_is_where_clients_put_it(headers: tuple[tuple[bytes, bytes], ...], shown: str | None) -> None:
    """OpenAI's, Anthropic's and Azure's headers are read; another kind of authorisation is no key."""
    assert presented_key(headers) == shown
