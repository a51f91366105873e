"""Which pieces a Cedar text is made of, and where each stands.

Laws: the pieces, with the white space and comments between them, are the text again; a string or a comment is one piece
whatever stands in it, so that nothing is ever rewritten inside one; a comment ends where Cedar ends it, at a line feed or
a carriage return and nowhere else. Cedar's parser works on the stack and takes the process with it when that is used up:
a text that nests or chains too far is refused before Cedar sees it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MOST_CHARS",
    "MOST_NESTING",
    "PolicySource",
    "Token",
    "TokenKind",
    "check_nesting",
    "policy_spans",
    "tokens_of",
]

MOST_CHARS = 1_000_000
"""Of one text: a thousand rules take a second or two to load, and a gateway loads again at every change."""
MOST_NESTING = 300
"""Brackets and links of a chain that are open at once, a bracket counting twice; Cedar itself takes 100 levels at most, and
needs 8 MiB of stack for about 650 brackets or 1,250 links."""

_PIECE = re.compile(
    r"""
    (?P<space>\s+|//[^\n\r]*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>\d[\w]*(?:\.\d[\w]*)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<mark>::|&&|\|\||==|!=|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENERS = frozenset("([{")
_CLOSERS = frozenset(")]}")
_JOINS = frozenset({"&&", "||", "+", "-", "*", "if"})
_CLAUSES = frozenset({"when", "unless"})


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
    if len(source.text) > MOST_CHARS:
        raise source.error(f"a text of more than {MOST_CHARS:,} characters", at=0, hint="split it into several files")
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


@dataclass(slots=True)
class _Level:
    """What is open within one bracket: operators joined so far, and steps (`.a`, `[…]`, `(…)`) since the last of them."""

    joins: int = 0
    steps: int = 0

    @property
    def open(self) -> int:
        return self.joins + self.steps


def check_nesting(source: PolicySource, tokens: Sequence[Token]) -> None:
    """Raise `PolicyError` at the piece where a text nests or chains further than Cedar's stack is trusted with."""
    levels = [_Level()]
    outer = 0
    for token in tokens:
        top = levels[-1]
        if token.kind is TokenKind.MARK and token.text in _OPENERS:
            top.steps += 1
            outer += top.open + 1
            levels.append(_Level())
        elif token.kind is TokenKind.MARK and token.text in _CLOSERS:
            if len(levels) > 1:
                levels.pop()
                outer -= levels[-1].open + 1
        else:
            _count_links(top, token)
        if outer + levels[-1].open > MOST_NESTING:
            raise source.error("an expression that is nested or chained too far", at=token.start, hint="split the rule")


def _count_links(level: _Level, token: Token) -> None:
    """Count a piece that opens and closes nothing."""
    if token.kind is TokenKind.MARK and token.text == ".":
        level.steps += 1
    elif token.text in _JOINS and token.kind is not TokenKind.STRING:
        level.joins += 1
        level.steps = 0
    elif token.text in (",", ";") and token.kind is TokenKind.MARK:
        level.joins = level.steps = 0
    elif token.kind is TokenKind.MARK or token.text in _CLAUSES:
        level.steps = 0
