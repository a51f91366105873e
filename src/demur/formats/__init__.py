"""Trace formats: one file per tool that writes logs of exchanges."""
