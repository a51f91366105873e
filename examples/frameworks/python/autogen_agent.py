"""autogen: the OpenAI client of autogen-ext, its stream, and a JSON output."""

from autogen_core.models import UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from harness import QUESTION, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


ASKED = [UserMessage(content=QUESTION, source="user")]


def client(url):
    """Return a client that does not ask twice."""
    return OpenAIChatCompletionClient(model="gpt-4o", base_url=f"{url}/v1", api_key="none", max_retries=0)


async def plain(url):
    """Ask for a whole answer."""
    got = await client(url).create(ASKED)
    return got.content, got


async def streamed(url):
    """Ask for a stream."""
    pieces = [piece async for piece in client(url).create_stream(ASKED)]
    return "".join(piece for piece in pieces if isinstance(piece, str)), pieces


async def structured(url):
    """Ask for a recipe."""
    got = await client(url).create(ASKED, json_output=Recipe)
    return got.content, got


run(plain=plain, streamed=streamed, structured=structured)
