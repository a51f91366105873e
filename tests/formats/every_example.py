"""All examples of trace formats, and the packages whose form they have."""

from __future__ import annotations

from tests.formats.examples import EXAMPLES as OWN_EXAMPLES
from tests.formats.examples_benchmarks import BENCHMARK_EXAMPLES
from tests.formats.examples_tools import TOOL_EXAMPLES

EVERY_EXAMPLE = (*OWN_EXAMPLES, *TOOL_EXAMPLES, *BENCHMARK_EXAMPLES)
PACKAGES = {
    "agentlog": "Shadow 3.2.5",
    "anthropic": "anthropic 2.8.0",
    "anthropic-batch": "anthropic 2.8.0",
    "arena-hard": "arena-hard-auto 0.1 (01109e9) and 2.0",
    "azure": "the API's documentation",
    "bedrock": "boto3 1.44.0",
    "braintrust": "Shadow's importer",
    "deepeval": "deepeval 4.3.1",
    "flat": "no package",
    "garak": "garak 0.13.3",
    "gemini": "google-genai 3.1.0",
    "helm": "HELM (317976a)",
    "inspect": "inspect-ai 0.3.285",
    "jailbreakbench": "published artifacts",
    "langfuse": "langfuse 5.0.4",
    "langfuse-export": "Langfuse's documentation",
    "langsmith": "langsmith 0.1.131",
    "litellm": "litellm 1.108.4",
    "lm-eval": "lm-eval 0.4.13",
    "messages": "TRL's documentation",
    "mt-bench": "FastChat (00bb41f)",
    "openai-batch": "openai 3.49.0",
    "openai-chat": "openai 3.49.0",
    "openai-evals": "evals 3.0.1",
    "openai-responses-batch": "openai 3.49.0",
    "openinference": "openinference-instrumentation-openai 0.1.66",
    "openllmetry": "opentelemetry-instrumentation-openai 0.62.4",
    "otel": "semantic conventions 1.37",
    "preference": "HH-RLHF's rows",
    "promptfoo": "promptfoo of August 2026",
    "pyrit": "PyRIT (1afa563)",
    "sharegpt": "no package",
    "swe-agent": "SWE-agent (05ff843), and before 1.0",
    "tau-bench": "tau-bench (01ed5e3)",
    "vercel": "ai 6.0.326",
}
"""The package, version or commit whose form each format's examples have, as far as it is known."""
