"""Anthropic's Messages format, whole and streamed."""
