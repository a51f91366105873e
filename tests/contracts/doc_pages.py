"""The pages and what stands on them in fences."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r'^( *)```(\w*)(?: title="([^"]+)")?\n(.*?)^\1```$', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """What stands in one fence: on which page and line, in which language, and as which file, where it is named as one."""

    page: str
    line: int
    language: str
    title: str | None
    text: str

    def __str__(self) -> str:
        """Where it stands, for the names of tests."""
        return f"{self.page}:{self.line}"


def blocks_of(*pages: Path, languages: tuple[str, ...] = ()) -> list[Block]:
    """Return the fences of pages in their order, of all languages or of these."""
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for fence in _FENCE.finditer(text):
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Block(page.name, line, fence[2], fence[3], textwrap.dedent(fence[4])))
    return [block for block in found if not languages or block.language in languages]
