"""llama-index with its OpenAI model: chat, a stream, and a structured prediction."""

from harness import QUESTION, run
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.llms.openai import OpenAI
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def model(url):
    """Return a model that does not ask twice."""
    return OpenAI(model="gpt-4o", api_base=f"{url}/v1", api_key="none", max_retries=0)


def plain(url):
    """Ask for a whole answer."""
    got = model(url).chat([ChatMessage(role="user", content=QUESTION)])
    return got.message.content, got


def streamed(url):
    """Ask for a stream."""
    chunks = list(model(url).stream_chat([ChatMessage(role="user", content=QUESTION)]))
    return "".join(chunk.delta or "" for chunk in chunks), chunks


def structured(url):
    """Ask for a recipe."""
    got = model(url).structured_predict(Recipe, PromptTemplate(QUESTION))
    return got, got


run(plain=plain, streamed=streamed, structured=structured)
