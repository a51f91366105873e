"""Verdicts over Arrow columns, for files, engines and clusters.

The verdict on a row is the one that `check` gives for it alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from demur.detect.check import BLANK_CHARS, LearnedJudge, check, default_judge, judge_text
from demur.detect.refusal.columns import read_columns
from demur.detect.refusal.detector import bands, reason_of, sigmoid
from demur.detect.refusal.passage import take_passage
from demur.errors import UsageError
from demur.model.verdict import Cause, Outcome, Reason
from demur.text.column import view_column
from demur.text.excerpt import excerpt_of
from demur.text.language import uncovered_language

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from demur.detect.check import TextJudge
    from demur.detect.refusal.detector import RefusalDetector
    from demur.detect.refusal.passage import Passage

__all__ = ["TEXT_COLUMNS", "BatchJudge", "Row", "classify_batch", "judge_texts"]

TEXT_COLUMNS = ("response", "output", "completion", "answer", "text")
_SIGNAL_COLUMNS = ("error", "refusal", "finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")
_SAYS_MORE = frozenset({"error", "refusal"})
# Ends that leave the verdict to the text; nearly all rows of a log have one of these.
_ORDINARY = frozenset({"stop", "end_turn", "length", "max_tokens", "tool_calls", "tool_use", "stop_sequence"})
_SCREENED_AT_ONCE = 256  # texts folded and screened together: their buffers fit the processor's cache
_READ_AT_ONCE = 2048  # texts whose passages are read together: enough that the cost of an array operation is shared
_LINES_AS_SPACES = bytes.maketrans(b"\n", b" ")

Row = tuple[Outcome, float, Reason | None, Cause | None]  # outcome, score, reason and cause of one row
_EMPTY: Row = (Outcome.EMPTY, 0.0, None, None)
_UNREAD: Row = (Outcome.UNREAD, 0.0, None, Cause.LANGUAGE)
# A null is a response that never arrived, which is a failure of the provider and no verdict on the model.
_MISSING: Row = (Outcome.FAILED, 0.0, None, Cause.PROVIDER_ERROR)


def judge_texts(texts: Sequence[str], *, detector: RefusalDetector | None = None) -> list[Row]:
    """Return the verdict on each text, without the evidence."""
    detector = detector or default_judge().detector
    floor = detector.floor
    texts = [excerpt_of(text).text for text in texts]
    rows: list[Row] = [(floor.outcome, floor.score, floor.reason, floor.cause)] * len(texts)
    # Plain ASCII apart from the rest: it is folded and searched faster, and nearly all of most columns is.
    for plain in (True, False):
        chosen = [i for i, text in enumerate(texts) if text.isascii() is plain]
        for start in range(0, len(chosen), _READ_AT_ONCE):
            _judge_into(rows, chosen[start : start + _READ_AT_ONCE], texts, detector=detector)
    return rows


# Frozen and without state, so that threads share it and Spark pickles it to its workers.
@dataclass(frozen=True, slots=True)
class BatchJudge:
    """A judge of many texts at once, by the default detector or another way; it can be sent to other processes."""

    judge: TextJudge | None = None

    def texts(self, texts: Sequence[str]) -> list[Row]:
        """Return the verdict on each text, without the evidence."""
        if self.judge is None:
            return judge_texts(texts)
        if isinstance(self.judge, LearnedJudge):
            return judge_texts(texts, detector=self.judge.detector)
        verdicts = (judge_text(text, self.judge) for text in texts)
        return [(v.outcome, v.score, v.reason, v.cause) for v in verdicts]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of verdicts, as `classify_batch` does."""
        return classify_batch(batch, judge=self)


