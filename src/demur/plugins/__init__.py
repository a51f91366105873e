"""Demur inside other tools: pytest, Inspect, promptfoo, Lucid, LiteLLM."""
