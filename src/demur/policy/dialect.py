"""How the gate's dialect becomes Cedar text: two annotation forms, and numbers with a point.

    @annotation("decision", "deny")      →  @decision("deny")
    context.claims.toxic_content > 0.8   →  context.claims.toxic_content > decimal("0.8")

Laws: strings and comments stay as they are; text that is Cedar already stays as it is, byte for byte; every offset of
the result leads back to the user's own text, so that errors point there. A Cedar decimal has one to four digits after
the point and lies within ±922337203685477.5807 (Cedar's own limits): anything else is refused here, since Cedar itself
would only find out while deciding.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from demur.policy.tokens import PolicySource, Token, TokenKind, tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["MAX_DECIMAL", "Translation", "translate"]

MAX_DECIMAL = Decimal("922337203685477.5807")
_DECIMAL = re.compile(r"-?\d+\.\d{1,4}", re.ASCII)
_FRACTION = re.compile(r"-?\d+\.(\d+)", re.ASCII)
_WHOLE = re.compile(r"\d+", re.ASCII)
_BEFORE_VALUE = frozenset({"if", "then", "else", "in", "has", "like", "is"})
_NEAR_DECIMAL = 'write it with one to four digits after the point, such as `0.8` or `decimal("0.8")`'


@dataclass(frozen=True, slots=True)
class _Edit:
    """A piece of the user's text and what stands in its place."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Translation:
    """Cedar text made from a user's, with the way back."""

    source: PolicySource
    text: str
    _starts: tuple[int, ...]
    _edits: tuple[_Edit, ...]

    def original(self, offset: int) -> int:
        """Return where in the user's text an offset of the Cedar text comes from; inside an edit, its beginning."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return offset
        edit, begin = self._edits[index], self._starts[index]
        if offset < begin + len(edit.text):
            return edit.start
        return edit.end + offset - begin - len(edit.text)


def translate(source: PolicySource) -> Translation:
    """Return the Cedar text of a source; raise `PolicyError` where a number or an annotation is not sound."""
    edits = tuple(_edits_of(source, tokens_of(source)))
    pieces: list[str] = []
    starts: list[int] = []
    done = length = 0
    for edit in edits:
        kept = source.text[done : edit.start]
        pieces += (kept, edit.text)
        starts.append(length + len(kept))
        length = starts[-1] + len(edit.text)
        done = edit.end
    pieces.append(source.text[done:])
    return Translation(source, "".join(pieces), tuple(starts), edits)


def _edits_of(source: PolicySource, tokens: Sequence[Token]) -> Iterator[_Edit]:
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.NUMBER:
            if not _WHOLE.fullmatch(token.text):
                yield _decimal_edit(source, tokens, index)
            elif _is_mark(tokens, index - 1, ".") and not _is_word(tokens, index - 2):
                raise source.error(f"`.{token.text}` is no number", at=token.start - 1, hint=f"write 0.{token.text}")
        elif token.text == "annotation" and _is_mark(tokens, index - 1, "@"):
            yield from _annotation(source, tokens, index)
        elif token.text == "decimal" and token.kind is TokenKind.WORD:
            _check_literal(source, tokens, index)


def _decimal_edit(source: PolicySource, tokens: Sequence[Token], index: int) -> _Edit:
    """Return the decimal for a number with a point; a sign that can only be its own goes inside."""
    token = tokens[index]
    signed = _is_mark(tokens, index - 1, "-") and not _ends_operand(tokens, index - 2)
    start = tokens[index - 1].start if signed else token.start
    literal = ("-" if signed else "") + token.text
    _check_decimal(source, literal, at=start)
    return _Edit(start, token.end, f'decimal("{literal}")')


def _check_decimal(source: PolicySource, literal: str, *, at: int) -> None:
    if fraction := _FRACTION.fullmatch(literal):
        if len(fraction.group(1)) > 4:  # noqa: PLR2004 — Cedar's limit, said in the message
            what = f"`{literal}` has {len(fraction.group(1))} digits after the point, and four are the most"
            raise source.error(what, at=at, hint="scores are rounded to four digits as well")
        if abs(Decimal(literal)) > MAX_DECIMAL:
            raise source.error(f"`{literal}` is too large", at=at, hint=f"the limits are ±{MAX_DECIMAL}")
    if not _DECIMAL.fullmatch(literal):
        raise source.error(f"`{literal}` is no number that a policy can hold", at=at, hint=_NEAR_DECIMAL)


def _check_literal(source: PolicySource, tokens: Sequence[Token], index: int) -> None:
    """Refuse `decimal("…")` with a text that Cedar would reject only while deciding."""
    called = _is_mark(tokens, index + 1, "(") and _is_mark(tokens, index + 3, ")")
    if called and tokens[index + 2].kind is TokenKind.STRING:
        _check_decimal(source, tokens[index + 2].text[1:-1], at=tokens[index + 2].start)


def _annotation(source: PolicySource, tokens: Sequence[Token], index: int) -> Iterator[_Edit]:
    """Yield the edit for `annotation("key", "value")`; Cedar's own one-string form is left alone."""
    shape = tokens[index + 1 : index + 6]
    if [t.text for t in shape[2:3]] != [","]:
        return
    key = shape[1].text[1:-1]
    sound = [t.kind for t in shape] == [
        TokenKind.MARK,
        TokenKind.STRING,
        TokenKind.MARK,
        TokenKind.STRING,
        TokenKind.MARK,
    ]
    if not sound or shape[0].text != "(" or shape[4].text != ")" or not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
        hint = 'write @annotation("decision", "deny") or @decision("deny")'
        raise source.error("an annotation of no known form", at=tokens[index].start, hint=hint)
    yield _Edit(tokens[index].start, shape[4].end, f"{key}({shape[3].text})")


def _is_mark(tokens: Sequence[Token], index: int, text: str) -> bool:
    return 0 <= index < len(tokens) and tokens[index].kind is TokenKind.MARK and tokens[index].text == text


def _is_word(tokens: Sequence[Token], index: int) -> bool:
    return index >= 0 and tokens[index].kind is TokenKind.WORD


def _ends_operand(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a value ends here, so that a minus after it subtracts."""
    if index < 0:
        return False
    token = tokens[index]
    if token.kind is TokenKind.MARK:
        return token.text in (")", "]", "}")
    return token.text not in _BEFORE_VALUE
