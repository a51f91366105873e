"""openai: chat completions, a stream, and the helper that parses into a model."""

import openai
from harness import MESSAGES, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def client(url):
    """Return a client that does not ask twice."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def plain(url):
    """Ask for a whole answer."""
    got = client(url).chat.completions.create(model="gpt-4o", messages=MESSAGES)
    return got.choices[0].message.content, got


def streamed(url):
    """Ask for a stream."""
    chunks = list(client(url).chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True))
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), chunks


def structured(url):
    """Ask for a recipe."""
    got = client(url).chat.completions.parse(model="gpt-4o", messages=MESSAGES, response_format=Recipe)
    return got.choices[0].message.parsed, got


run(plain=plain, streamed=streamed, structured=structured)
