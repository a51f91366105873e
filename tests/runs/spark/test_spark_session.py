"""Sessions: the one that is open is used, and left as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.runs.run_files import Heard

from demur.errors import UsageError
from demur.runs.spark.session import open_session, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_that_is_open_is_used_and_left_open(spark: SparkSession) -> None:
    """Others' sessions are neither replaced nor stopped; another master beside them is refused."""
    with open_session() as session:
        assert session.sparkContext is spark.sparkContext
    with pytest.raises(UsageError, match="a session is open already, not on `local"), open_session("local[1]"):
        pass
    assert spark.range(2).count() == 2


def test_a_watched_session_keeps_its_group_of_jobs(spark: SparkSession) -> None:
    """What a notebook says of its jobs, to cancel them by, is what it was after its session was watched."""
    spark.sparkContext.setJobGroup("cell 7", "a cell")
    with watched(spark, Heard(), name="counting"):
        assert str(spark.sparkContext.getLocalProperty("spark.jobGroup.id")).startswith("demur-")
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "cell 7"
