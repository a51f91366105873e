"""Samples of the LM Evaluation Harness.

Only generations are responses: a multiple-choice row holds log-probabilities. The format has no finish reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.formats.fields import fields_of, label_of, object_at, request_of, text_at, unwrapped_json
from demur.formats.responses import response_of_choices
from demur.model.exchange import Exchange, TextPart
from demur.model.run import Skipped, Traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "lm-eval"
_NO_FIELDS = frozenset({"doc", "target", "arguments", "resps", "filtered_resps", "doc_hash", "target_hash"})


def sniffs(record: JsonObject) -> bool:
    """Return whether this is a sample."""
    return "doc_id" in record and isinstance(record.get("resps"), list)


def open_reader() -> _Documents:
    """Return a reader for the samples of one task."""
    return _Documents()


class _Documents:
    """Reads each document once, however many filters it went through."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        """Yield the response in a sample."""
        if not sniffs(record):
            raise ShapeError("`resps`: expected a list, got something else", hint="a sample has `doc_id` and `resps`")
        document = label_of(record.get("doc_id"))
        key = f"{document}/{text_at(record, 'prompt_hash') or ''}".removesuffix("/")
        arguments = _first_arguments(record)
        texts = _generated(record, arguments)
        if texts is None:
            yield Skipped("a multiple-choice row")
        elif document is not None and key in self._seen:
            yield Skipped("the same answer through another filter")
        else:
            # The harness writes a row once for each filter, with the same raw texts: the first counts.
            self._seen.add(key)
            told = [((TextPart(text),) if text else (), None) for text in texts]
            response = response_of_choices(told) if texts else None
            # The document's own columns are what its set is cut by.
            fields = fields_of({**record, "metadata": record.get("doc")}, skip=_NO_FIELDS)
            prompt = arguments[0] if arguments else None
            # A chat template that the harness leaves to the server is a JSON string of messages, alone in a list.
            rendered = prompt[0] if isinstance(prompt, list) and prompt else prompt
            request = request_of(unwrapped_json(rendered)) or request_of(rendered)
            exchange = Exchange(None, response, request, key if document else None, document)
            yield Traced(exchange, fields)

    def close(self) -> Iterator[Traced | Skipped]:
        """Yield nothing: a sample stands for itself."""
        return iter(())


def _first_arguments(record: JsonObject) -> list[Any]:
    """Return the arguments of the first request: a prompt and how to generate, or a prompt and a continuation."""
    arguments = record.get("arguments")
    if isinstance(arguments, list):
        first = arguments[0] if arguments else None
        return first if isinstance(first, list) else []
    named = object_at(object_at(record, "arguments"), "gen_args_0")
    return [named[name] for name in ("arg_0", "arg_1") if name in named]


def _generated(record: JsonObject, arguments: list[Any]) -> list[str] | None:
    """Return the raw responses to the first request; None where it asked for likelihoods."""
    # A generation has its settings as second argument; a continuation is text, a rolling likelihood has none.
    generates = not arguments or any(isinstance(argument, dict) for argument in arguments[1:2])
    first = record["resps"][0] if record["resps"] else []
    texts = [first] if isinstance(first, str) else first
    readable = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    return texts if generates and readable else None
