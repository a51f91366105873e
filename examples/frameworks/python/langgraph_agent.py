"""langgraph with langchain-openai: an agent without tools, its streamed messages, and a structured response."""

from harness import MESSAGES, run
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


ASKED = {"messages": MESSAGES}


def model(url):
    """Return a model that does not ask twice."""
    return ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key="none", max_retries=0)


def plain(url):
    """Ask for a whole answer."""
    got = create_agent(model(url), []).invoke(ASKED)
    return got["messages"][-1].text, got["messages"][-1]


def streamed(url):
    """Ask for a stream of messages."""
    chunks = [chunk for chunk, _ in create_agent(model(url), []).stream(ASKED, stream_mode="messages")]
    return "".join(str(chunk.text) for chunk in chunks), chunks


def structured(url):
    """Ask for a recipe."""
    got = create_agent(model(url), [], response_format=Recipe).invoke(ASKED)
    return got.get("structured_response"), got


run(plain=plain, streamed=streamed, structured=structured)
