"""Cedar: the dialect that users write and its translation, parsing with places, and the engine that evaluates requests.

Every offset of a translated text leads back to the user's own text, so that errors point there.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from math import isqrt
from typing import TYPE_CHECKING

import cedarpy
import msgspec
from cedarpy import pst

from demur.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


__all__ = [
    "MAX_CHARS",
    "MAX_DECIMAL",
    "MAX_NESTING",
    "Answer",
    "CedarRequest",
    "ParsedPolicy",
    "PolicySource",
    "RuleEngine",
    "Token",
    "TokenKind",
    "Translation",
    "cedar_text",
    "check_nesting",
    "parse_policies",
    "policy_spans",
    "tokens_of",
    "translate",
    "validate",
]

# Of one text: a thousand rules take a second or two to load, and a gateway loads again at every change.
MAX_CHARS = 1_000_000
# Brackets and links of a chain that are open at once, a bracket counting twice. Cedar's parser recurses and takes the
# process with it when the stack is used up, so this is checked before Cedar sees the text: Cedar takes 100 levels at most,
# and needs 8 MiB of stack for about 650 brackets or 1,250 links.
MAX_NESTING = 300

# A string or a comment is one piece, so that nothing is ever rewritten inside one; a comment ends where Cedar ends it, at a
# line feed or a carriage return and nowhere else.
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
    """A policy text and its name in error messages."""

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
    if len(source.text) > MAX_CHARS:
        raise source.error(f"a text of more than {MAX_CHARS:,} characters", at=0, hint="split it into several files")
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
    """What is open inside one bracket: operators joined so far, and steps (`.a`, `[…]`, `(…)`) since the last of them."""

    joins: int = 0
    steps: int = 0

    @property
    def open(self) -> int:
        return self.joins + self.steps


def check_nesting(source: PolicySource, tokens: Sequence[Token]) -> None:
    """Raise `PolicyError` at the piece where a text nests or chains too far for Cedar's stack."""
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
        if outer + levels[-1].open > MAX_NESTING:
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


MAX_DECIMAL = Decimal("922337203685477.5807")
_DECIMAL = re.compile(r"-?\d+\.\d{1,4}", re.ASCII)
_FRACTION = re.compile(r"-?\d+\.(\d+)", re.ASCII)
_WHOLE = re.compile(r"\d+", re.ASCII)
_BEFORE_VALUE = frozenset({"if", "then", "else", "in", "has", "like", "is"})
_NEAR_DECIMAL = 'write it with one to four digits after the point, such as `0.8` or `decimal("0.8")`'


@dataclass(frozen=True, slots=True)
class _Edit:
    """A piece of the user's text and its replacement."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Translation:
    """Cedar text made from a user's, with offsets in the original."""

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
                # Cedar negates whole numbers only, so a sign that does not subtract must be inside the decimal's text.
                signed = _is_mark(tokens, index - 1, "-") and not _ends_operand(tokens, index - 2)
                start = tokens[index - 1].start if signed else token.start
                literal = ("-" if signed else "") + token.text
                _check_decimal(source, literal, at=start)
                yield _Edit(start, token.end, f'decimal("{literal}")')
            elif _is_mark(tokens, index - 1, ".") and not (index > 1 and tokens[index - 2].kind is TokenKind.WORD):
                raise source.error(f"`.{token.text}` is no number", at=token.start - 1, hint=f"write 0.{token.text}")
        elif token.text == "annotation" and _is_mark(tokens, index - 1, "@"):
            yield from _annotation(source, tokens, index)
        elif token.text == "decimal" and token.kind is TokenKind.WORD:
            # Cedar would reject the text of `decimal("…")` only while deciding.
            called = _is_mark(tokens, index + 1, "(") and _is_mark(tokens, index + 3, ")")
            if called and tokens[index + 2].kind is TokenKind.STRING:
                _check_decimal(source, tokens[index + 2].text[1:-1], at=tokens[index + 2].start)


