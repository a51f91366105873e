"""A growing log, followed row by row."""
