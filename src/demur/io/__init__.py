"""Files, sources, settings and the structured log."""
