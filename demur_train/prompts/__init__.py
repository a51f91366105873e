"""The training of the pack for prompts: grammar, sets, fit, report."""
