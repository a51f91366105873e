"""How far is Spark? Asked of its tracker while jobs run, and told to whoever shows it.

Laws: all bytes of a run are told once it is read, and never more; a session that is watched is left as it was; where nobody
wants to know, or the session has no tracker, nothing is asked.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from demur.runs.ports import Progress

__all__ = ["watched"]

_EVERY_S = 0.3
_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
"""What a thread says of the jobs that it starts."""


@contextmanager
def watched(session: SparkSession, progress: Progress | None, *, name: str, size_bytes: int = 0) -> Iterator[None]:
    """Tell how far the jobs inside are: how many of the bytes of a run are judged, or which step is taken where there are none.

    A session without a tracker (Spark Connect) tells nothing.
    """
    context = getattr(session, "_sc", None)
    if progress is None or context is None:
        yield
        return
    usual = {key: context.getLocalProperty(key) for key in _GROUP}
    group = f"demur-{id(progress)}-{name}"
    context.setJobGroup(group, f"demur: {name}")
    teller = _Teller(context.statusTracker(), group, progress, name=name, size_bytes=size_bytes)
    teller.start()
    try:
        yield
        teller.stop()
        teller.finish()
    finally:
        teller.stop()
        for key, value in usual.items():
            context.setLocalProperty(key, value)


class _Teller(threading.Thread):
    """Asks Spark how many tasks are done, and passes it on as a share of the bytes that there are to read."""

    def __init__(
        self,
        tracker: Any,  # noqa: ANN401 — PySpark's own object
        group: str,
        progress: Progress,
        *,
        name: str,
        size_bytes: int,
    ) -> None:
        super().__init__(daemon=True)
        self._tracker = tracker
        self._group = group
        self._progress = progress
        self._name = name
        self._size = size_bytes
        self._steps = 0
        self._told = 0
        self._done = threading.Event()
        progress.start(name, size_bytes)

    def run(self) -> None:
        """Tell until it is stopped."""
        while not self._done.wait(_EVERY_S):
            jobs = sorted(self._tracker.getJobIdsForGroup(self._group))
            if jobs and self._size:
                self._tell_share(jobs[0])
            elif len(jobs) > self._steps:
                self._steps = len(jobs)
                self._progress.start(f"{self._name}, step {self._steps}", 0)

    def stop(self) -> None:
        """Tell no more."""
        self._done.set()
        self.join()

    def finish(self) -> None:
        """Tell that all was read."""
        if self._size:
            self._progress.read(self._size - self._told)

    def _tell_share(self, job: int) -> None:
        """Tell what is read by the first stage of the first job: it reads and judges all, the others go by what is kept."""
        info = self._tracker.getJobInfo(job)
        stage = self._tracker.getStageInfo(min(info.stageIds)) if info and info.stageIds else None
        if stage is None:
            return
        read = self._size * stage.numCompletedTasks // max(1, stage.numTasks)
        if read > self._told:
            self._progress.read(read - self._told)
            self._told = read
