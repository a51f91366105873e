"""The record stage: a passport is sealed, its envelope becomes a leaf of a log, and anyone can check both.

Laws: no clock, key, file or chance in here: they arrive as arguments, so the same input gives the same bytes.
"""
