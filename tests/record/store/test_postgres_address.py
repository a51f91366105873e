"""An address can be shown without giving its password away."""

from __future__ import annotations

import pytest

from demur.record.store.location import log_place
from demur.record.store.postgres_address import without_password


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:secret@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:sec/ret@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:sec:ret@host/db", "postgresql://u:***@host/db"),
        (
            "postgresql:///db?user=u&password=secret&sslmode=require",
            "postgresql:///db?user=u&password=***&sslmode=require",
        ),
        ("postgresql://host/db?PASSWORD=secret", "postgresql://host/db?PASSWORD=***"),
        ("postgresql://u@host/db", "postgresql://u@host/db"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("passports/log.db", "passports/log.db"),
    ],
)
def test_a_password_becomes_stars(address: str, shown: str) -> None:
    """Wherever the password stands, stars stand for it, and so for the place of a log; everything else stays."""
    assert without_password(address) == shown
    assert "://u" not in address or log_place(address).shown == shown
