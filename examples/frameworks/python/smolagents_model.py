"""smolagents: its OpenAI model, as its agents call it, and its stream."""

from harness import QUESTION, run
from smolagents import ChatMessage, MessageRole, OpenAIServerModel

ASKED = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": QUESTION}])]


def model(url):
    """Return a model that does not ask twice."""
    return OpenAIServerModel(
        "gpt-4o", api_base=f"{url}/v1", api_key="none", client_kwargs={"max_retries": 0}, retry=False
    )


def plain(url):
    """Ask for a whole answer."""
    got = model(url).generate(ASKED)
    return got.content, got


def streamed(url):
    """Ask for a stream."""
    chunks = list(model(url).generate_stream(ASKED))
    return "".join(chunk.content or "" for chunk in chunks), chunks


run(plain=plain, streamed=streamed)
