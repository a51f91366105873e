"""Which pieces a Cedar text is made of, and where each stands.

Laws: the pieces, with the white space and comments between them, are the text again; a string or a comment is one piece
whatever stands in it, so that nothing is ever rewritten inside one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PolicySource", "Token", "TokenKind", "policy_spans", "tokens_of"]

_PIECE = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>\d[\w]*(?:\.\d[\w]*)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<mark>::|&&|\|\||==|!=|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENERS = frozenset("([{")
_CLOSERS = frozenset(")]}")


class TokenKind(StrEnum):
    """What a piece is."""

    STRING = "string"
    NUMBER = "number"
    WORD = "word"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text, from `start` up to `end`."""

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where the next piece may begin."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class PolicySource:
    """A policy text and the name under which errors speak of it."""

    name: str
    text: str

    def line_of(self, offset: int) -> int:
        """Return the line of an offset, from 1 on."""
        return self.text.count("\n", 0, offset) + 1

    def error(self, what: str, *, at: int, hint: str | None = None) -> PolicyError:
        """Return an error that points at an offset of the user's text."""
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return PolicyError(what, source=self.name, line=self.line_of(at), column=column, hint=hint)


def tokens_of(source: PolicySource) -> tuple[Token, ...]:
    """Return the pieces of a text without white space and comments; raise where a string does not end."""
    found = []
    for match in _PIECE.finditer(source.text):
        kind = match.lastgroup
        if kind == "space":
            continue
        if match.group() == '"':
            raise source.error("a string that does not end", at=match.start(), hint='close it with "')
        if match.group() == "'":
            raise source.error("a single quote", at=match.start(), hint='strings stand in double quotes: "text"')
        found.append(Token(TokenKind(str(kind)), match.group(), match.start()))
    return tuple(found)


def policy_spans(tokens: Sequence[Token]) -> list[tuple[Token, ...]]:
    """Return the tokens policy by policy: one ends at a `;` outside every bracket, the last wherever the text does."""
    spans: list[tuple[Token, ...]] = []
    begin = depth = 0
    for index, token in enumerate(tokens):
        if token.kind is not TokenKind.MARK:
            continue
        if token.text in _OPENERS:
            depth += 1
        elif token.text in _CLOSERS:
            depth = max(0, depth - 1)
        elif token.text == ";" and depth == 0:
            spans.append(tuple(tokens[begin : index + 1]))
            begin = index + 1
    if begin < len(tokens):
        spans.append(tuple(tokens[begin:]))
    return spans
