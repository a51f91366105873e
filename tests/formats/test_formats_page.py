"""The table of what was read of each format, on its page: made from the examples, and compared with them.

`DEMUR_WRITE_PAGES=1 pytest tests/formats/test_formats_page.py` writes it anew.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from tests.formats.every_example import EVERY_EXAMPLE, PACKAGES
from tests.formats.example import read_all

from demur.detect.check import classify
from demur.formats.registry import FORMATS
from demur.model.run import Traced

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
BEGIN, END = "<!-- read: begin -->\n", "<!-- read: end -->\n"


def made_table() -> str:
    """Return the table: how many exchanges the examples of each format hold, and what came of them."""
    lines = ["| `--format` | form of | rows | verdicts |", "|---|---|---|---|"]
    for name in FORMATS:
        records = [example.records for example in EVERY_EXAMPLE if example.format == name]
        rows = [row for each in records for row in read_all(name, each) if isinstance(row, Traced)]
        verdicts = Counter(str(classify(row.exchange.response).outcome) for row in rows)
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(verdicts.items()))
        lines.append(f"| `{name}` | {PACKAGES[name]} | {len(rows)} | {told} |")
    return "\n".join(lines) + "\n"


def test_the_page_says_what_the_examples_give() -> None:
    """Every format has a row with its package, its exchanges and their verdicts, as reading the examples gives them."""
    assert sorted(PACKAGES) == sorted(FORMATS)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    shown, _, after = rest.partition(END)
    table = made_table()
    if os.environ.get("DEMUR_WRITE_PAGES") == "1":
        PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")
        shown = table
    assert shown == table, "write it anew: DEMUR_WRITE_PAGES=1"


def test_every_format_is_on_the_page() -> None:
    """The first table says of every format what it is and what pairs its rows."""
    page = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    assert [name for name in FORMATS if f"\n| `{name}` | " not in page] == []
