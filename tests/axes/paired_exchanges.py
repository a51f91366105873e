"""Paired exchanges in one line each."""

from __future__ import annotations

from typing import Any

from demur.model.comparison import PairedExchange
from demur.model.exchange import Choice, Exchange, Finish, Message, Request, Response, TextPart, ToolCallPart, Usage

Said = str | tuple[str, ...] | None


def exchange(
    said: Said, *, calls: tuple[str, ...] = (), prompt: str = "What now?", tokens: int | None = None
) -> Exchange:
    """An exchange whose answer says a text and calls tools, each `name` or `name {json}`; None has failed."""
    request = Request("m", (Message("user", (TextPart(prompt),)),))
    if said is None:
        return Exchange(None, None, request)
    parts = tuple(TextPart(text) for text in ((said,) if isinstance(said, str) else said))
    made = tuple(
        ToolCallPart(str(i), *(call.split(" ", 1) if " " in call else (call, "{}"))) for i, call in enumerate(calls)
    )
    finish = (Finish.TOOL, "tool_use") if calls else (Finish.STOP, "end_turn")
    usage = None if tokens is None else Usage(10, tokens)
    return Exchange(None, Response("m", (Choice(0, (*parts, *made), *finish),), usage=usage), request)


def pair(
    key: str, before: Exchange | str, after: Exchange | str, *, session: str | None = None, **more: Any
) -> PairedExchange:
    """A pair; a bare text is an answer."""
    first, second = (exchange(side) if isinstance(side, str) else side for side in (before, after))
    return PairedExchange(key, session, first, second, **more)
