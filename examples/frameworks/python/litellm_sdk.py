"""litellm: completion with an OpenAI model behind it, a stream, and a response format."""

import litellm
from harness import MESSAGES, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def asked(url):
    """Return what each call is given."""
    where = {"api_base": f"{url}/v1", "api_key": "none", "max_retries": 0}
    return {"model": "openai/gpt-4o", "messages": MESSAGES} | where


def plain(url):
    """Ask for a whole answer."""
    got = litellm.completion(**asked(url))
    return got.choices[0].message.content, got


def streamed(url):
    """Ask for a stream."""
    chunks = list(litellm.completion(stream=True, **asked(url)))
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks), chunks


def structured(url):
    """Ask for a recipe."""
    got = litellm.completion(response_format=Recipe, **asked(url))
    return got.choices[0].message.content, got


run(plain=plain, streamed=streamed, structured=structured)
