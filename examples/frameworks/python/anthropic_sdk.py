"""anthropic: messages, a stream, and the helper that parses into a model."""

import anthropic
from harness import MESSAGES, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def asked(url):
    """Return the client's messages and what each call is given."""
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    return client.messages, {"model": "claude-opus-4-8", "max_tokens": 500, "messages": MESSAGES}


def plain(url):
    """Ask for a whole answer."""
    messages, given = asked(url)
    got = messages.create(**given)
    return "".join(part.text for part in got.content if part.type == "text"), got


def streamed(url):
    """Ask for a stream."""
    messages, given = asked(url)
    with messages.stream(**given) as stream:
        text = "".join(stream.text_stream)
        return text, stream.get_final_message()


def structured(url):
    """Ask for a recipe."""
    messages, given = asked(url)
    got = messages.parse(output_format=Recipe, **given)
    return got.parsed_output, got


run(plain=plain, streamed=streamed, structured=structured)
