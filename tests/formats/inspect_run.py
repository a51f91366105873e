"""Runs an evaluation with Inspect and a model of prepared answers, and writes its logs into the folder given.

It is a program of its own, so that what Inspect does to its process (loops, loggers, streams) stays there.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval  # noqa: A004 -- Inspect's own name
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ContentText,
    ModelOutput,
    ModelUsage,
    StopDetails,
    get_model,
)


def output(content: Any, stop: Any = "stop", *, details: StopDetails | None = None) -> ModelOutput:
    """Return a prepared answer; usage is given, since counting tokens would fetch a vocabulary."""
    choice = ChatCompletionChoice(message=ChatMessageAssistant(content=content), stop_reason=stop, stop_details=details)
    return ModelOutput(model="mockllm/model", choices=[choice], usage=ModelUsage())


def run(folder: str, question: str, *, answer: str, refusal: str) -> None:
    """Write the same run as a `.json` log and as an `.eval` archive, and the members of the archive."""
    outputs = [
        output(answer),
        output(refusal),
        output([ContentText(text="Not today.", refusal=True)]),
        output("", "content_filter"),
        output("", "content_filter", details=StopDetails(type="refusal", category="cyber")),
        output(""),
    ]
    samples = [Sample(id=f"s{i}", input=question, metadata={"category": "science"}) for i in range(len(outputs))]
    for kind in ("json", "eval"):
        model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
        settings: dict[str, Any] = {"log_dir": folder, "log_format": kind, "display": "none"}
        eval(Task(dataset=samples, name="sky"), model=model, max_samples=1, **settings)
    # Inspect compresses by Zstandard, which Python's own zip reader learns from Inspect here, and nowhere else.
    (archive,) = Path(folder).glob("*.eval")
    with zipfile.ZipFile(archive) as members:
        members.extractall(Path(folder) / "members")


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], answer=sys.argv[3], refusal=sys.argv[4])
