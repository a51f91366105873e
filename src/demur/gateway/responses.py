"""What the gateway itself sends to a client: denials and refusals in the format of the client's provider.

The provider's own client raises its own exception, or reads its own refusal. A denial names the rule, the reason and the
passport, and is never worth a retry; no text of the user's comes back in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from demur.gateway.guard.endings import ENDINGS, demur_field
from demur.gateway.guard.values import Denial, GuardEnd
from demur.gateway.state import ENFORCED
from demur.http.asgi import HttpProblem, HttpResponse, problem_response
from demur.model.claim import Effect
from demur.model.exchange import Choice, Finish, RefusalPart, Response, Shape, TextPart
from demur.wire.fields import event_of
from demur.wire.shapes import CODECS
from demur.wire.sse import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demur.model.claim import Decision

__all__ = [
    "OUR_HEADERS",
    "cut_event",
    "denial_of",
    "denial_response",
    "refusal_response",
    "refusal_stream",
    "response_headers",
]

OUR_HEADERS = frozenset((b"x-demur-decision", b"x-demur-passport", b"x-demur-session", b"x-demur-rules"))
"""Headers that only the gateway may write: what a provider puts there is dropped."""
_JSON = (b"content-type", b"application/json")
_EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
_FORBIDDEN = 403
_MAX_RULES_CHARS = 1000


def denial_of(decision: Decision) -> Denial:
    """Return what a client is told of a decision that blocks: the rules that made it so, not every one that fired."""
    rules = [rule for rule in decision.rules if rule.effect in ENFORCED]
    reasons = [rule.reason for rule in rules if rule.reason]
    if rules:
        why = reasons[0] if reasons else f"rule {rules[0].id}"
        message = f"Withheld by policy: {why}."
    elif decision.errors:
        # An auditor failed closed: no rule is to blame, and none is named.
        message = "Withheld: the exchange could not be checked."
    else:
        message = "Withheld by policy."
    return Denial("policy_denied", message, tuple(rule.id for rule in rules))


def denial_response(decision: Decision, shape: Shape, *, passport: str, session: str) -> HttpResponse:
    """Return the error that tells of a decision that blocks."""
    denial = denial_of(decision)
    named = [{"id": r.id, "effect": r.effect.word, "reason": r.reason} for r in decision.rules if r.effect in ENFORCED]
    details: list[tuple[str, object]] = [("decision", decision.effect.word), ("rules", named)]
    details += [("passport", passport), ("session", session)]
    # OpenAI's and Anthropic's clients retry some errors by themselves; a denial stays one.
    headers = ((b"x-should-retry", b"false"), *response_headers([decision], passport=passport, session=session))
    return problem_response(HttpProblem(_FORBIDDEN, denial.reason, denial.message, tuple(details), headers), shape)


def refusal_response(decision: Decision, shape: Shape, *, model: str, passport: str, session: str) -> HttpResponse:
    """Return a decision that blocks as a refusal in the provider's shape; the field `demur` says whose it is."""
    denial = denial_of(decision)
    # Anthropic has no refusal field: its refusals are text with the stop reason `refusal`.
    part = TextPart(denial.message) if shape is Shape.ANTHROPIC else RefusalPart(denial.message)
    raw = {Shape.ANTHROPIC: "refusal"}.get(shape, "content_filter")
    finish = Finish.REFUSAL if shape is Shape.ANTHROPIC else Finish.CONTENT_FILTER
    response = Response(model, (Choice(0, (part,), finish, raw),), id=f"demur-{passport[:24]}")
    body = CODECS[shape].write_response(response)
    if shape is Shape.ANTHROPIC:
        details = {"type": "refusal", "category": None, "explanation": denial.message}
        body |= {"stop_details": details, "usage": {"input_tokens": 0, "output_tokens": 0}}
    body["demur"] = {**demur_field(GuardEnd.DENY, denial), "passport": passport}
    headers = (_JSON, *response_headers([decision], passport=passport, session=session))
    return HttpResponse(200, msgspec.json.encode(body), headers)


def refusal_stream(decision: Decision, shape: Shape, *, passport: str, session: str) -> HttpResponse:
    """Return the same as a stream that ends before it began."""
    body = ENDINGS[shape]().write(GuardEnd.DENY, denial_of(decision))
    return HttpResponse(200, body, (_EVENTS, *response_headers([decision], passport=passport, session=session)))


def cut_event(shape: Shape, message: str) -> bytes:
    """Return the event by which a stream that the provider broke off ends as an error."""
    if shape is Shape.ANTHROPIC:
        body: dict[str, object] = {"type": "error", "error": {"type": "api_error", "message": message}}
        return encode(event_of(body, "error"))
    if shape is Shape.OPENAI_RESPONSES:
        return encode(event_of({"type": "error", "code": "upstream_cut", "message": message, "param": None}, "error"))
    return encode(event_of({"error": {"message": message, "type": "server_error", "code": "upstream_cut"}}))


def response_headers(decisions: Iterable[Decision], *, passport: str, session: str) -> list[tuple[bytes, bytes]]:
    """Return the headers that every audited response carries."""
    decided = list(decisions)
    effect = max((decision.effect for decision in decided), default=Effect.ALLOW)
    rules = ",".join(dict.fromkeys(rule.id for decision in decided for rule in decision.rules))
    headers = [
        (b"x-demur-decision", effect.word.encode()),
        (b"x-demur-passport", passport.encode()),
        (b"x-demur-session", session.encode("ascii", "replace")),
    ]
    if rules:
        # Rules are named by people, in any script; a header carries ASCII.
        plain = "".join(c if " " <= c <= "~" else "?" for c in rules)
        headers.append((b"x-demur-rules", plain[:_MAX_RULES_CHARS].encode()))
    return headers