def _check_decimal(source: PolicySource, literal: str, *, at: int) -> None:
    if fraction := _FRACTION.fullmatch(literal):
        if len(fraction.group(1)) > 4:  # noqa: PLR2004 — Cedar's limit, named in the message
            what = f"`{literal}` has {len(fraction.group(1))} digits after the point, and four are the most"
            raise source.error(what, at=at, hint="scores are rounded to four digits as well")
        if abs(Decimal(literal)) > MAX_DECIMAL:
            raise source.error(f"`{literal}` is too large", at=at, hint=f"the limits are ±{MAX_DECIMAL}")
    if not _DECIMAL.fullmatch(literal):
        raise source.error(f"`{literal}` is no number that a policy can hold", at=at, hint=_NEAR_DECIMAL)


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


def _ends_operand(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a value ends here, so that a minus after it subtracts."""
    if index < 0:
        return False
    token = tokens[index]
    if token.kind is TokenKind.MARK:
        return token.text in (")", "]", "}")
    return token.text not in _BEFORE_VALUE


_BROKEN = re.compile(r"error while evaluating policy `(\w+)`: (.*)", re.DOTALL)
_QUOTED = re.compile(r"[`']([^`']+)[`']|: (\S+)$")
_SYNTAX = ("unexpected token", "invalid token")
_END = "unexpected end of input"
# What Cedar's message contains, and what its author should do about it; the first that fits is shown.
_HINTS = (
    (_END, "a policy ends with `;`"),
    ("nesting", "split the rule in two"),
    ("`and`", "write && and ||"),
    ("`or`", "write && and ||"),
    ("'='", "compare with =="),
)
_MAX_TRIED_ONE_BY_ONE = 500
_MAX_TRIED = 10_000


@dataclass(frozen=True, slots=True)
class ParsedPolicy:
    """One policy as Cedar reads it, and its tokens at their places in the user's text."""

    source: PolicySource
    tree: pst.Template
    words: tuple[tuple[str, int], ...]

    @property
    def start(self) -> int:
        """Where the policy begins in the user's text."""
        return self.words[0][1]

    def error(self, what: str, *, near: str | None = None, hint: str | None = None) -> PolicyError:
        """Return an error that points at a word of the policy, or at its beginning if it has no such word."""
        at = next((offset for word, offset in self.words if near in (word, word.strip('"'))), self.start)
        return self.source.error(what, at=at, hint=hint)


class CedarRequest(msgspec.Struct, frozen=True, gc=False):
    """What Cedar is asked, whole: who, in which phase, of which model, the context as JSON, and the principal's labels."""

    principal: str
    action: str
    resource: str
    context: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Which rules hold, which could not be evaluated and why, and what kept the request from being asked at all."""

    held: frozenset[str]
    broken: Mapping[str, str]
    refused: tuple[str, ...] = ()


class RuleEngine:
    """A set of rules: parsed once, since that is far slower than to ask them."""

    __slots__ = ("_handle", "_nobody")

    def __init__(self, trees: Mapping[str, pst.Template]) -> None:
        # Every rule is asked as a permit under an id of our own, so that Cedar names every rule that holds, whatever its
        # effect, and no rule hides another.
        permits = {
            key: replace(tree, id=key, effect="permit", annotations=pst.FrozenMap()) for key, tree in trees.items()
        }
        nodes = pst.PolicySet(templates=pst.FrozenMap(), static_policies=pst.FrozenMap(permits), template_links=())
        self._handle = cedarpy.PolicySet.from_pst(nodes)
        self._nobody = cedarpy.Entities.from_json_str("[]")

    def ask(self, request: Mapping[str, object], *, parents: Sequence[str] = ()) -> Answer:
        """Return which rules hold for a request; `parents` are the labels of its principal."""
        entities: cedarpy.Entities | list[dict[str, object]] = self._nobody
        if parents:
            above = [{"type": "Label", "id": label} for label in parents]
            entities = [{"uid": request["principal"], "attrs": {}, "parents": above}]
        result = cedarpy.is_authorized(dict(request), self._handle, entities)
        diagnostics = result.diagnostics
        if result.decision is cedarpy.Decision.NoDecision:
            return Answer(frozenset(), {}, tuple(diagnostics.errors) or ("no decision",))
        broken: dict[str, str] = {}
        unknown = []
        for message in diagnostics.errors:
            if match := _BROKEN.fullmatch(message):
                broken[match.group(1)] = match.group(2)
            else:
                unknown.append(message)
        return Answer(frozenset(diagnostics.reasons), broken, tuple(unknown))

    def answer(self, asked: CedarRequest) -> Answer:
        """Return which rules hold for a request as one value."""
        request = {
            "principal": {"type": "Session", "id": asked.principal},
            "action": {"type": "Action", "id": asked.action},
            "resource": {"type": "Model", "id": asked.resource},
            "context": asked.context,
        }
        return self.ask(request, parents=asked.labels)


def parse_policies(translation: Translation) -> list[ParsedPolicy]:
    """Return the policies of a text one by one; raise `PolicyError` at the place in the user's own text."""
    cedar = PolicySource(translation.source.name, translation.text)
    tokens = tokens_of(cedar)
    check_nesting(translation.source, [replace(t, start=translation.original(t.start)) for t in tokens])
    parsed = [_parse_one(translation, span) for span in policy_spans(tokens)]
    whole = cedarpy.policies_to_pst(translation.text)
    if len(whole.static_policies) + len(whole.templates) != len(parsed):
        # We split the text and Cedar reads it: if the two disagree on where a policy ends, a rule would vanish.
        hint = "write plain line ends, and one policy after the other"
        raise translation.source.error("Cedar finds other policies in it than are told apart here", at=0, hint=hint)
    return parsed


def _parse_one(translation: Translation, span: tuple[Token, ...]) -> ParsedPolicy:
    text = translation.text[span[0].start : span[-1].end]
    source = translation.source
    try:
        parsed = cedarpy.policies_to_pst(text)
    except ValueError as exc:
        what = str(exc).removeprefix("cedarpy: ")
        at = translation.original(_place_of_error(translation.text, span, what))
        hint = next((hint for sign, hint in _HINTS if sign in what), None)
        raise source.error(what[:1].lower() + what[1:].splitlines()[0], at=at, hint=hint) from exc
    if parsed.templates:
        at = translation.original(next((t.start for t in span if t.text == "?"), span[0].start))
        raise source.error(
            "a template, which nothing here would link", at=at, hint="name the entity in place of the slot"
        )
    if len(parsed.static_policies) != 1:
        at = translation.original(span[0].start)
        raise source.error("what should be one policy is not", at=at, hint="end each policy with `;`")
    words = tuple((token.text, translation.original(token.start)) for token in span)
    return ParsedPolicy(source, next(iter(parsed.static_policies.values())), words)


def _place_of_error(text: str, span: Sequence[Token], what: str) -> int:
    """Return the offset of the token that Cedar could not read, which its message does not say."""
    if what.startswith(_SYNTAX):
        # Every try parses the text from its start, so a very long policy is reported at its beginning, and a long one is
        # tried in strides first. Not by bisection: Cedar's parser recovers, so a longer text may seem better again.
        if len(span) > _MAX_TRIED:
            return span[0].start
        stride = 1 if len(span) <= _MAX_TRIED_ONE_BY_ONE else isqrt(len(span))
        begin = span[0].start
        strides = [span[index : index + stride] for index in range(0, len(span), stride)]
        bad = next((part for part in strides if not _may_go_on(text[begin : part[-1].end])), strides[-1])
        return next((token for token in bad if not _may_go_on(text[begin : token.end])), bad[-1]).start
    if what.startswith(_END):
        return span[-1].end
    named = _QUOTED.search(what)
    wanted = (named.group(1) or named.group(2)).split("::")[-1] if named else ""
    return next((t.start for t in span if t.text == wanted or (wanted and wanted in t.text)), span[0].start)


def _may_go_on(text: str) -> bool:
    try:
        cedarpy.policies_to_pst(text)
    except ValueError as exc:
        return not str(exc).startswith(_SYNTAX)
    return True


def cedar_text(tree: pst.Template) -> str:
    """Return a rule as Cedar writes it."""
    nodes = pst.PolicySet(templates=pst.FrozenMap(), static_policies=pst.FrozenMap({tree.id: tree}), template_links=())
    return str(cedarpy.PolicySet.from_pst(nodes)).strip()


def validate(tree: pst.Template, schema: str) -> tuple[str, ...]:
    """Return what Cedar's validator says against one rule, in its own words without the rule's id."""
    result = cedarpy.validate_policies(cedar_text(tree), schema)
    messages = (error.error.removeprefix("for policy `policy0`, ") for error in result.errors)
    return tuple(dict.fromkeys(messages))
