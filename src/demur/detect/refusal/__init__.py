"""The detector of refusals: the lexicon, its cues and its learned weights."""
