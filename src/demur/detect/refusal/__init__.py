"""Is a response a refusal? The lexicon, its cues and its learned weights."""
