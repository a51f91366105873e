"""Runs on a Spark cluster, with the same counts as on one machine."""