def classify_batch(
    batch: pa.RecordBatch, *, column: str | None = None, judge: BatchJudge | None = None
) -> pa.RecordBatch:
    """Return a batch of verdicts, a row for each row: `outcome`, `score`, `reason`, `cause`.

    `column` names the text; without it the first of `TEXT_COLUMNS` that is there. A null is a response that is missing.
    """
    import pyarrow as pa

    if not isinstance(batch, pa.RecordBatch):
        raise UsageError(
            f"expected a pyarrow RecordBatch, got a {type(batch).__name__}", hint="table.to_batches() makes some"
        )
    name = column or next((n for n in TEXT_COLUMNS if n in batch.schema.names), None)
    if name is None or name not in batch.schema.names:
        have = ", ".join(batch.schema.names) or "none"
        raise UsageError(
            f"no text column among `{have}`", hint=f"name it with column=, or one of {', '.join(TEXT_COLUMNS)}"
        )
    try:
        texts: list[str | None] = batch.column(batch.schema.names.index(name)).cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as exc:
        raise UsageError(f"column `{name}` is no text", hint="name another with column=") from exc
    judge = judge or BatchJudge()
    # The provider's own columns outrank the text, as in `check`, so rows that they decide are not read at all.
    known = _verdicts_by_signals(batch, texts, judge.judge)
    wanted = [i for i, text in enumerate(texts) if known[i] is None and text and text.strip()]
    judged = dict(zip(wanted, judge.texts([texts[i] or "" for i in wanted]), strict=True))
    rows = [known[i] or judged.get(i) or (_MISSING if text is None else _EMPTY) for i, text in enumerate(texts)]
    schema = pa.schema(
        [("outcome", pa.string()), ("score", pa.float64()), ("reason", pa.string()), ("cause", pa.string())]
    )
    outcomes, scores, reasons, causes = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = [pa.array([str(o) for o in outcomes], pa.string()), pa.array(scores, pa.float64())]
    columns += [pa.array([None if v is None else str(v) for v in values], pa.string()) for values in (reasons, causes)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _verdicts_by_signals(
    batch: pa.RecordBatch, texts: Sequence[str | None], judge: TextJudge | None
) -> list[Row | None]:
    """Return the verdict of each row that the provider's own columns decide, None for the others."""
    found: list[Row | None] = [None] * batch.num_rows
    names = [name for name in _SIGNAL_COLUMNS if name in batch.schema.names]
    values = {name: batch.column(batch.schema.names.index(name)).to_pylist() for name in names}
    for i, text in enumerate(texts):
        signals = {name: values[name][i] for name in names if values[name][i] is not None}
        # Only unusual rows go through `check`: parsing every row as a response would undo the gain of columns.
        if any(name in _SAYS_MORE or str(value).lower() not in _ORDINARY for name, value in signals.items()):
            verdict = check({"response": text, **signals}, judge=judge)
            if verdict.cause is not Cause.TEXT:
                found[i] = (verdict.outcome, verdict.score, verdict.reason, verdict.cause)
    return found


def _judge_into(rows: list[Row], chosen: Sequence[int], texts: Sequence[str], *, detector: RefusalDetector) -> None:
    """Judge the chosen texts; those without a declining phrase keep the verdict that is in their rows already."""
    pack = detector.pack
    waiting: list[tuple[int, Passage]] = []
    uncovered: list[int] = []
    for start in range(0, len(chosen), _SCREENED_AT_ONCE):
        some = chosen[start : start + _SCREENED_AT_ONCE]
        column = view_column([texts[i] for i in some])
        for row in np.flatnonzero(column.ends - column.starts < BLANK_CHARS).tolist():
            if not column.text(row).strip():
                rows[some[row]] = _EMPTY
        # Asked of all, not only of those that are found to comply: a text costs less while it is in the cache.
        uncovered += [i for i in some if uncovered_language(texts[i]) is not None]
        hits = pack.screen.positions(column.buffer.translate(_LINES_AS_SPACES))
        waiting += [(some[row], take_passage(column.text(row))) for row in column.rows_of(hits).tolist()]
    values = read_columns(detector.reader, [passage for _, passage in waiting])
    linear = (values @ np.array(pack.weights) + pack.bias).tolist()
    partial = (values @ np.array(pack.partial_weights) + pack.partial.bias).tolist()
    for (row, _), score, rest, features in zip(waiting, linear, partial, values, strict=True):
        near = sum(w * b for w, b in zip(pack.partial.bands, bands(score), strict=True))
        chance = detector.probability(score)
        outcome = detector.outcome(score, chance, sigmoid(rest + near))
        reason = None if outcome is Outcome.COMPLIED else reason_of(pack, np.flatnonzero(features).tolist())
        rows[row] = (outcome, chance, reason, Cause.TEXT)
    for row in uncovered:
        if rows[row][0] is Outcome.COMPLIED:
            rows[row] = _UNREAD
