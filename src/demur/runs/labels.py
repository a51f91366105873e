"""What people say of some pairs: a file of rows with a key and whether each side refused.

Laws: a row names its pair by `id` (or `key`) and says of `baseline` and `candidate` whether it is a refusal; a word that
says neither, and a pair that is labelled twice, is an error; rows whose pair is not in the runs are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import EmptyInputError, ShapeError
from demur.io.records import named_rows
from demur.model.comparison import LabelledPair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.io.config import InputLimits
    from demur.runs.engine import Engine
    from demur.wire.fields import JsonObject

__all__ = ["read_label_pairs"]

_REFUSED = frozenset({"refused", "refusal", "filtered", "abstained", "true", "yes", "1"})
_ANSWERED = frozenset({"complied", "compliance", "answered", "partial", "empty", "false", "no", "0"})


def read_label_pairs(engine: Engine, name: str, *, limits: InputLimits) -> tuple[LabelledPair, ...]:
    """Return the labelled pairs of the runs that are paired in the engine."""
    import pyarrow as pa

    rows = list(_labels(engine, name, limits))
    keys, humans = zip(*rows, strict=True) if rows else ((), ())
    schema = pa.schema([("key", pa.string()), ("human", pa.int64())])
    engine.ask("CREATE OR REPLACE TEMP TABLE labels (key VARCHAR, human BIGINT)")
    engine.insert(
        "labels", pa.RecordBatch.from_arrays([pa.array(keys, pa.string()), pa.array(humans, pa.int64())], schema=schema)
    )
    found = engine.ask(
        "SELECT human, (cs = 'a')::INTEGER - (bs = 'a')::INTEGER FROM labels JOIN pairs USING (key) "
        "WHERE k = 1 AND bs IN ('a', 'n') AND cs IN ('a', 'n') ORDER BY key, human"
    )
    if not found:
        raise EmptyInputError("no label is of a pair in the runs", source=name, hint="rows need the `id` of a pair")
    return tuple(LabelledPair(int(human), int(detector)) for human, detector in found)


def _labels(engine: Engine, name: str, limits: InputLimits) -> Iterator[tuple[str, int]]:
    seen: set[str] = set()
    for source, line, record in named_rows([name], engine.folder, limits):
        try:
            label = _key(record), _refused(record, "candidate") - _refused(record, "baseline")
        except ShapeError as exc:
            raise exc.at(source, line) from exc
        if label[0] in seen:
            hint = "keep one label a pair"
            raise ShapeError(f"`{label[0]}` is labelled twice", source=source, line=line, hint=hint)
        seen.add(label[0])
        yield label


def _key(record: JsonObject) -> str:
    key = record.get("id", record.get("key"))
    if key is None:
        raise ShapeError("no `id`", hint="a label names its pair by `id`")
    return str(key)


def _refused(record: JsonObject, side: str) -> int:
    word = str(record.get(side)).strip().lower()
    if word in _REFUSED or word in _ANSWERED:
        return int(word in _REFUSED)
    raise ShapeError(f"`{side}` is `{word[:40]}`", hint="say `refused` or `answered` of each side")
