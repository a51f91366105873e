"""Detectors: text and provider signals in, findings and verdicts out.

No string makes a detector raise, and time and memory grow linearly with the text.
"""
