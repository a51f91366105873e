"""Detectors for prompts: attacks on the model's instructions, and requests for harm."""
