"""Files that real tools wrote, kept outside the project: each is read, and its exchanges are judged as what they hold."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from demur_train.data import DEFAULT_FOLDER

from demur.detect.check import classify
from demur.formats.registry import format_of_all
from demur.model.run import Skipped, Traced

TRACES = DEFAULT_FOLDER / "traces"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TRACES.exists(), reason="the trace files are not part of the project"),
]
FILES: dict[str, tuple[str, dict[str, int]]] = {
    "garak_qual.report.jsonl": ("garak", {"complied": 3}),
    "garak_report_test.report.jsonl": ("garak", {"complied": 8}),
    "langfuse_google-adk-2025-08-28.trace.json": ("langfuse", {"complied": 2}),
    "langfuse_ingestion_completion.json": ("langfuse", {"complied": 1}),
    "langfuse_langgraph-python-2025-08-22.trace.json": ("langfuse", {"complied": 2}),
    "langfuse_vertex-ai-2025-08-01.trace.json": ("langfuse", {"complied": 1}),
    "langsmith_py_wrap_openai_.json": ("langsmith", {"complied": 1}),
    "litellm_live_28.jsonl": ("litellm", {"complied": 8, "refused": 5, "filtered": 10, "empty": 5}),
    "litellm_spend.json": ("litellm", {"unread": 1}),
    "litellm_standard.json": ("litellm", {"complied": 1}),
    "oinf_ai-generateText.json": ("vercel", {"complied": 2}),
    "oinf_all-spans.json": ("vercel", {"complied": 4}),
    "promptfoo_llama4.json": ("promptfoo", {"complied": 10}),
    # The instrumentation lost two streamed or structured refusals, which leaves them empty.
    "real_otlp_traceloop.json": ("otel", {"complied": 3, "refused": 4, "filtered": 5, "empty": 5}),
}


def records_of(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file: its lines, the rows of its list, or the document."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    whole = json.loads(text)
    return whole if isinstance(whole, list) else [whole]


@pytest.mark.parametrize("name", FILES)
def test_a_real_file_is_read_as_what_it_holds(name: str) -> None:
    """The format is found without being named, no row is unreadable, and every exchange is counted by its outcome."""
    expected, outcomes = FILES[name]
    records = records_of(TRACES / name)
    found = format_of_all(records[:50])
    assert found is not None
    assert expected == found.NAME
    reader = found.open_reader()
    rows = [row for record in records for row in reader.feed(record)] + list(reader.close())
    assert not [row.why for row in rows if isinstance(row, Skipped) and row.why.startswith("unreadable")]
    judged = Counter(str(classify(row.exchange.response).outcome) for row in rows if isinstance(row, Traced))
    assert dict(judged) == outcomes
    assert any(row.exchange.request for row in rows if isinstance(row, Traced)) or name == "litellm_spend.json"
