"""pydantic-ai: an agent, its stream, and an output type."""

from harness import QUESTION, run
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def model(url):
    """Return the model behind the agent."""
    return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))


async def plain(url):
    """Ask for a whole answer."""
    got = await Agent(model(url)).run(QUESTION)
    return got.output, {"output": got.output, "all_messages": got.all_messages()[1:]}


async def streamed(url):
    """Ask for a stream."""
    async with Agent(model(url)).run_stream(QUESTION) as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True)]
        return "".join(pieces), {"all_messages": stream.all_messages()[1:]}


async def structured(url):
    """Ask for a recipe, by the model's own structured output."""
    from pydantic_ai import NativeOutput

    got = await Agent(model(url), output_type=NativeOutput(Recipe)).run(QUESTION)
    return got.output, {"output": got.output, "all_messages": got.all_messages()[1:]}


run(plain=plain, streamed=streamed, structured=structured)
