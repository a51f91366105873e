"""langchain-openai: ChatOpenAI, a stream, and a structured output by JSON schema."""

from harness import QUESTION, run
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def model(url):
    """Return a model that does not ask twice."""
    return ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key="none", max_retries=0)


def plain(url):
    """Ask for a whole answer."""
    got = model(url).invoke(QUESTION)
    return got.text, got


def streamed(url):
    """Ask for a stream."""
    chunks = list(model(url).stream(QUESTION))
    return "".join(str(chunk.text) for chunk in chunks), chunks


def structured(url):
    """Ask for a recipe."""
    got = model(url).with_structured_output(Recipe).invoke(QUESTION)
    return got, got


run(plain=plain, streamed=streamed, structured=structured)
