"""Scan and compare runs on a Spark cluster: the public home of `demur.runs.spark`."""

from __future__ import annotations

from demur.runs.spark.engine import compare, scan

__all__ = ["compare", "scan"]
