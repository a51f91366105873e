"""Runs of exchanges: read, judge, count, compare, scan and watch them."""
