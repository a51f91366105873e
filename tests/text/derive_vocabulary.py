"""Derive the vocabulary from the pack for prompts: `python tests/text/derive_vocabulary.py > src/demur/text/vocabulary.json`.

Only words that some phrase of the pack holds can make a difference to a verdict, so that no others need be known.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from importlib import resources

SHORT = frozenset(re.findall(r"\w+", "a i am an as at be by do go he if in is it me my no of on or so to up us we"))
_WORD = re.compile(r"[a-z]+")


def pack_words() -> list[str]:
    """Return the plain words of the pack's phrases in order; of those with one or two letters only English ones."""
    groups = json.loads(resources.files("demur.detect.packs").joinpath("prompts.json").read_bytes())["groups"]
    tokens = {token for phrases in groups.values() for phrase in phrases for token in re.split(r"[\s-]+", phrase)}
    return sorted(SHORT | {token for token in tokens if len(token) > 2 and _WORD.fullmatch(token)})


if __name__ == "__main__":
    sys.stdout.write(textwrap.fill(json.dumps(pack_words()), width=120, subsequent_indent=" ") + "\n")
