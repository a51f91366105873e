"""Is this a request that can be read, and so decided? If not, why?

Laws: what cannot be read is refused, in the provider's shape, and goes no further: a policy cannot speak of what it does not
see, nor of what the provider could read otherwise; a body may be compressed, within limits; what is wrong is said without repeating what was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import InputError, JsonError, ShapeError, SizeLimitError
from demur.gateway.names import is_other_charset, reads_two_ways
from demur.http.asgi import HttpProblem, is_json
from demur.http.content_coding import body_decoder
from demur.wire.document import parse_json
from demur.wire.shapes import CODECS

if TYPE_CHECKING:
    from demur.gateway.routes import AuditedRoute
    from demur.http.asgi import Scope
    from demur.model.exchange import Request
    from demur.wire.interface import JsonObject

__all__ = ["read_asked_body"]

_PLAIN_KIND = [b"application/json"]
_NO_JSON = HttpProblem(400, "invalid_json", "The body of the request is not valid JSON.")
_NO_OBJECT = HttpProblem(400, "invalid_request", "The body of the request is not a JSON object.")
_WRONG_TYPE = HttpProblem(415, "unsupported_media_type", "The body of the request is not declared as JSON.")
_TWO_WAYS = HttpProblem(
    400, "ambiguous_json", "A name in the request stands twice, or differs by capitals from one that is read."
)
_WRONG_CHARSET = HttpProblem(415, "unsupported_charset", "The body of the request is not declared as UTF-8.")
_WRONG_CODING = HttpProblem(415, "unsupported_encoding", "The body of the request is in a coding that cannot be read.")
_TOO_LARGE = HttpProblem(413, "request_too_large", "The body of the request is too large once decompressed.")


def read_asked_body(
    body: bytes, scope: Scope, route: AuditedRoute, *, limit_bytes: int
) -> tuple[Request, JsonObject] | HttpProblem:
    """Return the request in a body and its JSON, or why there is none."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if kinds != _PLAIN_KIND:
        if not is_json(scope) or len(kinds) > 1:
            return _WRONG_TYPE
        if kinds and is_other_charset(kinds[0].decode("latin-1")):
            return _WRONG_CHARSET
    codings = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-encoding"]
    plain = _without_coding(body, ",".join(codings), limit_bytes) if codings else body
    if isinstance(plain, HttpProblem):
        return plain
    return _request_in(plain, route)


def _request_in(plain: bytes, route: AuditedRoute) -> tuple[Request, JsonObject] | HttpProblem:
    try:
        found = parse_json(plain)
    except InputError:
        return _NO_JSON
    if not isinstance(found, dict):
        return _NO_OBJECT
    try:
        request = CODECS[route.shape].read_request(found)
        return _TWO_WAYS if reads_two_ways(plain, found) else (request, found)
    except ShapeError as exc:
        return HttpProblem(400, "invalid_request", f"The request cannot be read: {_place_of(exc)}.")
    except (JsonError, RecursionError):
        return _NO_JSON


def _without_coding(body: bytes, coding: str, limit_bytes: int) -> bytes | HttpProblem:
    if not coding:
        return body
    decoder = body_decoder(coding, limit_bytes=limit_bytes)
    if decoder is None:
        return _WRONG_CODING
    try:
        return decoder.decode(body) + decoder.finish()
    except SizeLimitError:
        return _TOO_LARGE
    except InputError:
        return _WRONG_CODING


def _place_of(exc: ShapeError) -> str:
    """Return what is wrong, at most so much of it that a client can find the place."""
    return exc.what[:200]
