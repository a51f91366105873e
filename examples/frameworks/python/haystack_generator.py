"""haystack: the OpenAI chat generator, its streaming callback, and a response format."""

from harness import QUESTION, run
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def ask(url, **more):
    """Return the reply of a generator that does not ask twice."""
    key = Secret.from_token("none")
    generator = OpenAIChatGenerator(api_key=key, model="gpt-4o", api_base_url=f"{url}/v1", max_retries=0, **more)
    reply = generator.run([ChatMessage.from_user(QUESTION)])["replies"][0]
    return reply.text, reply.to_dict()


def plain(url):
    """Ask for a whole answer."""
    return ask(url)


def streamed(url):
    """Ask for a stream."""
    chunks = []
    text, reply = ask(url, streaming_callback=chunks.append)
    return text, [chunks, reply]


def structured(url):
    """Ask for a recipe."""
    return ask(url, generation_kwargs={"response_format": Recipe})


run(plain=plain, streamed=streamed, structured=structured)
