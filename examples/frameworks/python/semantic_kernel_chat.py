"""semantic-kernel: the OpenAI chat service, its stream, and a response format."""

import openai
from harness import QUESTION, run
from pydantic import BaseModel
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def service(url):
    """Return a service that does not ask twice."""
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    return OpenAIChatCompletion(ai_model_id="gpt-4o", async_client=client)


def history():
    """Return the conversation."""
    asked = ChatHistory()
    asked.add_user_message(QUESTION)
    return asked


async def plain(url):
    """Ask for a whole answer."""
    got = await service(url).get_chat_message_content(history(), OpenAIChatPromptExecutionSettings())
    return str(got), got


async def streamed(url):
    """Ask for a stream."""
    stream = service(url).get_streaming_chat_message_content(history(), OpenAIChatPromptExecutionSettings())
    chunks = [chunk async for chunk in stream]
    return "".join(str(chunk) for chunk in chunks), chunks


async def structured(url):
    """Ask for a recipe."""
    settings = OpenAIChatPromptExecutionSettings(response_format=Recipe)
    got = await service(url).get_chat_message_content(history(), settings)
    return str(got), got


run(plain=plain, streamed=streamed, structured=structured)
