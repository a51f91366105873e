"""The same verdicts over Arrow columns, for files, engines and clusters.

`classify_batch` takes a record batch with a text column and returns one verdict a row. Where the batch also has a column
`finish_reason` (or `stop_reason`), `refusal` or `error`, the provider's own word comes first, as everywhere.

Laws: a row's verdict is that of `check` on it; the function is picklable and holds no state, so threads and cluster
workers can run it; the scans release the GIL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from demur.detect.passage import take_passage
from demur.detect.refusal import bands, reason_of, sigmoid
from demur.detect.refusal_columns import read_columns
from demur.errors import UsageError
from demur.model.verdict import Cause, Outcome, Reason
from demur.pipeline.judges import default_judge
from demur.text.view import views

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from demur.detect.refusal import RefusalDetector

__all__ = ["TEXT_COLUMNS", "classify_batch", "judge_texts"]

TEXT_COLUMNS = ("response", "output", "completion", "answer", "text")
_FILTERS = frozenset(
    {
        "content_filter",
        "content-filter",
        "content_filtered",
        "guardrail_intervened",
        "safety",
        "prohibited_content",
        "blocklist",
        "spii",
        "image_safety",
        "error_toxic",
    }
)
_CHUNK = 1024

Row = tuple[Outcome, float, Reason | None, Cause | None]
"""Outcome, score, reason and cause of one row."""


def judge_texts(texts: Sequence[str], *, detector: RefusalDetector | None = None) -> list[Row]:
    """Return the verdict on each text, without the evidence."""
    detector = detector or default_judge().detector
    rows: list[Row] = []
    for start in range(0, len(texts), _CHUNK):
        rows += _judge_chunk(texts[start : start + _CHUNK], detector)
    return rows


def classify_batch(batch: pa.RecordBatch, *, column: str | None = None) -> pa.RecordBatch:
    """Return a batch of verdicts, a row for each row: `outcome`, `score`, `reason`, `cause`.

    `column` names the text; without it the first of `TEXT_COLUMNS` that is there. A null is a response that is missing.
    """
    import pyarrow as pa

    name = column or next((n for n in TEXT_COLUMNS if n in batch.schema.names), None)
    if name is None or name not in batch.schema.names:
        have = ", ".join(batch.schema.names) or "none"
        raise UsageError(f"no text column among `{have}`", hint=f"name it with column=, or one of {', '.join(TEXT_COLUMNS)}")
    texts: list[str | None] = batch.column(name).cast(pa.string()).to_pylist()
    rows = _with_signals(texts, _said(batch))
    schema = pa.schema([("outcome", pa.string()), ("score", pa.float64()), ("reason", pa.string()), ("cause", pa.string())])
    outcomes, scores, reasons, causes = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = [pa.array([str(o) for o in outcomes], pa.string()), pa.array(scores, pa.float64())]
    columns += [pa.array([None if v is None else str(v) for v in values], pa.string()) for values in (reasons, causes)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _said(batch: pa.RecordBatch) -> list[Row | None]:
    """Return the verdict by the provider's own columns, None where these leave it to the text."""
    import pyarrow as pa

    found: list[Row | None] = [None] * batch.num_rows
    names = batch.schema.names
    for name in ("error", "refusal", "finish_reason", "stop_reason"):
        if name in names and pa.types.is_string(batch.schema.field(name).type):
            for i, value in enumerate(batch.column(name).to_pylist()):
                if value:
                    found[i] = _by_signal(name, value) or found[i]
    return found


def _by_signal(name: str, value: str) -> Row | None:
    if name == "error":
        return Outcome.FAILED, 0.0, None, Cause.PROVIDER_ERROR
    if name == "refusal" or value == "refusal":
        return Outcome.REFUSED, 1.0, Reason.SAFETY, Cause.PROVIDER_REFUSAL
    return (Outcome.FILTERED, 1.0, Reason.SAFETY, Cause.PROVIDER_FILTER) if value.lower() in _FILTERS else None


def _with_signals(texts: Sequence[str | None], said: Sequence[Row | None]) -> list[Row]:
    wanted = [i for i, text in enumerate(texts) if said[i] is None and text and text.strip()]
    judged = dict(zip(wanted, judge_texts([texts[i] or "" for i in wanted]), strict=True))
    return [said[i] or judged.get(i) or _without_text(text) for i, text in enumerate(texts)]


def _without_text(text: str | None) -> Row:
    return (Outcome.FAILED, 0.0, None, Cause.PROVIDER_ERROR) if text is None else (Outcome.EMPTY, 0.0, None, None)


def _judge_chunk(texts: Sequence[str], detector: RefusalDetector) -> list[Row]:
    seen = views(texts)
    floor = detector.floor
    rows: list[Row] = [(floor.outcome, floor.score, floor.reason, floor.cause)] * len(texts)
    chosen = _screened(seen, detector)
    passages = [take_passage(seen[i]) for i in chosen]
    values = read_columns(detector.reader, passages)
    linear = values @ np.array(detector.pack.weights) + detector.pack.bias
    partial = values @ np.array(detector.pack.partial_weights) + detector.pack.partial.bias
    for at, i in enumerate(chosen):
        rows[i] = _row(detector, float(linear[at]), float(partial[at]), values[at])
    return rows


def _screened(seen: Sequence[str], detector: RefusalDetector) -> list[int]:
    """Return the texts that may hold a declining phrase."""
    buffer = "\0".join(seen).replace("\n", " ").encode()
    ends = np.cumsum([len(text.encode()) + 1 for text in seen]) if not buffer.isascii() else np.cumsum([len(t) + 1 for t in seen])
    found: list[int] = np.unique(np.searchsorted(ends, detector.pack.screen.positions(buffer), side="right")).tolist()
    return found


def _row(detector: RefusalDetector, linear: float, partial: float, values: NDArray[np.float64]) -> Row:
    score = detector.probability(linear)
    near = sum(w * b for w, b in zip(detector.pack.partial.bands, bands(linear), strict=True))
    outcome = detector.outcome(linear, score, sigmoid(partial + near))
    declined = outcome in (Outcome.REFUSED, Outcome.PARTIAL, Outcome.UNSURE)
    reason = reason_of(detector.pack, np.flatnonzero(values).tolist()) if declined else None
    return outcome, score, reason, Cause.TEXT
