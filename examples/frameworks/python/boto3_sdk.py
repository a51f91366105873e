"""boto3: Bedrock's converse and its stream; it has no structured output of its own."""

import boto3
from botocore.config import Config
from harness import QUESTION, run

ASKED = {"modelId": "amazon.nova-lite-v1:0", "messages": [{"role": "user", "content": [{"text": QUESTION}]}]}


def client(url):
    """Return a client that does not ask twice."""
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 — the simulator takes any
        config=Config(retries={"total_max_attempts": 1}),
    )


def plain(url):
    """Ask for a whole answer."""
    got = client(url).converse(**ASKED)
    return "".join(part.get("text", "") for part in got["output"]["message"]["content"]), got


def streamed(url):
    """Ask for a stream."""
    events = list(client(url).converse_stream(**ASKED)["stream"])
    texts = (event.get("contentBlockDelta", {}).get("delta", {}).get("text", "") for event in events)
    return "".join(texts), events


run(plain=plain, streamed=streamed)
