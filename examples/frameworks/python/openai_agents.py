"""openai-agents over chat completions: an agent, its streamed events, and an output type."""

import agents
import openai
from harness import QUESTION, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


agents.set_tracing_disabled(disabled=True)


def agent(url, **more):
    """Return an agent over a client that does not ask twice."""
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    model = agents.OpenAIChatCompletionsModel(model="gpt-4o", openai_client=client)
    return agents.Agent(name="baker", model=model, **more)


async def plain(url):
    """Ask for a whole answer."""
    got = await agents.Runner.run(agent(url), QUESTION)
    return got.final_output, {"new_items": got.new_items, "raw_responses": got.raw_responses}


async def streamed(url):
    """Ask for a stream."""
    stream = agents.Runner.run_streamed(agent(url), QUESTION)
    events = [event async for event in stream.stream_events()]
    return stream.final_output, events


async def structured(url):
    """Ask for a recipe."""
    got = await agents.Runner.run(agent(url, output_type=Recipe), QUESTION)
    return got.final_output, {"new_items": got.new_items, "raw_responses": got.raw_responses}


run(plain=plain, streamed=streamed, structured=structured)
