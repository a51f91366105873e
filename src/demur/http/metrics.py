"""Metrics that Prometheus reads, summed over all workers.

Every series is known in advance: each label has a closed set of values, so what users send can never create a series. Therefore the
metrics of a worker are one row of numbers in a memory-mapped file of its own, in a folder that all workers share.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from demur.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CONTENT_TYPE", "Family", "FamilyKind", "MetricsBoard"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
_MAX_SERIES = 5000
_SIGNATURE_BYTES = 32
_NUMBER_BYTES = 8
_ENDING = ".figures"


class FamilyKind(StrEnum):
    """What a family of series counts."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """Series of one name: what they mean, their labels with every value that each can have, the bounds of a histogram."""

    name: str
    kind: FamilyKind
    what: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bounds: tuple[float, ...] = ()

    def label_sets(self) -> Iterator[tuple[str, ...]]:
        """Yield every combination of the labels' values, `other` included."""
        return product(*(dict.fromkeys((*values, OTHER)) for _, values in self.labels))

    @property
    def width(self) -> int:
        """How many numbers a series takes: a histogram has one per bound, one beyond them, and the sum."""
        return len(self.bounds) + 2 if self.kind is FamilyKind.HISTOGRAM else 1


class MetricsBoard:
    """The metrics of one worker, and the sum over all workers that share its folder."""

    def __init__(self, families: Sequence[Family], folder: str | Path, *, worker: int | None = None) -> None:
        self._families = {family.name: family for family in families}
        self._places: dict[tuple[str, ...], int] = {}
        size = 0
        for family in families:
            for values in family.label_sets():
                self._places[family.name, *values] = size
                size += family.width
        if len(self._places) > _MAX_SERIES or len(self._families) < len(families):
            raise UsageError(f"{len(self._places)} series of figures", hint="name fewer labels, and no family twice")
        self._known = {family.name: tuple(frozenset(values) for _, values in family.labels) for family in families}
        self._signature = hashlib.sha256(repr(families).encode()).digest()
        self._size = size
        self._folder = Path(folder)
        self._worker = os.getpid() if worker is None else worker
        self._map, self._row = self._mapped(self._folder / f"{self._worker}{_ENDING}")
        for family in families:
            if family.kind is FamilyKind.GAUGE:
                # A process that had this id before us has ended, and its running requests with it.
                for values in family.label_sets():
                    self._row[self._places[family.name, *values]] = 0.0

    def _mapped(self, path: Path) -> tuple[mmap.mmap, memoryview[float]]:
        length = _SIGNATURE_BYTES + self._size * _NUMBER_BYTES
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # For this user only: the folder may be a shared temporary one.
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                # A row of another version has other series: it cannot be continued.
                if file.read(_SIGNATURE_BYTES) != self._signature or path.stat().st_size != length:
                    file.truncate(0)
                    file.seek(0)
                    file.write(self._signature)
                    file.truncate(length)
                    file.flush()
                mapped = mmap.mmap(file.fileno(), length)
        except OSError as exc:
            what = (exc.strerror or "cannot be used").lower()
            raise UsageError(f"`{self._folder}` cannot hold figures: {what}", hint="see `metrics.folder`") from exc
        return mapped, memoryview(mapped)[_SIGNATURE_BYTES:].cast("d")

    def add(self, name: str, *values: str, by: float = 1.0) -> None:
        """Add to a counter or a gauge; a value that the label does not know counts as `other`."""
        self._row[self._place(name, values)] += by

    def observe(self, name: str, seconds: float, *values: str) -> None:
        """Count one observation in a histogram."""
        bounds = self._families[name].bounds
        place = self._place(name, values)
        # A bound belongs to the bucket below it: Prometheus reads `le` as less than or equal.
        self._row[place + bisect_left(bounds, seconds)] += 1.0
        self._row[place + len(bounds) + 1] += seconds

    def _place(self, name: str, values: tuple[str, ...]) -> int:
        place = self._places.get((name, *values))
        if place is None:
            known = self._known[name]
            if len(values) != len(known):
                raise UsageError(f"`{name}` takes {len(known)} labels", hint="give one value for each")
            bounded = [value if value in words else OTHER for value, words in zip(values, known, strict=True)]
            place = self._places[name, *bounded]
        return place

    def text(self) -> str:
        """Return the sum over all workers as Prometheus reads it."""
        counts, now = self._summed()
        lines = []
        for family in self._families.values():
            lines += [f"# HELP {family.name} {_escape(family.what)}", f"# TYPE {family.name} {family.kind}"]
            row = now if family.kind is FamilyKind.GAUGE else counts
            for values in family.label_sets():
                place = self._places[family.name, *values]
                numbers = row[place : place + family.width]
                # A combination that never occurred is left out; families without labels are always there.
                if any(numbers) or not values:
                    lines += _series_lines(family, values, numbers)
        return "\n".join(lines) + "\n"

    def read(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the series of a counter that is not zero, by their labels' values, over all workers."""
        counts, _ = self._summed()
        found = {values: counts[self._places[name, *values]] for values in self._families[name].label_sets()}
        return {values: number for values, number in found.items() if number}

    def _summed(self) -> tuple[list[float], list[float]]:
        """Return the sums over all workers there ever were, and over those that are alive."""
        counts, now = [0.0] * self._size, [0.0] * self._size
        for path in sorted(self._folder.glob(f"*{_ENDING}")):
            try:
                held = path.read_bytes()
            except OSError:
                continue
            # A worker that is just starting, or one with another set of metrics, has no row that could be added.
            if len(held) != _SIGNATURE_BYTES + self._size * _NUMBER_BYTES or not held.startswith(self._signature):
                continue
            row = memoryview(held)[_SIGNATURE_BYTES:].cast("d")
            counts = [a + b for a, b in zip(counts, row, strict=True)]
            if _is_alive(path.stem, self._worker):
                now = [a + b for a, b in zip(now, row, strict=True)]
        return counts, now

    def close(self) -> None:
        """Release the file, which stays: a counter must not fall when a worker ends."""
        self._row.release()
        with contextlib.suppress(BufferError):
            self._map.close()


def _is_alive(worker: str, ours: int) -> bool:
    # On Windows signal 0 is Ctrl-C, not a question: there a worker reports only its own gauges.
    if worker == str(ours) or os.name == "nt":
        return worker == str(ours)
    try:
        os.kill(int(worker), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _escape(text: str) -> str:
    # The text format of Prometheus escapes backslashes and line feeds, and double quotes in labels only.
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _labels(pairs: Sequence[tuple[str, str]]) -> str:
    quoted = [(name, _escape(value).replace('"', '\\"')) for name, value in pairs]
    inside = ",".join(f'{name}="{value}"' for name, value in quoted)
    return f"{{{inside}}}" if inside else ""


def _series_lines(family: Family, values: tuple[str, ...], numbers: Sequence[float]) -> list[str]:
    pairs = [(name, value) for (name, _), value in zip(family.labels, values, strict=True)]
    if family.kind is not FamilyKind.HISTOGRAM:
        return [f"{family.name}{_labels(pairs)} {numbers[0]:.17g}"]
    lines = []
    below = 0.0
    for bound, count in zip((*(f"{bound:g}" for bound in family.bounds), "+Inf"), numbers, strict=False):
        below += count
        lines.append(f"{family.name}_bucket{_labels([*pairs, ('le', bound)])} {below:.17g}")
    lines.append(f"{family.name}_sum{_labels(pairs)} {numbers[-1]:.17g}")
    lines.append(f"{family.name}_count{_labels(pairs)} {below:.17g}")
    return lines
