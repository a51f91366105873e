"""instructor over openai: every answer is a model, so there is only the structured case and its stream."""

import instructor
import openai
from harness import MESSAGES, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for."""

    title: str


def client(url):
    """Return a client that asks by a JSON schema, and not twice."""
    asking = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    return instructor.from_openai(asking, mode=instructor.Mode.JSON_SCHEMA).chat.completions


def asked():
    """Return what each call is given."""
    return {"model": "gpt-4o", "messages": MESSAGES, "max_retries": 1}


def plain(url):
    """Ask for a recipe: the ordinary way to use it."""
    got = client(url).create(response_model=Recipe, **asked())
    return got, got


def streamed(url):
    """Ask for a recipe piece by piece."""
    pieces = list(client(url).create_partial(response_model=Recipe, **asked()))
    return pieces[-1] if pieces else None, pieces


run(plain=plain, streamed=streamed, structured=plain)
