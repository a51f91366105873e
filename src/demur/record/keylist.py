"""How does a log's owner publish its keys? As a JSON list, each with its window, one line a key.

Laws: what is read equals what was written; a key whose id is not its own, or whose window cannot be read, is refused; an empty
list is an error, for it would trust nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from demur.errors import EmptyInputError, ShapeError
from demur.model.passport import PublicKey
from demur.record.keys import KeyRing
from demur.record.predicate import KeyForm

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["key_form", "public_key_of", "read_keys", "write_keys"]


def key_form(key: PublicKey) -> KeyForm:
    """Return the key as it is written."""
    return KeyForm(key.key_id, key.ed25519, key.not_before, key.not_after)


def public_key_of(form: KeyForm) -> PublicKey:
    """Return the key that was written."""
    return PublicKey(form.key_id, form.ed25519, form.not_before, form.not_after)


def write_keys(keys: Sequence[PublicKey]) -> bytes:
    """Return the list as JSON."""
    lines = (msgspec.json.encode(key_form(key)) for key in keys)
    return b"[\n" + b",\n".join(lines) + b"\n]\n"


def read_keys(data: bytes) -> tuple[PublicKey, ...]:
    """Return the keys of a list, in its order."""
    try:
        forms = msgspec.json.decode(data, type=tuple[KeyForm, ...])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise ShapeError(f"no list of keys ({str(exc).lower()})", hint="expected a JSON list of public keys") from exc
    if not forms:
        raise EmptyInputError("no keys in the list", hint="a reader has to trust at least one")
    return KeyRing(public_key_of(form) for form in forms).known
