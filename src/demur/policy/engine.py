"""The only module that calls Cedar: texts are parsed, rules evaluated and policies validated here.

What Cedar could not evaluate is returned beside what holds, never in its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING

import cedarpy
import msgspec
from cedarpy import pst

from demur.policy.language import PolicySource, check_nesting, policy_spans, tokens_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.errors import PolicyError
    from demur.policy.language import Token, Translation

__all__ = ["Answer", "CedarRequest", "ParsedPolicy", "RuleEngine", "cedar_text", "parse_policies", "validate"]

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
        return _first_bad(text, span).start
    if what.startswith(_END):
        return span[-1].end
    named = _QUOTED.search(what)
    wanted = (named.group(1) or named.group(2)).split("::")[-1] if named else ""
    return next((t.start for t in span if t.text == wanted or (wanted and wanted in t.text)), span[0].start)


def _first_bad(text: str, span: Sequence[Token]) -> Token:
    """Return the first token after which the text can no longer become a policy."""
    # Every try parses the text from its start, so a very long policy is reported at its beginning, and a long one is tried
    # in strides first. Not by bisection: Cedar's parser recovers from errors, so a longer text may seem better again.
    if len(span) > _MAX_TRIED:
        return span[0]
    stride = 1 if len(span) <= _MAX_TRIED_ONE_BY_ONE else isqrt(len(span))
    begin = span[0].start
    strides = [span[index : index + stride] for index in range(0, len(span), stride)]
    bad = next((part for part in strides if not _may_go_on(text[begin : part[-1].end])), strides[-1])
    return next((token for token in bad if not _may_go_on(text[begin : token.end])), bad[-1])


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
