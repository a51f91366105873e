"""Text and signals in, findings and verdicts out.

Laws: a structured signal beats any text; a verdict is explained by the findings that made it; no string makes a detector
raise, and its time and memory grow linearly with the text.
"""
