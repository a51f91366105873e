"""A real cluster on loopback: two executors in processes of their own; without Java or PySpark its tests say so and are left out."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demur.errors import UsageError
from demur.runs.spark.session import check_java, open_session

if TYPE_CHECKING:  # where there is no PySpark, these tests are skipped
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
MASTER = "local-cluster[2,1,1024]"
# Of a few hundred rows most of the time would go into compiling what is to be done with them.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK = (
    f'--driver-java-options "{JAVA}" --conf "spark.executor.extraJavaOptions={JAVA}" '
    "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.adaptive.enabled=false"
)


def why_not() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "no PySpark: pip install 'demur[cluster]'"
    try:
        check_java()
    except UsageError as exc:
        return str(exc)
    return None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs Java and PySpark; run with `make test-cluster`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    why = why_not() if here else None
    for item in here:
        item.add_marker(pytest.mark.cluster)
        item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
        # PySpark leaves the sockets of its gateway to the collector.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two executors, which find the judges of these tests by the path that they inherit."""
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{QUICK} pyspark-shell"
    with open_session(MASTER) as session:
        yield session
