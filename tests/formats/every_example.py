"""All examples of trace formats, and the packages whose form they have."""

from __future__ import annotations

from tests.formats.examples import EXAMPLES as OWN_EXAMPLES
from tests.formats.examples_benchmarks import BENCHMARK_EXAMPLES
from tests.formats.examples_tools import TOOL_EXAMPLES

EVERY_EXAMPLE = (*OWN_EXAMPLES, *TOOL_EXAMPLES, *BENCHMARK_EXAMPLES)
