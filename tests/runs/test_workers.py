"""Work in this process and in others."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

import pytest

from demur.errors import InputError
from demur.runs.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_one_process_is_this_one() -> None:
    """A single worker needs no other process, and reads its work as it goes."""
    workers = Workers(1)
    results = workers.ordered(lambda n: (os.getpid(), n), count())
    assert [next(results), next(results)] == [(os.getpid(), 0), (os.getpid(), 1)]
    assert workers.call(str, 5) == "5"
    assert Workers(0).count == 1


def test_several_processes_keep_the_order_and_the_bound() -> None:
    """Results come in order, and only a few pieces of work are taken ahead of them; faults come through."""
    workers = Workers(1)
    workers.grow(2)
    taken: list[int] = []

    def pieces() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    try:
        results = workers.ordered(abs, pieces())
        assert next(results) == 0
        assert len(taken) <= 5
        assert list(results) == list(range(1, 40))
        assert workers.call(os.getpid) != os.getpid()
        workers.grow(8)
        assert workers.count == 2
        with pytest.raises(ValueError, match="invalid literal"):
            workers.call(int, "x")
    finally:
        workers.close()


def test_a_process_that_dies_is_said() -> None:
    """A worker that was lost is an error of one line, not a wait without end."""
    workers = Workers(2)
    try:
        with pytest.raises(InputError, match=r"a worker process was lost; .*--jobs 1"):
            workers.call(os._exit, 1)
    finally:
        workers.close()
