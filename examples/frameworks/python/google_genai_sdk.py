"""google-genai: generate_content, a stream, and a response schema."""

from google import genai
from harness import QUESTION, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def client(url):
    """Return a client of the simulator."""
    return genai.Client(api_key="none", http_options={"base_url": url})


def plain(url):
    """Ask for a whole answer."""
    with client(url) as asking:
        got = asking.models.generate_content(model="gemini-2.5-flash", contents=QUESTION)
        return got.text, got


def streamed(url):
    """Ask for a stream."""
    with client(url) as asking:
        chunks = list(asking.models.generate_content_stream(model="gemini-2.5-flash", contents=QUESTION))
        return "".join(chunk.text or "" for chunk in chunks), chunks


def structured(url):
    """Ask for a recipe."""
    config = {"response_mime_type": "application/json", "response_schema": Recipe}
    with client(url) as asking:
        got = asking.models.generate_content(model="gemini-2.5-flash", contents=QUESTION, config=config)
        return got.parsed, got


run(plain=plain, streamed=streamed, structured=structured)
