"""The shipped tables against this Python's Unicode data."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from demur.text.tables import confusables, pattern, replacements, table

spec = importlib.util.spec_from_file_location("derive_tables", Path(__file__).with_name("derive_tables.py"))
assert spec is not None
assert spec.loader is not None
derive_tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(derive_tables)

SHIPPED = json.loads((derive_tables.PACKAGE / "tables.json").read_text(encoding="utf-8"))


@pytest.mark.skipif(unicodedata.unidata_version != SHIPPED["unicode"], reason="tables are of another Unicode version")
def test_tables_are_what_their_laws_derive() -> None:
    """The shipped tables are exactly those that the predicates derive."""
    assert derive_tables.derive() == SHIPPED


def test_plain_characters_fold_one_to_one() -> None:
    """Whatever the running Python knows, a character outside the irregular ones folds to one stable character."""
    irregular = pattern("[<irregular>]")
    for code in range(0x10000):
        char = chr(code)
        if not irregular.match(char):
            folded = char.casefold()
            assert len(folded) == 1
            assert unicodedata.normalize("NFKC", char) == char
            assert unicodedata.normalize("NFKC", folded) == folded


def test_confusables_are_folded_letters() -> None:
    """A look-alike is stable under folding and becomes one Latin letter."""
    assert confusables()
    for char, latin in confusables().items():
        assert unicodedata.normalize("NFKC", char).casefold() == char
        assert re.fullmatch("[a-z]", latin)


def test_replacements_are_ascii_or_the_replacement_character() -> None:
    """What replaces a character is never replaced in turn."""
    assert all(
        new is None or new == "\ufffd" or ord(new) not in replacements() or new == " "
        for new in replacements().values()
    )
    assert table("space").startswith("\\U00000009")
    assert sys.maxunicode not in replacements()
