"""Exchanges of two runs, paired for the axes."""
