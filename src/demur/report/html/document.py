"""The frame of every page: one file that loads nothing and runs nothing.

Laws: the policy in its head lets a browser load nothing at all, and apply no style but the one inside, known by its digest.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from demur.report.html.style import STYLE
from demur.report.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["document"]


def document(title: str, parts: Iterable[str]) -> str:
    """Return a page of parts that are HTML already."""
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            *parts,
            "</body>\n</html>\n",
        ]
    )
