"""langchain-aws: ChatBedrockConverse and its stream."""

from harness import QUESTION, run
from langchain_aws import ChatBedrockConverse


def model(url):
    """Return a model of the simulator."""
    return ChatBedrockConverse(
        model="amazon.nova-lite-v1:0",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 — the simulator takes any
    )


def plain(url):
    """Ask for a whole answer."""
    got = model(url).invoke(QUESTION)
    return got.text, got


def streamed(url):
    """Ask for a stream."""
    chunks = list(model(url).stream(QUESTION))
    return "".join(str(chunk.text) for chunk in chunks), chunks


run(plain=plain, streamed=streamed)
